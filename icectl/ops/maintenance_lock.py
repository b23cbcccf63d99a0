"""One maintenance at a time per repository, on this machine.

Two runs at once are safe, because every change of a repository is conditional; the second would
only repeat the work of the first. Therefore a lock that cannot be created, for example on a full
disk, does not stop the maintenance, which may free space there.

The file is locked, not its existence: the lock ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from icectl.errors import ConflictError, Remedy
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.storage.contract import Storage

PAUSE_SECONDS = 0.2


class BusyError(ConflictError):
    """Another process maintains the repository."""

    kind = "busy"


def state_directory(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/icectl`, else `~/.local/state/icectl`."""
    base = environ.get("XDG_STATE_HOME", "")
    # The specification of these directories ignores relative paths.
    if os.path.isabs(base):  # noqa: PTH117
        return Path(base) / "icectl"
    home = environ.get("HOME") or "~"
    return Path(home).expanduser() / ".local" / "state" / "icectl"


def state_directory_name(environ: Mapping[str, str]) -> str:
    """Also if the home directory is unknown."""
    try:
        return str(state_directory(environ))
    except RuntimeError:
        return "~/.local/state/icectl"


def lock_name(storage: Storage) -> str:
    """The same for all names of a repository; the server is part of it."""
    location = storage.location
    if "://" not in location:
        location = os.path.realpath(location)
    return hashlib.sha256(
        f"{storage.server}\n{location}".encode(errors="surrogateescape")
    ).hexdigest()


@contextmanager
def maintenance_lock(
    storage: Storage,
    environ: Mapping[str, str],
    progress: Progress,
    warn: Callable[[str], None],
    wait_seconds: float = 0,
) -> Iterator[None]:
    """Hold the lock of the repository; `BusyError` if another process has it for too long."""
    file = None
    try:
        try:
            file = _open(state_directory(environ), lock_name(storage))
            _take(file, progress, wait_seconds)
        except (OSError, RuntimeError) as error:  # RuntimeError: the home directory is unknown
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            place = state_directory_name(environ)
            warn(f"there is no lock in {place} ({reason}); another run may do the same work")
        yield
    finally:
        if file is not None:
            os.close(file)


def _open(directory: Path, name: str) -> int:
    """Open the lock file; nobody else may have put it, or a link, there."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = os.fstat(root)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise PermissionError("it belongs to another user, or others can write to it")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        return os.open(f"{name}.lock", flags, 0o600, dir_fd=root)
    finally:
        os.close(root)


def _take(file: int, progress: Progress, wait_seconds: float) -> None:
    if _try_lock(file):
        return
    deadline = time.monotonic() + wait_seconds
    with progress.phase("waiting for another run"):
        while time.monotonic() < deadline:
            if progress.is_over:
                raise OutOfTimeError(
                    "the time limit expired while another process was maintaining this repository",
                    hint=Remedy("continue-later"),
                )
            time.sleep(PAUSE_SECONDS)
            if _try_lock(file):
                return
    raise BusyError(
        "another process is maintaining this repository", hint=Remedy("wait-for-maintenance")
    )


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
