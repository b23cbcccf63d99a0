"""The commits that touched a node or anything below it, followed across moves.

Transaction logs name nodes by id. The paths of the newest snapshot are carried backward:
the parent of a commit without deletions and moves has the same paths, except for the nodes that
the commit created. The parent's snapshot is read only for other commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from icectl.errors import RefNotFoundError
from icectl.model.ids import NodeId, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.model.transaction_log import TransactionLog
from icectl.pipeline.read_ahead import read_ahead
from icectl.repository.change_counts import read_logs
from icectl.repository.nodes import is_within, near_paths_hint, normalize_path
from icectl.repository.repository import Repository

Paths = dict[NodeId, str]


def read_touching(
    repository: Repository, ancestry: Iterable[SnapshotInfo], path: str
) -> Iterator[SnapshotInfo]:
    """The commits of an ancestry (newest first) that touched `path`, as it is named there."""
    subject = normalize_path(path)
    after: Paths | None = None
    newest: tuple[str, ...] = ()
    found = False
    for info, logs in read_ahead(lambda info: read_logs(repository, info), ancestry):
        if after is None:
            after = _read_paths(repository, info.id)
            newest = tuple(after.values())
            found = subject in newest
        created = {node_id for log in logs for node_id in (*log.new_groups, *log.new_arrays)}
        before, was = after, subject
        if info.parent_id is not None and _changes_paths(logs):
            before = _read_paths(repository, info.parent_id)
            was = _path_before(subject, after, before)
        touched = was != subject or any(
            is_within(after.get(node_id), subject) or is_within(before.get(node_id), was)
            for node_id in _node_ids(logs)
        )
        if touched:
            found = True
            yield info
        for node_id in created:
            before.pop(node_id, None)
        after, subject = before, was
    if not found:
        raise RefNotFoundError(
            f"there never was a node {subject} in this history",
            hint=near_paths_hint(subject, newest),
        )


def _read_paths(repository: Repository, snapshot_id: SnapshotId) -> Paths:
    return {node.id: node.path for node in repository.read_snapshot(snapshot_id).nodes}


def _changes_paths(logs: Sequence[TransactionLog]) -> bool:
    return len(logs) > 1 or any(
        log.deleted_groups or log.deleted_arrays or log.moved_nodes for log in logs
    )


def _path_before(subject: str, after: Paths, before: Paths) -> str:
    """The path of the node in the parent; unchanged if no node was there."""
    node_id = next((node_id for node_id, path in after.items() if path == subject), None)
    return subject if node_id is None else before.get(node_id, subject)


def _node_ids(logs: Sequence[TransactionLog]) -> set[NodeId]:
    ids: set[NodeId] = set()
    for log in logs:
        ids.update(log.new_groups, log.new_arrays, log.deleted_groups, log.deleted_arrays)
        ids.update(log.updated_groups, log.updated_arrays)
        ids.update(array.node_id for array in log.updated_chunks)
        ids.update(move.node_id for move in log.moved_nodes or ())
    return ids
