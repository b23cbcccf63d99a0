"""The content of a repository's files as frozen values, with the specification's names.

The package imports only the standard library. Lists keep the order of the file, so checks can
verify it; encoders sort. Times are integers: microseconds since 1970-01-01 UTC.
"""
