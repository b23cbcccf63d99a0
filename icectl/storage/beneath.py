"""Open files and directories beneath a root without following symbolic links.

Each component of a path is opened relative to its parent directory, so a user with write access
to a repository cannot redirect a read, write or deletion, not even during the operation. The path
of the root may contain links. `follow_links` is the user's explicit opt-in.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from icectl.errors import Remedy, StorageError
from icectl.storage.paths import check_size

# O_PATH needs only search permission.
PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
READABLE = os.O_RDONLY | os.O_DIRECTORY
# A FIFO without a writer must not block.
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

LONGEST_PATH = 4096
SPARSE_METADATA = 16 << 20
SPARSE_RANGE = 256 << 20
"""Larger reads of files with holes are refused: the size on disk limits the memory."""


class Beneath:
    """Opens files and directories below the root of a repository on disk."""

    def __init__(self, root: str, *, follow_links: bool) -> None:
        self.root = root
        self.follow_links = follow_links

    def open_directory(self, path: str, flags: int = PASS_THROUGH, *, create: bool = False) -> int:
        """Open the directory `path` (`""` is the root); the caller closes the descriptor."""
        if len(path) > LONGEST_PATH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        if not path or (self.follow_links and not create):
            return os.open(f"{self.root}/{path}", flags)
        parent: int | None = None
        parts = path.split("/")
        for index, part in enumerate(parts):
            # O_NOFOLLOW applies only to the last component, so the path of the root may have links.
            name = part if index else f"{self.root}/{part}"
            try:
                descriptor = self._open_below(parent, name, flags, create=create)
            except NotADirectoryError:
                self._refuse_link(parent, name, "/".join(parts[: index + 1]))
                raise
            finally:
                if parent is not None:
                    os.close(parent)
            parent = descriptor
        return descriptor

    def open_file(self, directory: int | None, name: str, path: str) -> tuple[int, os.stat_result]:
        """Open a regular file in an open directory; return the descriptor and the status.

        Without a directory, `name` is a full path.
        """
        flags = FILE if self.follow_links else FILE | os.O_NOFOLLOW
        try:
            descriptor = os.open(name, flags, dir_fd=directory)
        except OSError as error:
            if error.errno == errno.ELOOP:
                self._refuse_link(directory, name, path)
            if error.errno == errno.ENXIO:  # a socket, or a device without a driver
                raise self.not_regular(path) from None
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                if stat.S_ISDIR(status.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                raise self.not_regular(path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, status

    def open_file_at(self, path: str) -> tuple[int, os.stat_result]:
        parent, _, name = path.rpartition("/")
        if not parent:
            return self.open_file(None, f"{self.root}/{name}", path)
        directory = self.open_directory(parent)
        try:
            return self.open_file(directory, name, path)
        finally:
            os.close(directory)

    def status(self, path: str) -> os.stat_result:
        """Return the status of a regular file or a directory."""
        parent, _, name = path.rpartition("/")
        if self.follow_links or not parent:
            found = os.stat(f"{self.root}/{path}", follow_symlinks=self.follow_links)  # noqa: PTH116
        else:
            directory = self.open_directory(parent)
            try:
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            finally:
                os.close(directory)
        if stat.S_ISLNK(found.st_mode):
            raise self.link(path)
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise self.not_regular(path)
        return found

    def read_whole(self, descriptor: int, status: os.stat_result, path: str) -> bytes:
        """Read a metadata file; stop at the largest valid size if the file keeps growing."""
        size = status.st_size
        check_size(path, size)
        if size > SPARSE_METADATA:
            self._refuse_holes(descriptor, 0, size, path)
        data = os.read(descriptor, size + 1)
        if not data:
            return data
        parts, total = [data], len(data)
        while data := os.read(descriptor, max(size + 1 - total, 65536)):
            parts.append(data)
            total += len(data)
            check_size(path, total)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_range(
        self, descriptor: int, status: os.stat_result, offset: int, length: int, path: str
    ) -> bytes:
        """Return at most `length` bytes; fewer if the file ends before that."""
        length = min(length, max(status.st_size - offset, 0))
        if length > SPARSE_RANGE:
            self._refuse_holes(descriptor, offset, length, path)
        data = bytearray()
        while len(data) < length and (
            part := os.pread(descriptor, length - len(data), offset + len(data))
        ):
            data += part
        return bytes(data)

    def link(self, path: str) -> StorageError:
        return StorageError(
            f"{self.root}/{path} is a symbolic link, which icectl does not follow in a repository",
            hint=Remedy("follow-links"),
        )

    def not_regular(self, path: str) -> StorageError:
        return StorageError(f"{self.root}/{path} is not a regular file and was not read")

    def _open_below(self, parent: int | None, name: str, flags: int, *, create: bool) -> int:
        if not self.follow_links:
            flags |= os.O_NOFOLLOW
        try:
            return os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            if not create:
                raise
        # It may exist now: another writer created it, or it is a dangling link.
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
            above = os.open(self.root if parent is None else ".", READABLE, dir_fd=parent)
            try:
                os.fsync(above)
            finally:
                os.close(above)
        return os.open(name, flags, dir_fd=parent)

    def _refuse_link(self, directory: int | None, name: str, path: str) -> None:
        if self.follow_links:
            return
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise self.link(path) from None

    def _refuse_holes(self, descriptor: int, offset: int, length: int, path: str) -> None:
        """Raise an error for a sparse range. File systems without holes report none."""
        try:
            hole = os.lseek(descriptor, offset, os.SEEK_HOLE)
            os.lseek(descriptor, 0, os.SEEK_SET)
        except (OSError, AttributeError):
            return
        if hole < offset + length:
            raise StorageError(
                f"{self.root}/{path} is sparse and was not read: not all of its {length:,} bytes"
                " are on disk"
            )
