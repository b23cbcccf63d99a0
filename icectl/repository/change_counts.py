"""The changes of a commit, counted from its transaction logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icectl.model.ids import NodeId
from icectl.model.repo import SnapshotInfo
from icectl.model.transaction_log import TransactionLog
from icectl.repository.repository import Repository

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NODE_LISTS = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_groups",
    "updated_arrays",
)


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Counts as in `icectl diff`: a node that came and went again is in none of them."""

    new_groups: int = 0
    new_arrays: int = 0
    deleted_groups: int = 0
    deleted_arrays: int = 0
    updated_groups: int = 0
    updated_arrays: int = 0
    moved_nodes: int = 0
    updated_chunks: int = 0
    """Chunks written or removed, over all arrays."""


def read_change_counts(repository: Repository, info: SnapshotInfo) -> ChangeCounts:
    return count_changes(read_logs(repository, info))


def read_logs(repository: Repository, info: SnapshotInfo) -> tuple[TransactionLog, ...]:
    """Everything between the snapshot and its parent: logs of expired ancestors, then its own.

    The first snapshot changed nothing, and before spec version 2 it has no log.
    """
    if info.parent_id is None:
        return ()
    ids = (*(info.pruned_ancestor_tx_logs or ()), info.id)
    return tuple(repository.read_transaction_log(snapshot_id) for snapshot_id in ids)


def count_changes(logs: Sequence[TransactionLog]) -> ChangeCounts:
    created = _union(logs, "new_groups") | _union(logs, "new_arrays")
    deleted = _union(logs, "deleted_groups") | _union(logs, "deleted_arrays")
    transient = created & deleted
    chunks: dict[NodeId, list[NDArray[np.uint32]]] = {}
    for log in logs:
        for array in log.updated_chunks:
            if array.node_id not in transient:
                chunks.setdefault(array.node_id, []).append(array.chunks)
    moved = {move.node_id for log in logs for move in log.moved_nodes or ()}
    return ChangeCounts(
        **{name: len(_union(logs, name) - transient) for name in _NODE_LISTS},
        moved_nodes=len(moved - created - deleted),
        updated_chunks=sum(map(_count_distinct, chunks.values())),
    )


def _union(logs: Iterable[TransactionLog], field: str) -> set[NodeId]:
    return {node_id for log in logs for node_id in getattr(log, field)}


def _count_distinct(parts: Sequence[NDArray[np.uint32]]) -> int:
    if len(parts) == 1:
        return len(parts[0])
    distinct = {row.tobytes() for part in parts for row in part}
    return len(distinct)
