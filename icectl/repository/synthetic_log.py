"""The ops log of a repository that had none: what its snapshots and refs say about its past.

The same entries, in the same order and at the same times, as the official migration to spec
version 2 writes. They have no backups, because no earlier state was ever written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    Availability,
    BranchCreatedUpdate,
    NewCommitUpdate,
    NewDetachedSnapshotUpdate,
    RepoInfo,
    RepoInitializedUpdate,
    RepoStatus,
    SnapshotInfo,
    TagCreatedUpdate,
    TagDeletedUpdate,
    Update,
    parents_of,
    sorted_refs,
    times_of,
)
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.history import find_reachable, walk

AFTER_COMMIT = 1000
"""How long after its commit a ref was created, in microseconds; the times are not known."""


def migrated_state(
    snapshots: Sequence[SnapshotInfo],
    branches: Mapping[str, SnapshotId],
    tags: Mapping[str, SnapshotId],
    deleted_tags: Mapping[str, SnapshotId],
    deleted_tag_names: Iterable[str],
    config: bytes | None,
) -> RepoInfo:
    """The state that a migration writes, without its own entry of the ops log.

    `deleted_tags` are those whose targets are known; the rest is as `synthetic_log` needs it.
    """
    parents = parents_of(snapshots)
    *_, root = walk(branches[DEFAULT_BRANCH], parents.__getitem__)
    return RepoInfo(
        spec_version=2,
        tags=sorted_refs(tags),
        branches=sorted_refs(branches),
        deleted_tags=tuple(sorted(deleted_tag_names, key=str.encode)),
        snapshots=snapshots,
        status=RepoStatus(Availability.ONLINE, times_of(snapshots)[root]),
        metadata=(),
        latest_updates=synthetic_log(snapshots, branches, tags, deleted_tags),
        config=config,
    )


def synthetic_log(
    snapshots: Iterable[SnapshotInfo],
    branches: Mapping[str, SnapshotId],
    tags: Mapping[str, SnapshotId],
    deleted_tags: Mapping[str, SnapshotId],
) -> tuple[Update, ...]:
    """The entries, newest first; that of the migration itself is not among them.

    `branches` contains main, and `snapshots` all ancestors of each ref. A snapshot that no ref
    reaches becomes a detached one. A deleted tag may point to a snapshot that is gone.
    """
    listed = {snapshot.id: snapshot for snapshot in snapshots}
    # Python sorts stably, as the official writer does: what happened at one time keeps this order.
    oldest_first = sorted(
        _entries(listed, branches, tags, deleted_tags), key=lambda update: update.updated_at
    )
    return tuple(_apart(oldest_first))[::-1]


def _entries(
    snapshots: Mapping[SnapshotId, SnapshotInfo],
    branches: Mapping[str, SnapshotId],
    tags: Mapping[str, SnapshotId],
    deleted_tags: Mapping[str, SnapshotId],
) -> Iterator[Update]:
    def parent_of(snapshot_id: SnapshotId) -> SnapshotId | None:
        return snapshots[snapshot_id].parent_id

    def time_of(snapshot_id: SnapshotId) -> int:
        return snapshots[snapshot_id].flushed_at if snapshot_id in snapshots else started_at

    committed: set[SnapshotId] = set()
    *commits, root = walk(branches[DEFAULT_BRANCH], parent_of, committed)
    started_at = snapshots[root].flushed_at
    yield Update(RepoInitializedUpdate(), started_at)
    for id_ in reversed(commits):
        yield Update(NewCommitUpdate(DEFAULT_BRANCH, id_), time_of(id_))
    for name in sorted(branches.keys() - {DEFAULT_BRANCH}, key=str.encode):
        yield Update(BranchCreatedUpdate(name), time_of(branches[name]) + AFTER_COMMIT)
        for id_ in reversed([*walk(branches[name], parent_of, committed)]):
            yield Update(NewCommitUpdate(name, id_), time_of(id_))
    reachable = find_reachable((*branches.values(), *tags.values()), parent_of)
    for id_ in sorted(snapshots.keys() - reachable):
        yield Update(NewDetachedSnapshotUpdate(id_), time_of(id_))
    for name in sorted(tags, key=str.encode):
        yield Update(TagCreatedUpdate(name), time_of(tags[name]) + AFTER_COMMIT)
    # In the order of the files, whose names continue with a slash.
    for name in sorted(deleted_tags, key=lambda name: f"{name}/".encode()):
        target = deleted_tags[name]
        yield Update(TagCreatedUpdate(name), time_of(target) + AFTER_COMMIT)
        yield Update(TagDeletedUpdate(name, target), time_of(target) + 2 * AFTER_COMMIT)


def _apart(oldest_first: Iterable[Update]) -> Iterator[Update]:
    """The entries at least a microsecond apart, because readers refuse two at one time."""
    latest: int | None = None
    for update in oldest_first:
        latest = update.updated_at if latest is None else max(update.updated_at, latest + 1)
        yield replace(update, updated_at=latest)
