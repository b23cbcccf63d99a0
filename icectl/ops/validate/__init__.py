"""Whether a repository is sound: every rule of the specification, level by level.

`validate` looks and never changes anything. What it finds carries a stable code; the rules
with their codes are in `rules`. The checks of one file are pure functions from its bytes and
what others claim about it to problems, so that every engine shares them.
"""
