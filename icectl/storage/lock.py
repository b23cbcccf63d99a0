"""The lock of a repository on local disk.

Any process that can open the lock file can hold the lock, so only users with write access to the
repository may open it. icectl never follows a link to the lock file and changes only its own file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from icectl.errors import RefusedError, StorageError
from icectl.storage.paths import PRIVATE_PREFIX

LOCK_NAME = f"{PRIVATE_PREFIX}lock"
LOCK_SECONDS = 60.0
"""Seconds that a writer waits. A put holds the lock for one or two fsyncs."""
LONGEST_PAUSE = 0.02
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


@contextmanager
def locked(root: int, location: str) -> Iterator[None]:
    """Hold the lock in the open directory `root`; messages call it `location`."""
    lock = _open(root, location)
    try:
        _take(lock, location)
        yield
    finally:
        os.close(lock)


def _open(root: int, location: str) -> int:
    try:
        lock = os.open(LOCK_NAME, FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=root)
    except FileExistsError:
        lock = _open_existing(root, location)
    else:
        _share(lock, os.fstat(root))
    return lock


def _share(lock: int, root: os.stat_result) -> None:
    """Give the lock file the owner and group of the root, as far as permitted."""
    mode = _mode_of_writers(root.st_mode)
    with suppress(PermissionError):
        if os.geteuid() == 0:
            os.fchown(lock, root.st_uid, root.st_gid)
        else:
            os.fchown(lock, -1, root.st_gid)
    if os.fstat(lock).st_gid != root.st_gid:
        mode &= ~0o070
    os.fchmod(lock, mode)


def _open_existing(root: int, location: str) -> int:
    try:
        lock = os.open(LOCK_NAME, FLAGS, dir_fd=root)
    except PermissionError:
        raise StorageError(
            f"{location}/{LOCK_NAME} cannot be opened: permission denied; nothing was written",
            hint="ask its owner to delete it while icectl is not running",
        ) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _not_a_file(location) from None
        raise
    found = os.fstat(lock)
    if not stat.S_ISREG(found.st_mode):
        os.close(lock)
        raise _not_a_file(location)
    # Earlier versions made it world-readable. A file with a second hard link may not be ours.
    mode = stat.S_IMODE(found.st_mode)
    closed = mode & _mode_of_writers(os.fstat(root).st_mode)
    if closed != mode and found.st_nlink == 1 and found.st_uid == os.geteuid():
        os.fchmod(lock, closed)
    return lock


def _not_a_file(location: str) -> StorageError:
    import shlex

    path = f"{location}/{LOCK_NAME}"
    return StorageError(
        f"{path} is not a regular file; nothing was written",
        hint="move it away while icectl is not running: "
        f"mv {shlex.quote(path)} {shlex.quote(path + '.old')}",
    )


def _mode_of_writers(directory: int) -> int:
    """Return a mode that allows read and write only to those who can write to the directory."""
    return 0o600 | sum(0o6 << bits for bits in (3, 0) if directory & (0o2 << bits))


def _take(lock: int, location: str) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    pause = 0.0005
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                import shlex

                raise StorageError(
                    f"another process has held the lock of {location} for {LOCK_SECONDS:g} s;"
                    " nothing was written",
                    hint=f"find that process: fuser -v {shlex.quote(f'{location}/{LOCK_NAME}')}",
                ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            raise RefusedError(
                f"the file system of {location} does not support file locks, so two writers could"
                " overwrite each other",
                hint="use another file system",
            ) from error
        else:
            return
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
