"""Writing a file in an open directory so that readers see the old bytes or the new ones."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from icectl.errors import PreconditionFailedError
from icectl.storage.paths import PRIVATE_PREFIX

# One name per directory is enough, since it is written under the lock only; and what a killed
# process left behind is removed by the next put there.
TEMPORARY_NAME = f"{PRIVATE_PREFIX}temporary"
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def write_temporary(root: int, data: bytes, old: os.stat_result | None) -> None:
    """In the root: left by a kill below refs/, the official client takes it for a ref."""
    # Never truncated in place: after a kill it may be a second link to an object.
    with suppress(FileNotFoundError):
        os.unlink(TEMPORARY_NAME, dir_fd=root)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    mode = 0o666 if old is None else 0o600  # until it has the owner and the mode of the old one
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
        # Another group gets no more than everybody.
        mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(file, mode)


def publish(root: int, directory: int, name: str, path: str, *, is_new: bool) -> None:
    if is_new:
        # A link never replaces, so even a writer that takes no lock is not overwritten.
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
