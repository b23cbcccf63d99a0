"""Which paths the storage layer accepts, and which names it keeps for itself."""

from __future__ import annotations

from icectl.errors import StorageError

PRIVATE_PREFIX = ".icectl-"
"""Names that begin so are icectl's lock, temporary and probe files: no listing shows them.

Icechunk's own names never begin with a dot, so that they cannot collide.
"""

_NO_NAMES = frozenset({"", ".", ".."})


def is_private(path: str) -> bool:
    """Whether a listing leaves this path out."""
    return path.rpartition("/")[2].startswith(PRIVATE_PREFIX)


def check_path(path: str) -> str:
    """The path itself, when it names an object below the root; `StorageError` otherwise."""
    if "\0" in path or not _NO_NAMES.isdisjoint(path.split("/")):
        raise StorageError(f"{path!r} is not the path of an object inside a repository")
    return path


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
