"""Missing and damaged transaction logs, derived from the snapshots before and after a commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from icectl.checks.transaction_log import check_log
from icectl.errors import FormatError, StorageError, UnsupportedError
from icectl.format.transaction_log import encode_transaction_log
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.node_table import NodeTable, is_array
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import ArrayNodeData, ManifestRef, NodeSnapshot, Snapshot
from icectl.model.transaction_log import (
    ArrayUpdatedChunks,
    MoveOperation,
    NodeType,
    TransactionLog,
)
from icectl.ops.diff.chunks import ManifestSource, read_chunk_changes
from icectl.ops.diff.nodes import sorted_pairs
from icectl.ops.diff.result import ArrayPair, ChunkChanges, NodeDiff
from icectl.ops.repair.steps import Key, Step, Survey, key_of, put_derived
from icectl.pipeline.coordinates import CoordinateSet, coordinate_keys
from icectl.pipeline.objects import ObjectKind
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.pipeline.coordinates import Coordinates

NODE_LISTS = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_arrays",
    "updated_groups",
)


def empty_log(log_id: SnapshotId, spec_version: int) -> TransactionLog:
    moved = () if spec_version >= 2 else None
    return TransactionLog(spec_version, log_id, (), (), (), (), (), (), (), moved)


def derive_log(
    manifests: ManifestSource,
    log_id: SnapshotId,
    before: Snapshot,
    after: Snapshot,
    known: Sequence[TransactionLog] = (),
) -> TransactionLog:
    """Every change from `before` to `after`, except those that the `known` logs record.

    A chunk that was written with the reference it had before leaves no trace in the snapshots.
    """
    old, new = NodeTable.of(before).by_id, NodeTable.of(after).by_id
    both = [(old[id_], node) for id_, node in new.items() if id_ in old]
    nodes = {
        "new": [node for id_, node in new.items() if id_ not in old],
        "deleted": [node for id_, node in old.items() if id_ not in new],
        "updated": [node for was, node in both if was.user_data != node.user_data],
    }
    recorded = {id_ for log in known for name in NODE_LISTS for id_ in getattr(log, name)}

    def ids(what: str, *, array: bool) -> tuple[NodeId, ...]:
        found = {node.id for node in nodes[what] if is_array(node) == array}
        return tuple(sorted(found - recorded))

    moved = {move.node_id for log in known for move in log.moved_nodes or ()}
    moves = (
        MoveOperation(
            was.path, node.path, node.id, NodeType.ARRAY if is_array(node) else NodeType.GROUP
        )
        for was, node in both
        if was.path != node.path and node.id not in moved
    )
    return TransactionLog(
        after.spec_version,
        log_id,
        ids("new", array=False),
        ids("new", array=True),
        ids("deleted", array=False),
        ids("deleted", array=True),
        ids("updated", array=True),
        ids("updated", array=False),
        _derive_chunks(manifests, before, after, known),
        tuple(moves) if after.spec_version >= 2 else None,
    )


def changed_arrays(before: Snapshot, after: Snapshot) -> tuple[ArrayPair, ...]:
    """The arrays of `after` whose manifests are others than before."""
    old = NodeTable.of(before).by_id
    pairs = []
    for node in after.nodes:
        if not isinstance(node.node_data, ArrayNodeData):
            continue
        was = old.get(node.id)
        was = was if was is not None and is_array(was) else None
        if _manifests(was) != set(node.node_data.manifests):
            pairs.append(ArrayPair(node.path, was, node))
    return sorted_pairs(pairs)


def _manifests(node: NodeSnapshot | None) -> set[ManifestRef]:
    data = None if node is None else node.node_data
    return set(data.manifests) if isinstance(data, ArrayNodeData) else set()


def _derive_chunks(
    manifests: ManifestSource, before: Snapshot, after: Snapshot, known: Sequence[TransactionLog]
) -> tuple[ArrayUpdatedChunks, ...]:
    pairs = changed_arrays(before, after)
    by_path = {pair.path: pair.after for pair in pairs}
    counts = {
        file.id: file.num_chunk_refs
        for file in (*before.all_manifest_files, *after.all_manifest_files)
    }
    diff = NodeDiff(before.id, after.id, "content", arrays=pairs, num_chunk_refs=counts)
    found = []
    for changes in read_chunk_changes(manifests, diff):
        node = by_path[changes.path]
        assert node is not None
        rows = _without(_changed_chunks(changes), recorded_chunks(known, node.id))
        if len(rows):
            found.append(ArrayUpdatedChunks(node.id, rows))
    return tuple(sorted(found, key=lambda array: array.node_id))


def _changed_chunks(changes: ChunkChanges) -> Coordinates:
    found = CoordinateSet()
    for rows in (changes.added, changes.overwritten, changes.deleted):
        if rows is not None:
            found.add(rows)
    return found.rows()


def recorded_chunks(logs: Iterable[TransactionLog], node_id: NodeId) -> Coordinates:
    found = CoordinateSet()
    for log in logs:
        for array in log.updated_chunks:
            if array.node_id == node_id:
                found.add(array.chunks)
    return found.rows()


def _without(rows: Coordinates, others: Coordinates) -> Coordinates:
    if not len(rows) or not len(others) or rows.shape[1] != others.shape[1]:
        return rows
    keys, other_keys = coordinate_keys(rows, others)
    return rows[~np.isin(keys, other_keys)]


def merge_logs(logs: Sequence[TransactionLog]) -> TransactionLog:
    """One log with the changes of all of them."""
    if len(logs) == 1:
        return logs[0]
    nodes = {array.node_id for log in logs for array in log.updated_chunks}
    lists: dict[str, Any] = {
        name: tuple(sorted({id_ for log in logs for id_ in getattr(log, name)}))
        for name in NODE_LISTS
    }
    moves = {move.node_id: move for log in logs for move in log.moved_nodes or ()}
    return TransactionLog(
        logs[0].spec_version,
        logs[0].id,
        updated_chunks=tuple(
            ArrayUpdatedChunks(id_, recorded_chunks(logs, id_)) for id_ in sorted(nodes)
        ),
        moved_nodes=None if logs[0].moved_nodes is None else tuple(moves.values()),
        **lists,
    )


def explains(log: TransactionLog, derived: TransactionLog) -> bool:
    """Whether the log is that of the commit whose changes were derived.

    It may name more updates than the snapshots show: writing what was there already leaves no
    trace.
    """
    for what in ("new", "deleted"):
        for kind in ("groups", "arrays"):
            name = f"{what}_{kind}"
            if set(getattr(log, name)) != set(getattr(derived, name)):
                return False
    if {_move(one) for one in log.moved_nodes or ()} != {
        _move(one) for one in derived.moved_nodes or ()
    }:
        return False
    updated = {*log.updated_arrays, *log.updated_groups}
    if not updated.issuperset((*derived.updated_arrays, *derived.updated_groups)):
        return False
    return not any(
        len(_without(array.chunks, recorded_chunks([log], array.node_id)))
        for array in derived.updated_chunks
    )


def _move(move: MoveOperation) -> tuple[NodeId, str, str]:
    return move.node_id, move.from_, move.to


def manifests_needed(before: Snapshot, after: Snapshot) -> set[ManifestId]:
    """The manifests that `derive_log` reads."""
    pairs = changed_arrays(before, after)
    shared = {pair.path: _manifests(pair.before) & _manifests(pair.after) for pair in pairs}
    return {
        ref.object_id
        for pair in pairs
        for node in (pair.before, pair.after)
        for ref in _manifests(node) - shared[pair.path]
    }


@dataclass(slots=True)
class _Evidence:
    """The commits that a lost log must explain."""

    commits: list[tuple[SnapshotId, SnapshotId, tuple[SnapshotId, ...]]] = field(
        default_factory=list
    )
    """Parent, child, and the logs between them that are not lost."""
    spec_version: int = 2

    def derive(self, repository: Repository, log_id: SnapshotId) -> TransactionLog:
        logs = [
            derive_log(
                repository,
                log_id,
                repository.read_snapshot(parent),
                repository.read_snapshot(child),
                [repository.read_transaction_log(one) for one in known],
            )
            for parent, child, known in self.commits
        ]
        return merge_logs(logs) if logs else empty_log(log_id, self.spec_version)


def plan_logs(repository: Repository, survey: Survey) -> Iterator[Step]:
    """One step for each lost log; `repository` is the state after the steps before."""
    keys: defaultdict[str, set[Key]] = defaultdict(set)
    for problem, _ in survey.problems:
        keys[problem.object].add(key_of(problem))
    for log_id, evidence in _collect(repository, survey).items():
        path = ObjectKind.TRANSACTION_LOG.path(log_id)
        yield Step(
            "rebuild_transaction_log",
            path,
            "write it again from the snapshots before and after the commit",
            lambda storage, log_id=log_id, evidence=evidence: _write(  # type: ignore[misc]
                storage, log_id, evidence
            ),
            mends=frozenset(keys[path]),
        )


def _collect(repository: Repository, survey: Survey) -> dict[SnapshotId, _Evidence]:
    found: defaultdict[SnapshotId, _Evidence] = defaultdict(_Evidence)
    impossible: set[SnapshotId] = set()
    for info in _snapshots(repository, survey):
        logs = (*(info.pruned_ancestor_tx_logs or ()), info.id)
        lost = [one for one in logs if one in survey.lost_logs]
        if not lost:
            continue
        for one in lost:
            found[one].spec_version = repository.spec_version
        if not _can_derive(repository, survey, info):
            impossible.update(lost)
            continue
        if info.parent_id is None:
            continue  # the first snapshot changed nothing
        # All that the other logs do not explain goes to the newest lost one.
        known = tuple(one for one in logs if one not in survey.lost_logs)
        found[lost[-1]].commits.append((info.parent_id, info.id, known))
    return {log_id: one for log_id, one in sorted(found.items()) if log_id not in impossible}


def _snapshots(repository: Repository, survey: Survey) -> Iterator[SnapshotInfo]:
    if repository.lists_snapshots:
        yield from repository.all_snapshots()
        return
    for snapshot_id in survey.history.parents:
        if snapshot_id not in survey.unreadable:
            yield repository.snapshot_info(snapshot_id)


def _can_derive(repository: Repository, survey: Survey, info: SnapshotInfo) -> bool:
    try:
        if info.id in survey.planned and info.parent_id is not None:
            files = repository.read_snapshot(info.parent_id).all_manifest_files
            return survey.lost_manifests.isdisjoint(file.id for file in files)
        after = repository.read_snapshot(info.id)
        if info.parent_id is None:
            return not after.nodes  # else its parent was lost
        before = repository.read_snapshot(info.parent_id)
    except (FormatError, UnsupportedError, StorageError):
        return False
    return survey.lost_manifests.isdisjoint(manifests_needed(before, after))


def _write(storage: Storage, log_id: SnapshotId, evidence: _Evidence) -> None:
    log = evidence.derive(open_repository(storage), log_id)

    def is_sound(data: bytes) -> bool:
        found, problems = check_log(data, log_id)
        return found is not None and not problems and explains(found, log)

    put_derived(
        storage,
        ObjectKind.TRANSACTION_LOG.path(log_id),
        encode_transaction_log(log),
        is_sound,
    )
