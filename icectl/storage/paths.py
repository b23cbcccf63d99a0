"""Which paths the storage layer accepts, and which names it keeps for itself."""

from __future__ import annotations

from icectl import limits
from icectl.errors import ObjectTooLargeError, StorageError

PRIVATE_PREFIX = ".icectl-"
"""Names that begin so are icectl's lock, temporary and probe files: no listing shows them.

Icechunk's own names never begin with a dot, so that they cannot collide.
"""

MAX_NAME = 1024 - 256
"""Bytes: object stores allow 1,024 for a whole key, and a prefix takes its part."""

_NO_NAMES = frozenset({"", ".", ".."})


def is_private(path: str) -> bool:
    """Whether a listing leaves this path out."""
    return path.rpartition("/")[2].startswith(PRIVATE_PREFIX)


def is_object_name(path: str) -> bool:
    """Whether an object below the root can have the name, on any storage."""
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return False
    return len(encoded) <= MAX_NAME and "\0" not in path and _NO_NAMES.isdisjoint(path.split("/"))


def check_path(path: str) -> str:
    """The path itself, when it names an object below the root; `StorageError` otherwise."""
    if "\0" in path or not _NO_NAMES.isdisjoint(path.split("/")):
        raise StorageError(f"{path!r} is not the path of an object inside a repository")
    return path


def check_size(path: str, size: int) -> None:
    """`ObjectTooLargeError` for an object that is not to be read as a whole."""
    if size > limits.FILE_BYTES:
        raise ObjectTooLargeError(
            f"{path} has {size:,} bytes, more than {limits.FILE_BYTES:,} (the limit FILE_BYTES "
            "of icectl)"
        )


def check_text(path: str) -> str:
    """The path itself, when it is Unicode text, which object storage requires of a name."""
    if not path.isascii():
        try:
            path.encode()
        except UnicodeEncodeError:
            raise StorageError(f"{path!r} is not valid UTF-8") from None
    return path


def check_prefix(prefix: str) -> str:
    """The directory without a trailing slash; `""` is the root."""
    return check_path(prefix.rstrip("/")) if prefix else ""


def join_path(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix else name
