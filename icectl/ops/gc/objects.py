"""The kinds of objects that garbage collection knows, and sets of them that are to go."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.ops.gc.id_sets import BLOCK, IdSet


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


@dataclass(frozen=True, slots=True, eq=False)
class Garbage:
    """Objects of one kind that are to be deleted, in ascending order of their ids."""

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
