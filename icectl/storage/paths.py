"""Valid object paths, and the names that icectl reserves."""

from __future__ import annotations

from icectl import limits
from icectl.errors import FormatError, ObjectTooLargeError, StorageError

PRIVATE_PREFIX = ".icectl-"
"""The prefix of icectl's lock, temporary and probe files, which no listing includes.

Names in the format never begin with a dot, so they cannot collide.
"""

MAX_NAME = 1024 - 256
"""In bytes. Object stores allow 1,024 for a key, which includes the prefix."""

_NO_NAMES = frozenset({"", ".", ".."})


def is_private(path: str) -> bool:
    """Return whether listings omit this path."""
    return path.rpartition("/")[2].startswith(PRIVATE_PREFIX)


def is_object_name(path: str) -> bool:
    """Return whether an object below the root can have this name on any storage."""
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return False
    return len(encoded) <= MAX_NAME and "\0" not in path and _NO_NAMES.isdisjoint(path.split("/"))


def check_path(path: str) -> str:
    """Return the path; raise `StorageError` if it is not a valid path below the root."""
    if "\0" in path or not _NO_NAMES.isdisjoint(path.split("/")):
        raise StorageError(f"{path!r} is not a valid path of an object in a repository")
    return path


def check_size(path: str, size: int) -> None:
    """Raise `ObjectTooLargeError` if the object is too large to be read in one piece."""
    if size > limits.FILE_BYTES:
        raise ObjectTooLargeError(
            f"{path} has {size:,} bytes, more than {limits.FILE_BYTES:,} (icectl limit FILE_BYTES)"
        )


def check_length(path: str, size: int, least: int) -> None:
    """Raise `FormatError` if the object is shorter than what refers to it says."""
    if size < least:
        raise FormatError(f"it has {size:,} bytes, fewer than the {least:,} expected", path=path)


def check_text(path: str) -> str:
    """Return the path; raise `StorageError` if it is not Unicode, as object stores require."""
    if not path.isascii():
        try:
            path.encode()
        except UnicodeEncodeError:
            raise StorageError(f"{path!r} is not valid UTF-8") from None
    return path


def check_prefix(prefix: str) -> str:
    """Return the directory without a trailing slash; `""` is the root."""
    return check_path(prefix.rstrip("/")) if prefix else ""


def join_path(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name
