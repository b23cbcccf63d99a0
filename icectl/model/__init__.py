"""What the files of a repository say, as frozen values with the specification's names.

Standard library only. Lists keep the order they have in the file, so that a check can judge
it; encoders sort. Times are integers: microseconds since 1970-01-01 UTC.
"""
