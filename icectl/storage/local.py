"""Local disk.

A conditional put takes the lock of the repository, compares, writes a temporary file in the root
and renames it, so readers see either the old or the new bytes, even if the process is killed. The
lock only excludes other processes of icectl: the official client takes no lock on local disk, so
icectl cannot detect an official writer that runs at the same time.

Links below the root are not followed, and only regular files are read; see `beneath`.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from icectl.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from icectl.storage.beneath import READABLE, Beneath
from icectl.storage.bounded import in_batches, map_by_duration, map_on_threads
from icectl.storage.contract import (
    WHOLE_DIRECTORY,
    ListedColumns,
    ListingShard,
    ObjectInfo,
    Outcome,
    Storage,
    Version,
    VersionedBytes,
)
from icectl.storage.local_writes import (
    BATCH_FILES,
    TEMPORARY_PREFIX,
    FileReader,
    FileWriter,
    copy_bytes,
    in_sized_batches,
    sync_file_system,
    write_bytes,
)
from icectl.storage.lock import locked
from icectl.storage.paths import PRIVATE_PREFIX, check_length, check_path, check_prefix, join_path
from icectl.storage.publish import exists, publish, write_temporary

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

THREADS = 8
ABANDONED_AFTER = 3_600_000_000
"""Microseconds. Nobody writes to a temporary file that did not change for so long."""
SAMPLE_READS = 16
LONG_READ = 0.0005
SAMPLE_WRITES = 5
LONG_WRITE = 0.001
"""Seconds. A disk without latency is fastest with one thread, a slow one with many."""
DELETE_BATCH = 128
NAMES_BATCH = 16384


class LocalStorage(Storage):
    """The directory `root`, which the first put creates if necessary."""

    def __init__(self, root: str | Path, *, follow_links: bool = False) -> None:
        self._root = Path(root).absolute()
        self._beneath = Beneath(str(self._root), follow_links=follow_links)

    def __repr__(self) -> str:
        return f"LocalStorage({str(self._root)!r})"

    @property
    def location(self) -> str:
        return str(self._root)

    def read(self, path: str) -> bytes:
        logger.debug("read %s", path)
        try:
            file, status = self._beneath.open_file_at(check_path(path))
            try:
                return self._beneath.read_whole(file, status, path)
            finally:
                os.close(file)
        except OSError as error:
            raise self._error(error, path, "read") from error

    def read_versioned(self, path: str) -> VersionedBytes:
        data = self.read(path)
        return VersionedBytes(data, _digest(data), self.read_clock())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with self._failures(path, "read"):
            file, status = self._beneath.open_file_at(check_path(path))
            try:
                data = self._beneath.read_range(file, status, offset, length, path)
            finally:
                os.close(file)
        if len(data) < length:
            raise StorageError(f"{path} ends before byte {offset + length}")
        return data

    def read_many(
        self, paths: Iterable[str], *, concurrency: int = 16
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        def read_one(path: str) -> tuple[str, bytes | StorageError]:
            try:
                return path, self.read(path)
            except StorageError as error:
                return path, error

        yield from map_by_duration(
            read_one,
            paths,
            sample=SAMPLE_READS,
            long_seconds=LONG_READ,
            workers=min(concurrency, THREADS),
        )

    def info(self, path: str) -> ObjectInfo:
        try:
            status = self._beneath.status(check_path(path))
        except OSError as error:
            raise self._error(error, path, "read") from error
        if stat.S_ISDIR(status.st_mode):
            raise ObjectNotFoundError(path)
        return ObjectInfo(path, status.st_size, status.st_mtime_ns // 1000)

    def list(
        self,
        prefix: str,
        *,
        with_info: bool = True,
        starts_with: str = "",
        shard: ListingShard = WHOLE_DIRECTORY,
    ) -> Iterator[ObjectInfo]:
        logger.debug("list %s", prefix or ".")
        top = check_prefix(prefix)
        name_start = len(top) + 1 if top else 0
        for directory, entries in self._walk(top, shard):
            for entry in entries:
                path = join_path(directory, entry.name)
                name = path[name_start:]
                if name not in shard or not name.startswith(starts_with):
                    continue
                if not with_info:
                    yield ObjectInfo(path, None, None)
                    continue
                # Skip a file that was deleted after the directory was read.
                with suppress(ObjectNotFoundError), self._failures(path, "read"):
                    status = entry.stat(follow_symlinks=self._beneath.follow_links)
                    yield ObjectInfo(path, status.st_size, status.st_mtime_ns // 1000)

    def list_columns(
        self, prefix: str, *, shard: ListingShard = WHOLE_DIRECTORY
    ) -> Iterator[ListedColumns]:
        import numpy as np

        top = check_prefix(prefix)
        follow = self._beneath.follow_links
        for directory, entries in self._walk(top, shard):
            below = directory[len(top) :].lstrip("/")
            before = f"{below}/" if below else ""
            names, sizes, times = [], [], []
            for entry in entries:
                name = before + entry.name
                if shard is not WHOLE_DIRECTORY and name not in shard:
                    continue
                try:
                    status = entry.stat(follow_symlinks=follow)
                except OSError as error:
                    failure = self._error(error, join_path(top, name), "read")
                    if isinstance(failure, ObjectNotFoundError):
                        continue  # deleted after the directory was read
                    raise failure from error
                names.append(name)
                sizes.append(status.st_size)
                times.append(status.st_mtime_ns // 1000)
            yield ListedColumns(names, np.array(sizes, np.int64), np.array(times, np.int64))

    def list_names(self, prefix: str) -> Iterator[Sequence[str]]:
        top = check_prefix(prefix)
        for directory, entries in self._walk(top):
            below = directory[len(top) :].lstrip("/")
            before = f"{below}/" if below else ""
            yield [before + entry.name for entry in entries]

    def read_sizes_and_times(
        self, prefix: str, names: Iterable[str]
    ) -> Iterator[tuple[int, int] | None]:
        names = list(names)
        follow = self._beneath.follow_links
        check_path("/".join(names) or "none")  # one check, as there may be a million names
        with self._failures(prefix, "read"):
            try:
                directory = self._beneath.open_directory(check_prefix(prefix))
            except (FileNotFoundError, NotADirectoryError):
                yield from [None] * len(names)
                return
        try:
            for name in names:
                try:
                    status = os.stat(name, dir_fd=directory, follow_symlinks=follow)
                except (FileNotFoundError, NotADirectoryError):
                    yield None
                except OSError as error:
                    raise self._error(error, f"{prefix}/{name}", "read") from error
                else:
                    yield (
                        None
                        if stat.S_ISDIR(status.st_mode)
                        else (status.st_size, status.st_mtime_ns // 1000)
                    )
        finally:
            os.close(directory)

    def list_directories(self, prefix: str) -> Iterator[str]:
        parent = check_prefix(prefix)
        for batch in self._scan(parent):
            if not parent and not self._beneath.follow_links:
                # In the root, links are listed, since a user may have meant one, but not opened.
                yield from (entry.name for entry in batch if entry.is_symlink())
            for name in self._directories(parent, batch):
                try:
                    has_files = any(self.list(join_path(parent, name), with_info=False))
                except StorageError:
                    has_files = True  # it cannot be read, so it may have some
                if has_files:
                    yield name

    def write_many(
        self, items: Iterable[tuple[str, bytes]], *, concurrency: int = THREADS
    ) -> Iterator[Outcome]:
        def fill(data: bytes) -> Callable[[int], None]:
            return lambda file: write_bytes(file, data)

        def write(batch: Sequence[tuple[str, bytes]]) -> Sequence[Outcome]:
            return self._write_batch((path, fill(data)) for path, data in batch)

        yield from self._write_batches(write, in_sized_batches(items), concurrency)

    def can_copy_from(self, source: Storage) -> bool:
        return isinstance(source, LocalStorage)

    def copy_from(
        self,
        source: Storage,
        sizes: Iterable[tuple[str, int]],
        *,
        concurrency: int = THREADS,
    ) -> Iterator[Outcome]:
        assert isinstance(source, LocalStorage)
        origin = source

        def write(batch: Sequence[tuple[str, int]]) -> Sequence[Outcome]:
            with FileReader(origin._beneath) as reader:

                def fill(path: str, size: int) -> Callable[[int], None]:
                    def copy(file: int) -> None:
                        with origin._failures(path, "read"):
                            found, status = reader.open_file(path)
                        try:
                            check_length(path, status.st_size, size)
                            copy_bytes(found, file, status.st_size)
                        finally:
                            os.close(found)

                    return copy

                return self._write_batch((path, fill(path, size)) for path, size in batch)

        yield from self._write_batches(write, in_batches(sizes, BATCH_FILES), concurrency)

    def _write_batches(
        self,
        write: Callable[[Item], Sequence[Outcome]],
        batches: Iterable[Item],
        concurrency: int,
    ) -> Iterator[Outcome]:
        for outcomes in map_by_duration(
            write,
            batches,
            sample=SAMPLE_WRITES,
            long_seconds=LONG_WRITE * BATCH_FILES,
            workers=min(concurrency, THREADS),
        ):
            yield from outcomes

    def _write_batch(self, files: Iterable[tuple[str, Callable[[int], None]]]) -> Sequence[Outcome]:
        outcomes: list[Outcome] = []
        with self._failures("", "written"):
            _make_directory(self._root)
        with FileWriter(self._beneath) as writer:
            for path, fill in files:
                try:
                    with self._failures(path, "written"):
                        writer.write(path, fill)
                except StorageError as error:
                    outcomes.append((path, error))
                else:
                    outcomes.append((path, None))
        return outcomes

    def sync(self) -> None:
        if not self._root.is_dir():
            return  # nothing was written
        with self._failures("", "written"):
            self._remove_abandoned()
            sync_file_system(self.location)

    def _remove_abandoned(self) -> None:
        """Delete the temporary files of writers that were killed."""
        with os.scandir(self._root) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(TEMPORARY_PREFIX)]
        oldest = self.read_clock() - ABANDONED_AFTER if names else 0
        for name in names:
            with suppress(FileNotFoundError):  # renamed by its writer
                path = self._root / name
                if path.lstat().st_mtime_ns // 1000 < oldest:
                    path.unlink()

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, StorageError | None]]:
        batches = map_on_threads(
            self._delete_batch,
            in_batches(paths, DELETE_BATCH),
            workers=THREADS,
            ahead=2 * THREADS,
        )
        for batch in batches:
            yield from batch

    def _delete_batch(self, paths: Sequence[str]) -> Sequence[tuple[str, StorageError | None]]:
        by_directory: dict[str, list[str]] = {}
        for path in paths:
            by_directory.setdefault(check_path(path).rpartition("/")[0], []).append(path)
        outcome: list[tuple[str, StorageError | None]] = []
        for parent, group in by_directory.items():
            try:
                directory = self._beneath.open_directory(parent)
            except (OSError, StorageError) as failure:
                outcome += [(path, self._delete_failure(failure, path)) for path in group]
                continue
            start = len(parent) + 1 if parent else 0
            try:
                for path in group:
                    try:
                        os.unlink(path[start:], dir_fd=directory)
                    except OSError as failure:
                        outcome.append((path, self._delete_failure(failure, path)))
                    else:
                        outcome.append((path, None))
            finally:
                os.close(directory)
        return outcome

    def _delete_failure(self, failure: OSError | StorageError, path: str) -> StorageError | None:
        if isinstance(failure, OSError):
            failure = self._error(failure, path, "deleted")
        return None if isinstance(failure, ObjectNotFoundError) else failure

    def ensure_conditional_writes(self) -> None:
        """Nothing to probe: a put takes the lock, and fails on file systems without locks."""

    def read_clock(self) -> int:
        import tempfile

        # The times of files come from the file server, whose clock may differ from the local one.
        with suppress(OSError), tempfile.TemporaryFile(dir=self._root) as file:
            return os.fstat(file.fileno()).st_mtime_ns // 1000
        return time.time_ns() // 1000

    def _walk(
        self, top: str, shard: ListingShard = WHOLE_DIRECTORY
    ) -> Iterator[tuple[str, Sequence[os.DirEntry[str]]]]:
        """Yield the files below a directory in batches, each with its directory.

        Directories without names of the shard are not read.
        """
        directories = [top]
        name_start = len(top) + 1 if top else 0
        while directories:
            directory = directories.pop()
            for batch in self._scan(directory):
                below = self._directories(directory, batch)
                paths = [join_path(directory, name) for name in below]
                directories += [path for path in paths if shard.reaches_into(path[name_start:])]
                if below:
                    batch = [entry for entry in batch if entry.name not in below]
                yield directory, [e for e in batch if not e.name.startswith(PRIVATE_PREFIX)]

    def _directories(self, parent: str, batch: Iterable[os.DirEntry[str]]) -> dict[str, None]:
        """Return the names of the directories in the batch, in order."""
        with self._failures(parent, "listed"):  # for example, a loop of symbolic links
            # With `follow_links`, the top-level directories may be links. Any other link is a
            # foreign name.
            follow = self._beneath.follow_links and not parent
            return dict.fromkeys(e.name for e in batch if e.is_dir(follow_symlinks=follow))

    def _scan(self, directory: str) -> Iterator[Sequence[os.DirEntry[str]]]:
        with self._failures(directory or self.location, "listed"):
            try:
                descriptor = self._beneath.open_directory(directory, READABLE)
            except (FileNotFoundError, NotADirectoryError):
                if not directory:
                    self._check_root()
                return
            try:  # the entries use the descriptor
                with os.scandir(descriptor) as entries:
                    yield from in_batches(entries, NAMES_BATCH)
            finally:
                os.close(descriptor)

    def _check_root(self) -> None:
        """Raise an error if the root is a file or below a file; a missing root is empty."""
        there = next(path for path in (self._root, *self._root.parents) if path.exists())
        if not there.is_dir():
            raise StorageError(f"{there} is not a directory")

    def _put(
        self,
        path: str,
        data: bytes,
        expected: Version | None,
        metadata: Mapping[str, str] | None,
    ) -> Version:
        parent, _, name = check_path(path).rpartition("/")
        with self._failures(path, "written"):
            _make_directory(self._root)
            root = self._beneath.open_directory("", READABLE)
            try:
                directory = self._beneath.open_directory(parent, READABLE, create=True)
                try:
                    with locked(root, self.location):
                        old = self._check_version(directory, name, path, expected)
                        write_temporary(root, data, old)
                        publish(root, directory, name, path, is_new=old is None)
                        os.fsync(directory)
                finally:
                    os.close(directory)
            finally:
                os.close(root)
        return _digest(data)

    def _check_version(
        self, directory: int, name: str, path: str, version: Version | None
    ) -> os.stat_result | None:
        """Return the status of the file to replace; raise `PreconditionFailedError` if changed."""
        if version is None:
            if exists(directory, name):
                raise PreconditionFailedError(path)
            return None
        try:
            file, status = self._beneath.open_file(directory, name, path)
        except (FileNotFoundError, IsADirectoryError):
            raise PreconditionFailedError(path) from None
        try:
            if _digest(self._beneath.read_whole(file, status, path)) != version:
                raise PreconditionFailedError(path)
        finally:
            os.close(file)
        return status

    @contextmanager
    def _failures(self, path: str, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(error, path, done) from error

    def _error(self, error: OSError, path: str, done: str) -> StorageError:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError)
        # No file can have such a name.
        missing |= error.errno == errno.ENAMETOOLONG and done != "deleted"
        if missing and done != "written":
            return ObjectNotFoundError(path)
        reason = (error.strerror or str(error)).lower()
        hint = None
        if isinstance(error, PermissionError):
            hint = "check owner and mode of the file and its directory"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free some space there, then run it again"
        return StorageError(f"{self._root / path} cannot be {done}: {reason}", hint=hint)


def _digest(data: bytes) -> Version:
    from hashlib import sha256  # loads OpenSSL, which commands that only read do not need

    return Version(sha256(data).hexdigest())


def _make_directory(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
