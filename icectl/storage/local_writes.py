"""Write and copy many files below a root on local disk, each one atomically.

A file is written under a temporary name in the root and renamed. Nothing is synchronized to disk
for each file; `LocalStorage.sync` does it for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Self

from icectl.storage.beneath import Beneath
from icectl.storage.paths import PRIVATE_PREFIX, check_path

BATCH_FILES = 16
BATCH_BYTES = 8 << 20
COPY_BYTES = 64 << 20
TEMPORARY_PREFIX = f"{PRIVATE_PREFIX}temporary."
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class OpenDirectories:
    """Directories below a root, each of which is opened once; with `create`, and created."""

    def __init__(self, beneath: Beneath, *, create: bool = False) -> None:
        self.beneath = beneath
        self._create = create
        self._descriptors: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def open(self, directory: str) -> int:
        found = self._descriptors.get(directory)
        if found is None:
            create = self._create and bool(directory)
            found = self.beneath.open_directory(directory, create=create)
            self._descriptors[directory] = found
        return found


class FileWriter(OpenDirectories):
    """Writes files, and creates their directories if necessary."""

    def __init__(self, beneath: Beneath) -> None:
        super().__init__(beneath, create=True)
        self._temporary = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"

    def write(self, path: str, fill: Callable[[int], object]) -> None:
        """Create or replace the file; `fill` writes to the descriptor."""
        parent, _, name = check_path(path).rpartition("/")
        root, directory = self.open(""), self.open(parent)
        file = os.open(self._temporary, FLAGS, 0o666, dir_fd=root)
        try:
            try:
                fill(file)
            finally:
                os.close(file)
            os.rename(self._temporary, name, src_dir_fd=root, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._temporary, dir_fd=root)
            raise


def write_bytes(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


class FileReader(OpenDirectories):
    """Opens files to copy them."""

    def open_file(self, path: str) -> tuple[int, os.stat_result]:
        parent, _, name = check_path(path).rpartition("/")
        if not parent:
            return self.beneath.open_file_at(path)
        return self.beneath.open_file(self.open(parent), name, path)


def copy_bytes(source: int, target: int, size: int) -> None:
    """Copy a file in the kernel, which shares the blocks if the file system can."""
    try:
        left = size
        while (copied := os.copy_file_range(source, target, COPY_BYTES)) and left > copied:
            left -= copied
    except OSError:  # not between these file systems, or not in this kernel
        os.lseek(source, 0, os.SEEK_SET)
        os.ftruncate(target, 0)
        os.lseek(target, 0, os.SEEK_SET)
        while data := os.read(source, COPY_BYTES):
            write_bytes(target, data)


def in_sized_batches(items: Iterable[tuple[str, bytes]]) -> Iterator[Sequence[tuple[str, bytes]]]:
    batch: list[tuple[str, bytes]] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item[1])
        if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def sync_file_system(directory: str) -> None:
    """Write all files of the file system to disk; an `OSError` if that failed.

    `os.sync` would also wait for other file systems, and reports no errors.
    """
    import ctypes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        if syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
