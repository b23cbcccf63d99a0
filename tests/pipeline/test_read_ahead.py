"""Files read in order, although they arrive in any order, with a bound on those that wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from icectl.errors import ObjectNotFoundError, StorageError
from icectl.pipeline import read_ahead
from icectl.pipeline.read_ahead import read_in_order
from icectl.storage.contract import READS_IN_FLIGHT
from icectl.storage.memory import MemoryStorage


class LateStorage(MemoryStorage):
    """Answers many reads in the opposite order, as an object store may."""

    def __init__(self, size: int, count: int) -> None:
        super().__init__(f"files-of-{size}")
        self.read_alone: list[str] = []
        for number in range(count):
            self.put_if_absent(f"chunks/{number:04}", bytes(size) + number.to_bytes(2))

    def read_many(
        self, paths: Iterable[str], *, concurrency: int = READS_IN_FLIGHT
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        for path in reversed(list(paths)):
            try:
                yield path, MemoryStorage.read(self, path)
            except StorageError as error:
                yield path, error

    def read(self, path: str) -> bytes:
        self.read_alone.append(path)
        return super().read(path)


def test_files_are_in_order() -> None:
    storage = LateStorage(10, 400)
    paths = [*(f"chunks/{number:04}" for number in range(402)), "chunks/0007", "chunks/0401"]
    found = list(read_in_order(storage, paths))
    assert [path for path, _ in found] == paths
    for path, data in found:
        number = int(path[-4:])
        if number < 400:
            assert data == bytes(10) + number.to_bytes(2)
        else:
            assert isinstance(data, ObjectNotFoundError)
    assert not storage.read_alone


def test_few_bytes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "BYTES_AHEAD", 40_000)
    storage = LateStorage(10_000, 100)
    paths = [f"chunks/{number:04}" for number in range(100)]
    found = list(read_in_order(storage, [*paths, paths[0]]))
    assert [path for path, _ in found] == [*paths, paths[0]]
    assert len(storage.read_alone) > 90
    assert all(data == storage.read(path) for path, data in found)
