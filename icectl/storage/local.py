"""A repository on a local disk.

A conditional put holds one lock per repository, compares, writes a temporary file in the
root, and renames it: readers and a killed process see the old bytes or the new ones. The
lock keeps processes of icectl apart; the official client takes no lock on local disk, so an
official writer at the same moment is beyond what it can protect.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from icectl.errors import (
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StorageError,
)
from icectl.storage.bounded import in_batches, map_on_threads
from icectl.storage.contract import (
    WHOLE_DIRECTORY,
    ListingShard,
    ObjectInfo,
    Storage,
    Version,
    VersionedBytes,
)
from icectl.storage.paths import PRIVATE_PREFIX, check_path, check_prefix, check_size, join_path

LOCK_NAME = f"{PRIVATE_PREFIX}lock"
# One name per directory is enough, since it is written under the lock only; and what a killed
# process left behind is removed by the next put there.
TEMPORARY_NAME = f"{PRIVATE_PREFIX}temporary"

THREADS = 8
FEW_READS = 16
SLOW_READ_SECONDS = 0.0005
DELETE_BATCH = 128
NAMES_BATCH = 16384
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class LocalStorage(Storage):
    """The directory `root`; it need not exist before the first put."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()

    def __repr__(self) -> str:
        return f"LocalStorage({str(self._root)!r})"

    @property
    def location(self) -> str:
        return str(self._root)

    def read(self, path: str) -> bytes:
        with self._failures(path, "read"), open(self._name(path), "rb", buffering=0) as file:  # noqa: PTH123
            check_size(path, os.fstat(file.fileno()).st_size)
            return file.readall()

    def read_versioned(self, path: str) -> VersionedBytes:
        data = self.read(path)
        return VersionedBytes(data, _digest(data))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with self._failures(path, "read"), self._file(path).open("rb", buffering=0) as file:
            # Before memory is taken for what a reference claims.
            if offset + length > os.fstat(file.fileno()).st_size:
                raise StorageError(f"{path} ends before byte {offset + length}")
            file.seek(offset)
            data = bytearray()
            while len(data) < length and (part := file.read(length - len(data))):
                data += part
        if len(data) < length:
            raise StorageError(f"{path} ends before byte {offset + length}")
        return bytes(data)

    def read_many(
        self, paths: Iterable[str], *, concurrency: int = 16
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        def read_one(path: str) -> tuple[str, bytes | StorageError]:
            try:
                return path, self.read(path)
            except StorageError as error:
                return path, error

        # A disk that answers at once is read fastest by one thread, and one that lets wait by many.
        rest = iter(paths)
        seconds, count = 0.0, 0
        for path in rest:
            begin = time.perf_counter()
            found = read_one(path)
            seconds, count = seconds + time.perf_counter() - begin, count + 1
            yield found
            if count >= FEW_READS and seconds > count * SLOW_READ_SECONDS:
                break
        else:
            return
        yield from map_on_threads(
            read_one, rest, workers=min(concurrency, THREADS), ahead=concurrency
        )

    def info(self, path: str) -> ObjectInfo:
        try:
            status = os.stat(self._name(path))  # noqa: PTH116 -- a Path costs more than the call
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
        top = check_prefix(prefix)
        name_start = len(top) + 1 if top else 0
        for directory, entries in self._walk(top):
            for entry in entries:
                path = join_path(directory, entry.name)
                name = path[name_start:]
                if name not in shard or not name.startswith(starts_with):
                    continue
                if not with_info:
                    yield ObjectInfo(path, None, None)
                    continue
                # A file that went away since the directory was read is not there.
                with suppress(ObjectNotFoundError), self._failures(path, "read"):
                    status = entry.stat()
                    yield ObjectInfo(path, status.st_size, status.st_mtime_ns // 1000)

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
        check_path("/".join(names) or "none")  # of all names at once: there may be a million
        with self._failures(prefix, "read"):
            try:
                directory = os.open(self._root / check_prefix(prefix), os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                yield from [None] * len(names)
                return
        try:
            for name in names:
                try:
                    status = os.stat(name, dir_fd=directory)
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
            for name in self._directories(parent, batch):
                if any(self.list(join_path(parent, name), with_info=False)):
                    yield name

    def put_if_absent(
        self, path: str, data: bytes, *, metadata: Mapping[str, str] | None = None
    ) -> Version:
        file = self._file(path)

        def link(temporary: Path) -> None:
            # A link never replaces, so even a writer that takes no lock is not overwritten.
            try:
                file.hardlink_to(temporary)
            except FileExistsError:
                raise PreconditionFailedError(path) from None
            except OSError as error:
                if error.errno not in NO_HARD_LINKS:
                    raise
                if file.exists():
                    raise PreconditionFailedError(path) from None
                temporary.replace(file)
            else:
                temporary.unlink()

        self._put(path, data, condition=lambda: not file.exists(), publish=link)
        return _digest(data)

    def put_if_match(
        self,
        path: str,
        data: bytes,
        version: Version,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> Version:
        file = self._file(path)

        def unchanged() -> bool:
            try:
                return _digest(file.read_bytes()) == version
            except FileNotFoundError:
                return False

        self._put(path, data, condition=unchanged, publish=lambda new: new.replace(file))
        return _digest(data)

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, StorageError | None]]:
        def delete_one(path: str) -> StorageError | None:
            try:
                os.unlink(self._name(path))  # noqa: PTH108 -- a Path costs more than the call
            except OSError as failure:
                error = self._error(failure, path, "deleted")
                return None if isinstance(error, ObjectNotFoundError) else error
            return None

        batches = map_on_threads(
            lambda batch: [(path, delete_one(path)) for path in batch],
            in_batches(paths, DELETE_BATCH),
            workers=THREADS,
            ahead=2 * THREADS,
        )
        for batch in batches:
            yield from batch

    def ensure_conditional_writes(self) -> None:
        """Nothing to probe: a put takes the lock itself, and refuses where there is none."""

    def read_clock(self) -> int:
        import tempfile
        import time

        # The times of files come from the file server, whose clock may differ from ours.
        with suppress(OSError), tempfile.TemporaryFile(dir=self._root) as file:
            return os.fstat(file.fileno()).st_mtime_ns // 1000
        return time.time_ns() // 1000

    def _file(self, path: str) -> Path:
        return self._root / check_path(path)

    def _name(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}"

    def _walk(self, top: str) -> Iterator[tuple[str, Sequence[os.DirEntry[str]]]]:
        """The files below a directory in batches, each batch with the directory it lies in."""
        directories = [top]
        while directories:
            directory = directories.pop()
            for batch in self._scan(directory):
                below = self._directories(directory, batch)
                directories += [join_path(directory, name) for name in below]
                if below:
                    batch = [entry for entry in batch if entry.name not in below]
                yield directory, [e for e in batch if not e.name.startswith(PRIVATE_PREFIX)]

    def _directories(self, parent: str, batch: Iterable[os.DirEntry[str]]) -> dict[str, None]:
        """Their names, in the order of the batch."""
        with self._failures(parent, "listed"):  # a loop of symbolic links, for one
            # The directories of a repository may lie elsewhere; in them a link is a foreign name.
            follow = not parent
            return dict.fromkeys(e.name for e in batch if e.is_dir(follow_symlinks=follow))

    def _scan(self, directory: str) -> Iterator[Sequence[os.DirEntry[str]]]:
        with self._failures(directory or self.location, "listed"):
            try:
                entries = os.scandir(self._root / directory)
            except (FileNotFoundError, NotADirectoryError):
                if not directory:
                    self._check_root()
                return
            with entries:
                yield from in_batches(entries, NAMES_BATCH)

    def _check_root(self) -> None:
        """A root that does not exist yet is empty; below or at a file there never will be one."""
        there = next(path for path in (self._root, *self._root.parents) if path.exists())
        if not there.is_dir():
            raise StorageError(f"{there} is not a directory")

    def _put(
        self,
        path: str,
        data: bytes,
        *,
        condition: Callable[[], bool],
        publish: Callable[[Path], object],
    ) -> None:
        directory = self._file(path).parent
        with self._failures(path, "written"):
            _make_directory(directory)
            with self._locked():
                if not condition():
                    raise PreconditionFailedError(path)
                # In the root: left by a kill below refs/, the official client takes it for a ref.
                temporary = self._root / TEMPORARY_NAME
                # Never truncated in place: after a kill it may be a second link to an object.
                temporary.unlink(missing_ok=True)
                with temporary.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                publish(temporary)
                _sync_directory(directory)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._root / LOCK_NAME).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                raise RefusedError(
                    f"the file system of {self.location} has no file locks",
                    hint="two writers could overwrite each other there; use another file system",
                ) from error
            yield

    @contextmanager
    def _failures(self, path: str, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._error(error, path, done) from error

    def _error(self, error: OSError, path: str, done: str) -> StorageError:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError)
        if missing and done != "written":
            return ObjectNotFoundError(path)
        reason = (error.strerror or str(error)).lower()
        denied = isinstance(error, PermissionError)
        return StorageError(
            f"{self._root / path} cannot be {done}: {reason}",
            hint="check the owner and the mode of the file and its directory" if denied else None,
        )


def _digest(data: bytes) -> Version:
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
