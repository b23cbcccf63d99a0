"""Drop snapshots from a repo info file, without losing their changes.

Garbage collection and expiration share one rule: a kept snapshot whose parent is dropped gets an
older parent, and the transaction logs of all skipped ancestors, oldest first. Garbage collection
chooses the nearest kept ancestor; expiration the root, because a snapshot that it keeps for a tag
is no longer history.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from icectl.errors import ConflictError, FormatError
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import RepoInfo, SnapshotInfo
from icectl.repository.history import logs_of_skipped, walk
from icectl.repository.ops_log import REPO_PATH


def drop_snapshots(info: RepoInfo, dropped: Set[SnapshotId], *, to_root: bool = False) -> RepoInfo:
    """The repository without the `dropped` snapshots; `to_root` is expiration's rule.

    `ConflictError` when a branch or a tag points at one of them: the caller's plan is older
    than the repository.
    """
    for kind, refs in (("branch", info.branches), ("tag", info.tags)):
        for ref in refs:
            if ref.snapshot_id in dropped:
                raise ConflictError(
                    f"the {kind} {ref.name} points at {ref.snapshot_id}, which was to be dropped",
                    hint="somebody changed the repository meanwhile: plan again",
                )
    by_id = {snapshot.id: snapshot for snapshot in info.snapshots}
    kept = tuple(
        _reparented(snapshot, by_id, dropped, to_root)
        for snapshot in info.snapshots
        if snapshot.id not in dropped
    )
    return replace(info, snapshots=kept)


def _reparented(
    snapshot: SnapshotInfo,
    by_id: Mapping[SnapshotId, SnapshotInfo],
    dropped: Set[SnapshotId],
    to_root: bool,
) -> SnapshotInfo:
    skipped: list[SnapshotInfo] = []
    parent_id: SnapshotId | None = None
    for id_ in walk(snapshot.parent_id, lambda id_: by_id[id_].parent_id, {snapshot.id}):
        parent = by_id.get(id_)
        if parent is None:
            raise _damaged(snapshot)
        passed_over = to_root and skipped and parent.parent_id is not None
        if id_ not in dropped and not passed_over:
            parent_id = id_
            break
        skipped.append(parent)
    else:
        if (skipped[-1] if skipped else snapshot).parent_id is not None:
            raise _damaged(snapshot)
    if not skipped:
        return snapshot
    if parent_id is None:
        parent_id = _kept_root(by_id, dropped, snapshot.id)
    logs = logs_of_skipped(skipped) + (snapshot.pruned_ancestor_tx_logs or ())
    return replace(snapshot, parent_id=parent_id, pruned_ancestor_tx_logs=logs)


def _damaged(snapshot: SnapshotInfo) -> FormatError:
    return FormatError(f"the ancestry of snapshot {snapshot.id} is damaged", path=REPO_PATH)


def _kept_root(
    by_id: Mapping[SnapshotId, SnapshotInfo], dropped: Set[SnapshotId], child: SnapshotId
) -> SnapshotId | None:
    """The initial snapshot, or in a migrated repository the root that replaces it."""
    roots = [
        snapshot.id
        for snapshot in by_id.values()
        if snapshot.parent_id is None and snapshot.id not in dropped and snapshot.id != child
    ]
    if INITIAL_SNAPSHOT_ID in roots:
        return INITIAL_SNAPSHOT_ID
    return min(roots, default=None)
