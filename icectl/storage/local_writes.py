"""Write and copy many files below a root on local disk, each one atomically.

A file is written under a temporary name in the root and renamed. Nothing is synchronized to disk
for each file; `LocalStorage.sync` does it for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Self

from icectl.storage.beneath import READABLE, Beneath
from icectl.storage.paths import PRIVATE_PREFIX, check_path

BATCH_FILES = 64
BATCH_BYTES = 8 << 20
COPY_BYTES = 64 << 20
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class FileWriter:
    """Writes files; directories are opened once, and created if necessary."""

    def __init__(self, beneath: Beneath) -> None:
        self._beneath = beneath
        self._directories: dict[str, int] = {}
        self._temporary = f"{PRIVATE_PREFIX}temporary.{token_hex(8)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        for descriptor in self._directories.values():
            os.close(descriptor)

    def _open(self, directory: str) -> int:
        found = self._directories.get(directory)
        if found is None:
            found = self._beneath.open_directory(directory, READABLE, create=bool(directory))
            self._directories[directory] = found
        return found

    def write(self, path: str, fill: Callable[[int], object]) -> None:
        """Create or replace the file; `fill` writes to the descriptor."""
        parent, _, name = check_path(path).rpartition("/")
        root, directory = self._open(""), self._open(parent)
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


def copy_bytes(source: int, target: int) -> None:
    """Copy a file in the kernel, which shares the blocks if the file system can."""
    try:
        while os.copy_file_range(source, target, COPY_BYTES):
            pass
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
