"""The checks: pure functions that compare files with the specification and with each other.

They yield a `Problem` for each broken rule. `validate` reports all problems; commands that delete
raise the first one as an error (`problem.raise_first`). `rules` is the catalogue of codes.
"""
