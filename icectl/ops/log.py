"""The history of a ref or of the whole repository, and one commit in full.

For `icectl log` and `icectl show`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from icectl.errors import FormatError, ObjectNotFoundError, RefNotFoundError
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import ArrayNodeData, GroupNodeData, ManifestFileInfo
from icectl.model.transaction_log import TransactionLog
from icectl.repository.commits import Commit, CommitReader, commit_fields
from icectl.repository.history import find_nearest
from icectl.repository.repository import Repository
from icectl.repository.resolve import parse_range

if TYPE_CHECKING:
    from icectl.repository.change_counts import ChangeCounts

Paths = dict[NodeId, str]


@dataclass(frozen=True, slots=True)
class CommitWithChanges(Commit):
    changes: ChangeCounts | None
    """None where the transaction log is missing or damaged, or its generation has none."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    id: ManifestId
    size_bytes: int
    num_chunk_refs: int


@dataclass(frozen=True, slots=True)
class WholeCommit(CommitWithChanges):
    manifest_files: tuple[ManifestFile, ...]
    num_groups: int
    num_arrays: int
    num_expired_ancestors: int
    """Commits between this one and its parent that were expired; `changes` has theirs too."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    since: int | None = None
    until: int | None = None
    limit: int | None = None
    path: str | None = None
    """Only commits that touched this node or anything below it."""
    with_changes: bool = False


def read_log(repository: Repository, ref: str, options: LogOptions) -> Iterator[Commit]:
    """Yield the ancestry of `ref`, or the commits of a range `A..B`, lazily."""
    infos: Iterable[SnapshotInfo]
    refs = parse_range(repository, ref)
    if refs is None:
        infos = repository.ancestry(repository.resolve(ref).snapshot_id)
    else:
        # With one parent each, `A..B` and `A...B` list the same commits.
        excluded = {
            info.id for info in repository.ancestry(repository.resolve(refs.from_).snapshot_id)
        }
        ancestry = repository.ancestry(repository.resolve(refs.to).snapshot_id)
        infos = takewhile(lambda info: info.id not in excluded, ancestry)
    if options.path is not None:
        infos = _read_touching(repository, infos, options.path)
    return _commits(repository, _within_time(infos, options), options)


def read_whole_log(repository: Repository, options: LogOptions) -> Iterator[Commit]:
    """Every snapshot of the repository, on any branch or on none."""
    infos = sorted(repository.all_snapshots(), key=lambda info: (-info.flushed_at, info.id))
    return _commits(repository, _within_time(infos, options), options)


def show_commit(repository: Repository, ref: str) -> WholeCommit:
    snapshot_id = repository.resolve(ref).snapshot_id
    info = repository.snapshot_info(snapshot_id)
    commit = CommitReader(repository).commit(info)
    snapshot = repository.read_snapshot(snapshot_id)
    kinds = [type(node.node_data) for node in snapshot.nodes]
    return WholeCommit(
        **commit_fields(commit),
        changes=read_changes_if_there(repository, info),
        manifest_files=tuple(map(_manifest_file, snapshot.all_manifest_files)),
        num_groups=kinds.count(GroupNodeData),
        num_arrays=kinds.count(ArrayNodeData),
        num_expired_ancestors=len(info.pruned_ancestor_tx_logs or ()),
    )


def shown_parents(
    repository: Repository, commits: Iterable[Commit]
) -> Mapping[SnapshotId, SnapshotId | None]:
    """For each commit, its nearest ancestor among the commits: where the graph draws a line to."""
    parents = {commit.id: commit.parent_id for commit in commits}
    nearest = find_nearest(
        (parent for parent in parents.values() if parent is not None and parent not in parents),
        lambda snapshot_id: repository.snapshot_info(snapshot_id).parent_id,
        parents.__contains__,
    )
    return {
        snapshot_id: None if parent is None else nearest.get(parent, parent)
        for snapshot_id, parent in parents.items()
    }


def _within_time(infos: Iterable[SnapshotInfo], options: LogOptions) -> Iterator[SnapshotInfo]:
    for info in infos:
        if options.since is not None and info.flushed_at < options.since:
            return  # a parent is never newer than its child: writers refuse that
        if options.until is None or info.flushed_at <= options.until:
            yield info


def _commits(
    repository: Repository, infos: Iterator[SnapshotInfo], options: LogOptions
) -> Iterator[Commit]:
    if options.limit is not None:
        infos = islice(infos, min(options.limit, sys.maxsize))
    reader = CommitReader(repository)
    if not options.with_changes:
        yield from map(reader.commit, infos)
        return
    from icectl.pipeline.read_ahead import read_ahead

    for info, changes in read_ahead(lambda info: read_changes_if_there(repository, info), infos):
        yield CommitWithChanges(**commit_fields(reader.commit(info)), changes=changes)


def read_changes_if_there(repository: Repository, info: SnapshotInfo) -> ChangeCounts | None:
    """None for a missing or damaged log: the rest of the commit can still be shown."""
    from icectl.repository.change_counts import read_change_counts

    if info.parent_id is not None and not repository.has_transaction_logs:
        return None
    try:
        return read_change_counts(repository, info)
    except (FormatError, ObjectNotFoundError):
        return None


def _manifest_file(info: ManifestFileInfo) -> ManifestFile:
    return ManifestFile(info.id, info.size_bytes, info.num_chunk_refs)


def _read_touching(
    repository: Repository, ancestry: Iterable[SnapshotInfo], path: str
) -> Iterator[SnapshotInfo]:
    """The commits of an ancestry (newest first) that touched `path`, as it is named there.

    The node is followed across moves. Transaction logs name nodes by id. The paths of the newest
    snapshot are carried backward: the parent of a commit without deletions and moves has the same
    paths, except for the nodes that the commit created. The parent's snapshot is read only for
    other commits.
    """
    from icectl.pipeline.read_ahead import read_ahead
    from icectl.repository.change_counts import read_logs
    from icectl.repository.nodes import is_within, near_paths_hint, normalize_path

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
