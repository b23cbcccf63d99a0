"""Files read in order, many ahead, without more bytes in memory than the bound."""

from __future__ import annotations

import threading
import time

import pytest

from icectl.errors import ObjectNotFoundError
from icectl.pipeline import read_ahead
from icectl.pipeline.read_ahead import read_in_order
from icectl.storage.memory import MemoryStorage


class SlowStorage(MemoryStorage):
    """Counts the reads that run at once, as an object store would have them."""

    is_object_store = True

    def __init__(self, size: int, count: int) -> None:
        super().__init__(f"files-of-{size}")
        self.under_way = self.most = 0
        self._counting = threading.Lock()
        for number in range(count):
            self.put_if_absent(f"chunks/{number:04}", bytes(size))

    def read(self, path: str) -> bytes:
        with self._counting:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(0.01)
        with self._counting:
            self.under_way -= 1
        return super().read(path)


def test_small_files_are_read_many_at_once_and_in_order() -> None:
    storage = SlowStorage(10, 400)
    paths = [f"chunks/{number:04}" for number in range(402)]
    found = list(read_in_order(storage, paths))
    assert [path for path, _ in found] == paths
    assert all(data == bytes(10) for _, data in found[:400])
    assert all(isinstance(error, ObjectNotFoundError) for _, error in found[400:])
    assert storage.most > 32


def test_large_files_are_read_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "BYTES_AHEAD", 40_000)
    storage = SlowStorage(10_000, 100)
    taken = [len(data) for _, data in read_in_order(storage, [f"chunks/{n:04}" for n in range(100)])
             if isinstance(data, bytes)]  # fmt: skip
    assert sum(taken) == 1_000_000
    assert storage.most <= read_ahead.AHEAD
