"""Bytes to model and back: pure functions without I/O.

A decoder either returns what the file says or raises `FormatError`; nothing in a file is
believed before it was checked, and no file can make a decoder hang or exhaust the memory.
"""
