"""Write files of the user, such as plans, reports and metrics: never into the repository."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from icectl.errors import IcectlError, UsageError
from icectl.storage.paths import PRIVATE_PREFIX


def check_writable(option: str, path: Path, *, is_replaced: bool = False) -> None:
    """`UsageError` before the work if the file of the option could not be written after it.

    `is_replaced`: it is written by `write_shared`, for which the directory must be writable, unless
    the file is a pipe or a device.
    """
    try:
        reason = _obstacle(path, is_replaced)
    except PermissionError:  # to look into a directory above it
        reason = "permission denied"
    if reason:
        raise UsageError(
            f"{path} of {option} cannot be written: {reason}",
            hint=f"give {option} a FILE in an existing, writable directory",
        )


def _obstacle(path: Path, is_replaced: bool) -> str:
    directory = path.resolve().parent
    is_opened = path.exists() and not (is_replaced and path.is_file())
    if path.is_dir():
        return "it is not the name of a file"
    if not directory.is_dir():
        return "its directory does not exist"
    return "" if os.access(path if is_opened else directory, os.W_OK) else "permission denied"


def check_outside(path: Path, location: str) -> None:
    """`UsageError` if the file lies in the repository at the location."""
    if path.resolve().is_relative_to(Path(location).resolve()):
        raise UsageError(
            f"the file {path} lies in the repository, and could replace a file of it",
            hint="name a file elsewhere",
        )


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open for writing; a new file has the mode 0600, an existing one keeps its mode."""
    # Path.open takes no opener.
    return open(path, mode, opener=_create_private, **options)


def _create_private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def write_private(path: Path, lines: Iterable[str]) -> None:
    try:
        with open_private(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}",
            hint="name a file in an existing, writable directory",
        ) from error


def write_shared(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace a file that others read; no reader sees a part of it.

    Without `mode`, an existing file keeps its mode, and a new one gets the usual mode.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device cannot be replaced
            path.write_bytes(data)
        else:
            replace_file(path, data, _usual_mode(path) if mode is None else mode)
    except OSError as error:
        raise IcectlError(f"{path} cannot be written: {error.strerror}") from error


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Replace the file atomically, or the file that a link leads to."""
    import tempfile

    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=PRIVATE_PREFIX)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink()
        raise


def _usual_mode(path: Path) -> int:
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0o077)
    os.umask(umask)
    return 0o666 & ~umask
