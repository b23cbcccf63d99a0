"""Deleting objects in batches, each one counted.

A delete that fails is tried once more and then reported; after many failures in a row the rest
is left alone. Throttling is not a failure: the storage sends fewer requests at a time and waits,
and what it still could not delete is tried again until the time is over. Interrupting is safe
between any two requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from icectl.errors import StorageError, ThrottledError
from icectl.pipeline.progress import Progress
from icectl.storage.bounded import in_batches
from icectl.storage.contract import Storage

DELETE_BATCH = 8192
MAX_FAILURES = 1000
FAILURES_IN_A_ROW = 50
"""Requests; the official package gives up after as many."""
ROUNDS_WITHOUT_PROGRESS = 50
"""In each the storage has retried throttled requests until its longest wait."""


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
    is_interrupted: bool = False
    """By Ctrl-C, which the caller raises again."""


def delete_in_batches(
    storage: Storage, items: Iterable[tuple[str, int]], progress: Progress
) -> Iterator[DeletedBatch]:
    """Delete the objects, given with their sizes, and report what each batch deleted."""
    deletion = _Deletion(storage, progress)
    for batch in in_batches(items, DELETE_BATCH):
        if progress.is_over or deletion.has_given_up:
            yield DeletedBatch(is_complete=False)
            return
        done = deletion.delete(dict(batch))
        yield done
        if not done.is_complete:
            return


class _Deletion:
    """The state that batches share: failures in a row, and whether to give up."""

    def __init__(self, storage: Storage, progress: Progress) -> None:
        self._storage = storage
        self._progress = progress
        self._in_a_row = 0
        self._num_failures = 0
        self._idle_rounds = 0

    @property
    def _most_in_a_row(self) -> int:
        return FAILURES_IN_A_ROW * self._storage.deletes_per_request

    @property
    def has_given_up(self) -> bool:
        return (
            self._in_a_row >= self._most_in_a_row
            or self._num_failures > MAX_FAILURES
            or self._idle_rounds >= ROUNDS_WITHOUT_PROGRESS
        )

    def delete(self, sizes: dict[str, int]) -> DeletedBatch:
        left: dict[str, StorageError | None] = dict.fromkeys(sizes)
        failed: dict[str, StorageError] = {}
        is_interrupted = False
        try:
            while left and not self.has_given_up:
                num_left = len(left)
                in_a_row = self._attempt([*left], left, self._in_a_row)
                again = [path for path, error in left.items() if _is_failure(error)]
                num_again = len(left)
                self._attempt(again, left)
                self._in_a_row = in_a_row if len(left) == num_again else 0
                for path in again:
                    error = left.get(path)
                    if _is_failure(error):
                        failed[path] = error
                        del left[path]
                        self._num_failures += 1
                self._idle_rounds = 0 if len(left) < num_left else self._idle_rounds + 1
                if self._progress.is_over:
                    break
            else:
                # Given up: what was throttled until now has failed as well.
                failed |= {path: error for path, error in left.items() if error is not None}
                left = {path: None for path, error in left.items() if error is None}
        except KeyboardInterrupt:
            is_interrupted = True
        gone = sizes.keys() - left.keys() - failed.keys()
        return DeletedBatch(
            len(gone),
            sum(sizes[path] for path in gone),
            tuple(
                DeleteFailure(path, error.message, sizes[path]) for path, error in failed.items()
            ),
            is_complete=not left,
            is_interrupted=is_interrupted,
        )

    def _attempt(
        self, paths: list[str], left: dict[str, StorageError | None], in_a_row: int | None = None
    ) -> int:
        """Take what is deleted out of `left`, and note the error of the rest there.

        Returns how many failed in a row at the end. Where the number before it is given, too
        many end the attempt; failures that are tried again are always in a row.
        """
        counted = in_a_row or 0
        for path, error in self._storage.delete_many(paths):
            if error is None:
                del left[path]
                counted = 0
            else:
                left[path] = error
                counted += _is_failure(error)
            if in_a_row is not None and counted >= self._most_in_a_row:
                break
        return counted


def _is_failure(error: StorageError | None) -> TypeGuard[StorageError]:
    return error is not None and not isinstance(error, ThrottledError)
