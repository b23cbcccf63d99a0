"""Deleting objects in batches, each one counted.

What fails is tried once more and then reported. Interrupting is safe between any two requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from icectl.errors import StorageError
from icectl.ops.gc.watch import Watch
from icectl.storage.bounded import in_batches
from icectl.storage.contract import Storage

DELETE_BATCH = 8192
MAX_FAILURES = 1000


@dataclass(frozen=True, slots=True)
class DeleteFailure:
    object: str
    error: str
    size: int


@dataclass(frozen=True, slots=True)
class DeletedBatch:
    count: int = 0
    bytes: int = 0
    failures: tuple[DeleteFailure, ...] = ()
    is_complete: bool = True
    """False for the last one, when the rest was not tried."""


def delete_in_batches(
    storage: Storage, items: Iterable[tuple[str, int]], watch: Watch
) -> Iterator[DeletedBatch]:
    """Delete the objects, given with their sizes, and tell what went with each batch."""
    num_failures = 0
    for batch in in_batches(items, DELETE_BATCH):
        if watch.is_over or num_failures > MAX_FAILURES:
            yield DeletedBatch(is_complete=False)
            return
        sizes = dict(batch)
        failed = _failed(storage, sizes)
        if failed:
            failed = _failed(storage, failed)
        num_failures += len(failed)
        yield DeletedBatch(
            len(sizes) - len(failed),
            sum(sizes.values()) - sum(sizes[path] for path in failed),
            tuple(
                DeleteFailure(path, error.message, sizes[path]) for path, error in failed.items()
            ),
        )


def _failed(storage: Storage, paths: Iterable[str]) -> dict[str, StorageError]:
    return {path: error for path, error in storage.delete_many(paths) if error is not None}
