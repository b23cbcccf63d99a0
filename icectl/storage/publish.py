"""Replace a file in an open directory atomically: readers see either the old or the new bytes."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from icectl.errors import PreconditionFailedError
from icectl.storage.paths import PRIVATE_PREFIX

# One name per directory is enough, because writers hold the lock. The next put removes the file
# that a killed process left behind.
TEMPORARY_NAME = f"{PRIVATE_PREFIX}temporary"
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def write_temporary(root: int, data: bytes, old: os.stat_result | None) -> None:
    """Write the temporary file in the root: in refs/, official clients would take it for a ref."""
    # Never truncate it: after a kill it may be a second hard link to an object.
    with suppress(FileNotFoundError):
        os.unlink(TEMPORARY_NAME, dir_fd=root)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    mode = 0o666 if old is None else 0o600  # until it has owner and mode of the old file
    with os.fdopen(os.open(TEMPORARY_NAME, flags, mode, dir_fd=root), "wb") as file:
        if old is not None:
            _keep_owner_and_mode(file.fileno(), old)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _keep_owner_and_mode(file: int, old: os.stat_result) -> None:
    for owner, group in ((old.st_uid, old.st_gid), (-1, old.st_gid)):
        with suppress(PermissionError):
            os.fchown(file, owner, group)
            break
    mode = stat.S_IMODE(old.st_mode)
    if os.fstat(file).st_gid != old.st_gid:
        # If the group differs, it gets only the permissions of others.
        mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(file, mode)


def publish(root: int, directory: int, name: str, path: str, *, is_new: bool) -> None:
    if is_new:
        # link() never replaces a file, so it cannot overwrite a writer that takes no lock.
        try:
            os.link(
                TEMPORARY_NAME,
                name,
                src_dir_fd=root,
                dst_dir_fd=directory,
                follow_symlinks=False,
            )
        except FileExistsError:
            raise PreconditionFailedError(path) from None
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            if exists(directory, name):
                raise PreconditionFailedError(path) from None
        else:
            os.unlink(TEMPORARY_NAME, dir_fd=root)
            return
    os.replace(TEMPORARY_NAME, name, src_dir_fd=root, dst_dir_fd=directory)
