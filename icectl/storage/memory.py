"""Storage in the memory of this process, for tests and experiments.

All storages `memory://NAME` of a process share their objects. Pickling stores only the name:
another process starts with an empty memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from icectl.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from icectl.storage.contract import (
    WHOLE_DIRECTORY,
    WRITES_IN_FLIGHT,
    ListingShard,
    ObjectInfo,
    Outcome,
    Storage,
    Version,
    VersionedBytes,
)
from icectl.storage.paths import check_path, check_prefix, is_private, join_path


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    version: Version
    created_at: int


_repositories: dict[str, dict[str, _Object]] = {}
_lock = threading.Lock()
_generations = count(1)


class MemoryStorage(Storage):
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"MemoryStorage({self.location!r})"

    @property
    def location(self) -> str:
        return f"memory://{self._name}"

    @property
    def _objects(self) -> dict[str, _Object]:
        return _repositories.setdefault(self._name, {})

    def _get(self, path: str) -> _Object:
        try:
            return self._objects[check_path(path)]
        except KeyError:
            raise ObjectNotFoundError(path) from None

    def read(self, path: str) -> bytes:
        return self._get(path).data

    def read_versioned(self, path: str) -> VersionedBytes:
        found = self._get(path)
        return VersionedBytes(found.data, found.version, self.read_clock())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        data = self.read(path)
        if len(data) < offset + length:
            raise StorageError(f"{path} ends before byte {offset + length}")
        return data[offset : offset + length]

    def read_many(
        self, paths: Iterable[str], *, concurrency: int = 16
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        for path in paths:
            try:
                yield path, self.read(path)
            except StorageError as error:
                yield path, error

    def info(self, path: str) -> ObjectInfo:
        found = self._get(path)
        return ObjectInfo(path, len(found.data), found.created_at)

    def list(
        self,
        prefix: str,
        *,
        with_info: bool = True,
        starts_with: str = "",
        shard: ListingShard = WHOLE_DIRECTORY,
    ) -> Iterator[ObjectInfo]:
        directory = check_prefix(prefix)
        name_start = len(directory) + 1 if directory else 0
        beginning = join_path(directory, starts_with)
        with _lock:
            found = tuple(self._objects.items())
        for path, item in found:
            if path.startswith(beginning) and path[name_start:] in shard and not is_private(path):
                yield ObjectInfo(path, len(item.data), item.created_at)

    def list_directories(self, prefix: str) -> Iterator[str]:
        start = len(prefix) + 1 if check_prefix(prefix) else 0
        below = (info.path[start:] for info in self.list(prefix))
        yield from sorted({path.partition("/")[0] for path in below if "/" in path})

    def _put(
        self,
        path: str,
        data: bytes,
        expected: Version | None,
        metadata: Mapping[str, str] | None,
    ) -> Version:
        check_path(path)
        with _lock:
            found = self._objects.get(path)
            if (found.version if found else None) != expected:
                raise PreconditionFailedError(path)
            return self._store(path, data)

    def _store(self, path: str, data: bytes) -> Version:
        version = Version(str(next(_generations)))
        self._objects[path] = _Object(bytes(data), version, _creation_time(self.read_clock()))
        return version

    def write_many(
        self, items: Iterable[tuple[str, bytes]], *, concurrency: int = WRITES_IN_FLIGHT
    ) -> Iterator[Outcome]:
        for path, data in items:
            with _lock:
                self._store(check_path(path), data)
            yield path, None

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, StorageError | None]]:
        for path in paths:
            with _lock:
                self._objects.pop(check_path(path), None)
            yield path, None

    def ensure_conditional_writes(self) -> None:
        """Nothing to probe: `_put` checks the conditions."""

    def read_clock(self) -> int:
        return time.time_ns() // 1000


def _creation_time(clock: int) -> int:
    """Avoid whole seconds, which readers take for the rounded times of a coarse clock."""
    return clock if clock % 1_000_000 else clock + 1
