"""Decode and encode the files of a repository: pure functions between bytes and model.

A decoder either returns the content of the file or raises `FormatError`. It checks everything
before use, and no file can make it hang or exhaust memory.
"""
