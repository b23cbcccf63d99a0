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
from icectl.model.repo import RepoInfo, SnapshotInfo, infos_by_id, parents_of, pruned_logs_of
from icectl.repository.history import logs_of_skipped
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
    if not dropped:
        return info
    parents = parents_of(info.snapshots)
    pruned_logs = pruned_logs_of(info.snapshots)
    by_id = infos_by_id(info.snapshots)
    kept = []
    for snapshot_id, parent_id in parents.items():
        if snapshot_id in dropped:
            continue
        snapshot = by_id[snapshot_id]
        if parent_id in dropped or parent_id not in parents or parent_id == snapshot_id:
            snapshot = _reparented(snapshot, parents, pruned_logs, dropped, to_root)
        kept.append(snapshot)
    return replace(info, snapshots=tuple(kept))


def _reparented(
    snapshot: SnapshotInfo,
    parents: Mapping[SnapshotId, SnapshotId | None],
    pruned_logs: Mapping[SnapshotId, tuple[SnapshotId, ...]],
    dropped: Set[SnapshotId],
    to_root: bool,
) -> SnapshotInfo:
    skipped: list[SnapshotId] = []
    parent_id = snapshot.parent_id
    while parent_id is not None:
        # As many steps as there are snapshots, so without `walk`; a cycle has more.
        if parent_id not in parents or len(skipped) > len(parents):
            raise _damaged(snapshot)
        parent = parents[parent_id]
        passed_over = to_root and skipped and parent is not None
        if parent_id not in dropped and not passed_over:
            break
        skipped.append(parent_id)
        parent_id = parent
    if parent_id == snapshot.id:
        raise _damaged(snapshot)
    if not skipped:
        return snapshot
    if parent_id is None:
        parent_id = _kept_root(parents, dropped, snapshot.id)
    logs = logs_of_skipped(skipped, pruned_logs) + (snapshot.pruned_ancestor_tx_logs or ())
    return replace(snapshot, parent_id=parent_id, pruned_ancestor_tx_logs=logs)


def _damaged(snapshot: SnapshotInfo) -> FormatError:
    return FormatError(f"the ancestry of snapshot {snapshot.id} is damaged", path=REPO_PATH)


def _kept_root(
    parents: Mapping[SnapshotId, SnapshotId | None], dropped: Set[SnapshotId], child: SnapshotId
) -> SnapshotId | None:
    """The initial snapshot, or in a migrated repository the root that replaces it."""
    roots = [
        id_
        for id_, parent in parents.items()
        if parent is None and id_ not in dropped and id_ != child
    ]
    if INITIAL_SNAPSHOT_ID in roots:
        return INITIAL_SNAPSHOT_ID
    return min(roots, default=None)
