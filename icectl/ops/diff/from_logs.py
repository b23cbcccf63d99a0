"""The changes that a range of transaction logs tells, composed into one.

Node ids are stable and never used twice, so the logs of a range can be united in any order: a
node that was both created and deleted is gone, and a move is the difference of a node's paths
at both ends, however many steps it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from icectl.errors import FormatError, ObjectNotFoundError, UnsupportedError
from icectl.model.ids import NodeId, SnapshotId
from icectl.model.node_table import NodeTable
from icectl.model.transaction_log import TransactionLog
from icectl.ops.diff.metadata import compare_metadata
from icectl.ops.diff.nodes import PathFilter, moves_between, sorted_pairs, sorted_paths
from icectl.ops.diff.result import ArrayPair, MetadataChange, NodeDiff
from icectl.pipeline.coordinates import CoordinateSet
from icectl.pipeline.progress import Progress
from icectl.repository.repository import Repository


class LogsInsufficientError(Exception):
    """The logs are missing, damaged, or do not tell the whole change."""


@dataclass(slots=True)
class LogChanges:
    created: set[NodeId] = field(default_factory=set)
    deleted: set[NodeId] = field(default_factory=set)
    updated_groups: set[NodeId] = field(default_factory=set)
    updated_arrays: set[NodeId] = field(default_factory=set)
    chunks: dict[NodeId, CoordinateSet] = field(default_factory=dict)

    def add(self, log: TransactionLog) -> None:
        self.created.update(log.new_groups, log.new_arrays)
        self.deleted.update(log.deleted_groups, log.deleted_arrays)
        self.updated_groups.update(log.updated_groups)
        self.updated_arrays.update(log.updated_arrays)
        for updated in log.updated_chunks:
            coordinates = self.chunks.setdefault(updated.node_id, CoordinateSet())
            if not coordinates.add(updated.chunks):
                raise LogsInsufficientError(
                    f"the transaction logs give chunks of the node {updated.node_id} "
                    "different numbers of dimensions"
                )


def read_log_changes(
    repository: Repository, log_ids: Sequence[SnapshotId], progress: Progress
) -> LogChanges:
    changes = LogChanges()
    try:
        logs = repository.read_transaction_logs(log_ids)
        for log in progress.count(logs, "reading transaction logs", len(log_ids)):
            changes.add(log)
    except ObjectNotFoundError as error:
        raise LogsInsufficientError(f"the transaction log {error.path} is missing") from None
    except FormatError as error:
        raise LogsInsufficientError(f"a transaction log is damaged: {error.message}") from None
    except UnsupportedError as error:
        raise LogsInsufficientError(error.message) from None
    return changes


def diff_from_logs(
    changes: LogChanges, before: NodeTable, after: NodeTable, within: PathFilter
) -> NodeDiff:
    _check_account(changes, before, after)

    def path_of(node_id: NodeId) -> str | None:
        path = after.paths.get(node_id) or before.paths.get(node_id)
        return path if path is not None and within(path) else None

    def paths_of(node_ids: Iterable[NodeId]) -> tuple[str, ...]:
        return sorted_paths(path for path in map(path_of, node_ids) if path is not None)

    new = after.ids - before.ids
    deleted = before.ids - after.ids
    return NodeDiff(
        from_id=before.snapshot_id,
        to_id=after.snapshot_id,
        method="transaction_logs",
        new_groups=paths_of(new - after.arrays),
        new_arrays=paths_of(new & after.arrays),
        deleted_groups=paths_of(deleted - before.arrays),
        deleted_arrays=paths_of(deleted & before.arrays),
        updated_groups=paths_of(changes.updated_groups),
        updated_arrays=paths_of(changes.updated_arrays),
        moved_nodes=moves_between(before, after, within),
        metadata_changes=_metadata_changes(changes, before, after, within),
        arrays=_arrays(changes, before, after, within),
    )


def _check_account(changes: LogChanges, before: NodeTable, after: NodeTable) -> None:
    """Expiration in spec version 1 drops logs without a trace; the nodes give it away."""
    for there, other, told in (
        (after, before, changes.created),
        (before, after, changes.deleted),
    ):
        untold = there.ids - other.ids - told
        if untold:
            path = min(there.paths[node_id] for node_id in untold)
            word = "creation" if there is after else "deletion"
            raise LogsInsufficientError(f"no transaction log tells the {word} of {path}")
    known = changes.updated_groups | changes.updated_arrays | changes.created
    for node_id, document in after.documents.items():
        if before.documents.get(node_id, document) != document and node_id not in known:
            raise LogsInsufficientError(
                f"no transaction log tells the change of the metadata of {after.paths[node_id]}"
            )


def _metadata_changes(
    changes: LogChanges, before: NodeTable, after: NodeTable, within: PathFilter
) -> tuple[MetadataChange, ...]:
    updated = (changes.updated_groups | changes.updated_arrays) & before.ids & after.ids
    nodes = (after.by_id[node_id] for node_id in updated)
    chosen = {node.path: node for node in nodes if within(node.path)}
    return tuple(
        compare_metadata(before.by_id[chosen[path].id], chosen[path])
        for path in sorted_paths(chosen)
    )


def _arrays(
    changes: LogChanges, before: NodeTable, after: NodeTable, within: PathFilter
) -> tuple[ArrayPair, ...]:
    pairs: list[ArrayPair] = []
    told: set[NodeId] = set()
    for node_id, coordinates in changes.chunks.items():
        old, new = before.by_id.get(node_id), after.by_id.get(node_id)
        node = new or old
        # Where another array took the path, what was written there is what it has.
        if node is None or not within(node.path) or (new is None and node.path in after.by_path):
            continue
        pairs.append(ArrayPair(node.path, old, new, coordinates.rows()))
        told.add(node_id)
    for node_id in before.arrays - after.ids - told:
        old = before.by_id[node_id]
        if within(old.path):
            pairs.append(ArrayPair(old.path, old, None))
    return sorted_pairs(pairs)
