"""The table `changes`: one row for each node or chunk that a commit changed.

Transaction logs name nodes by id; the paths are those of the commit's own snapshot, or of its
parent's for what is gone. The log of an expired ancestor tells of the commit that carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from icectl.model.ids import NodeId, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.model.transaction_log import ArrayUpdatedChunks, TransactionLog
from icectl.pipeline.read_ahead import read_ahead
from icectl.pipeline.units import Unit, split
from icectl.repository.change_counts import read_logs
from icectl.repository.repository import Repository
from icectl.tables.arrow import ROWS_IN_BATCH, batches_of, coordinate_lists, repeated
from icectl.tables.schemas import SCHEMAS
from icectl.tables.scope import Conditions, Scope, admits, select_history

NODE_KINDS = {
    "new_group": "new_groups",
    "new_array": "new_arrays",
    "deleted_group": "deleted_groups",
    "deleted_array": "deleted_arrays",
    "updated_group": "updated_groups",
    "updated_array": "updated_arrays",
}
"""Each kind of change, and the field of a transaction log that lists its nodes."""
MOVED, CHUNK = "moved_node", "updated_chunk"
COMMITS_IN_PARTITION = 64
PATHS_REMEMBERED = 4
"""A parent is often the commit before."""

Paths = Mapping[NodeId, str]


def plan(repository: Repository, scope: Scope, conditions: Conditions) -> list[Unit]:
    # Only what reading needs: messages and metadata stay here.
    commits = tuple(
        replace(info, message="", metadata=None)
        for info in select_history(repository, scope, conditions)
    )
    return split(commits, most_items=COMMITS_IN_PARTITION)


def read(
    repository: Repository,
    items: Sequence[SnapshotInfo],
    columns: Sequence[str],
    conditions: Conditions,
) -> Iterator[Any]:
    read_paths = lru_cache(PATHS_REMEMBERED)(lambda id_: _read_paths(repository, id_))
    small: list[dict[str, Any]] = []
    for info, logs in read_ahead(lambda info: read_logs(repository, info), items):
        for log in logs:
            paths = _PathsOfCommit(info, read_paths)
            small += _node_rows(info.id, log, paths, conditions)
            if admits(conditions, "kind", CHUNK):
                for array in log.updated_chunks:
                    path = paths.find(array.node_id)
                    if admits(conditions, "path", path):
                        yield from _chunk_batches(info.id, log.id, path, array, columns)
    yield from batches_of(SCHEMAS["changes"], columns, small)


@dataclass(slots=True)
class _PathsOfCommit:
    """Where the nodes of a commit are, or were in its parent."""

    info: SnapshotInfo
    read_paths: Callable[[SnapshotId], Paths]

    def find(self, node_id: NodeId) -> str | None:
        path = self.read_paths(self.info.id).get(node_id)
        if path is None and self.info.parent_id is not None:
            # None still: created and deleted again between two commits that are left.
            path = self.read_paths(self.info.parent_id).get(node_id)
        return path


def _read_paths(repository: Repository, snapshot_id: SnapshotId) -> Paths:
    return {node.id: node.path for node in repository.read_snapshot(snapshot_id).nodes}


def _node_rows(
    snapshot_id: SnapshotId, log: TransactionLog, paths: _PathsOfCommit, conditions: Conditions
) -> Iterator[dict[str, Any]]:
    def row(kind: str, node_id: NodeId, path: str | None, from_path: str | None) -> dict[str, Any]:
        return {
            "snapshot_id": str(snapshot_id),
            "log_id": str(log.id),
            "path": path,
            "node_id": str(node_id),
            "kind": kind,
            "coordinates": None,
            "from_path": from_path,
        }

    for kind, field in NODE_KINDS.items():
        if admits(conditions, "kind", kind):
            for node_id in getattr(log, field):
                yield row(kind, node_id, paths.find(node_id), None)
    if admits(conditions, "kind", MOVED):
        for move in log.moved_nodes or ():
            yield row(MOVED, move.node_id, move.to, move.from_)


def _chunk_batches(
    snapshot_id: SnapshotId,
    log_id: SnapshotId,
    path: str | None,
    array: ArrayUpdatedChunks,
    columns: Sequence[str],
) -> Iterator[Any]:
    texts = {
        "snapshot_id": str(snapshot_id),
        "log_id": str(log_id),
        "path": path,
        "node_id": str(array.node_id),
        "kind": CHUNK,
        "from_path": None,
    }
    for start in range(0, len(array.chunks), ROWS_IN_BATCH):
        block = array.chunks[start : start + ROWS_IN_BATCH]
        arrays = [
            coordinate_lists(block) if name == "coordinates" else repeated(texts[name], len(block))
            for name in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
