"""Repositories that were made to harm their reader: generated, never stored.

`repositories` has one function for each, `running` runs a command under limits, and
`test_hostile` runs every command that touches the harmful file.
"""
