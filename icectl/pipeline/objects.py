"""The kinds of objects that garbage collection knows, and sets of them that are to go."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from icectl.pipeline.deletion import DeletedBatch, delete_in_batches
from icectl.pipeline.id_columns import BLOCK, IdSet
from icectl.pipeline.progress import Progress
from icectl.storage.contract import Storage

SECOND = 1_000_000


def is_created_before(created_at: Any, cutoff: int) -> Any:
    """For one time or a numpy column of times, in microseconds.

    A storage that reports whole seconds cuts off the rest: the object may be almost a second
    younger than its time says, so that the whole second must lie before the cutoff.
    """
    return created_at + (created_at % SECOND == 0) * (SECOND - 1) < cutoff


class ObjectKind(enum.Enum):
    """In the order of deletion: what refers goes before what it refers to."""

    SNAPSHOT = "snapshot"
    TRANSACTION_LOG = "transaction_log"
    MANIFEST = "manifest"
    CHUNK = "chunk"

    @property
    def directory(self) -> str:
        return DIRECTORIES[self]

    @property
    def plural(self) -> str:
        return f"{self.value}s"

    def path(self, name: object) -> str:
        return f"{DIRECTORIES[self]}/{name}"


DIRECTORIES = {
    ObjectKind.SNAPSHOT: "snapshots",
    ObjectKind.TRANSACTION_LOG: "transactions",
    ObjectKind.MANIFEST: "manifests",
    ObjectKind.CHUNK: "chunks",
}


class GarbageSet(Protocol):
    """Objects of one kind that are to be deleted, wherever they are held."""

    @property
    def kind(self) -> ObjectKind: ...

    def __len__(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def within(self, ids: IdSet) -> Self:
        """Those of them that `ids` names."""

    def without(self, ids: IdSet) -> Self:
        """Those of them that `ids` does not name."""

    def parts(self) -> Iterator[Garbage]:
        """All of them, some at a time."""

    def first(self, count: int) -> IdSet:
        """The smallest ids."""

    def largest(self, count: int) -> Garbage: ...

    def count_ages(self, now: int, bounds: Sequence[int]) -> NDArray[np.int64]:
        """Number and bytes of those younger than each bound, and in the last row of the rest."""

    def delete(self, storage: Storage, progress: Progress) -> Iterator[DeletedBatch]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Garbage:
    """A set that this process holds, in ascending order of ids."""

    kind: ObjectKind
    ids: IdSet
    size: NDArray[np.int64]
    created_at: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: NDArray[Any]) -> Garbage:
        return Garbage(self.kind, self.ids[rows], self.size[rows], self.created_at[rows])

    @property
    def bytes(self) -> int:
        return int(self.size.sum())

    def within(self, ids: IdSet) -> Garbage:
        return self[ids.contains(self.ids)]

    def without(self, ids: IdSet) -> Garbage:
        return self[~ids.contains(self.ids)]

    def created_before(self, cutoff: int) -> Garbage:
        return self[is_created_before(self.created_at, cutoff)]

    def parts(self) -> Iterator[Garbage]:
        yield self

    def first(self, count: int) -> IdSet:
        return self.ids[np.arange(min(count, len(self)))]

    def largest(self, count: int) -> Garbage:
        """Of equal ones those of the smallest ids."""
        if len(self) <= count:
            return self
        least = np.partition(self.size, -count)[-count]
        larger = np.flatnonzero(self.size > least)
        equal = np.flatnonzero(self.size == least)[: count - len(larger)]
        return self[np.sort(np.append(larger, equal))]

    def count_ages(self, now: int, bounds: Sequence[int]) -> NDArray[np.int64]:
        groups = np.searchsorted(np.array(bounds), now - self.created_at, side="right")
        size = len(bounds) + 1
        counts = np.bincount(groups, minlength=size)
        totals = np.bincount(groups, weights=self.size, minlength=size)
        return np.column_stack([counts, totals]).astype(np.int64)

    def delete(self, storage: Storage, progress: Progress) -> Iterator[DeletedBatch]:
        sizes = self.size[self.deletion_order()].tolist()
        return delete_in_batches(storage, zip(self.paths(), sizes, strict=True), progress)

    def deletion_order(self) -> NDArray[np.intp]:
        """Oldest first: on local disk that is about the order of inodes, which deletes fastest."""
        return np.argsort(self.created_at, kind="stable")

    def paths(self) -> Iterator[str]:
        """In the order of deletion."""
        order = self.deletion_order()
        for start in range(0, len(order), BLOCK):
            rows = order[start : start + BLOCK]
            for name in IdSet(self.ids.high[rows], self.ids.low[rows]).to_names():
                yield self.kind.path(name)
