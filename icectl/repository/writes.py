"""One write of `repo`: its entries in the ops log, and whether they explain what it changed. Pure.

Every writer adds one entry with each write; only an undo may add several. Their copy belongs to the
newest of them, and the entries below it have none. An undo can do what no other operation does:

- A snapshot leaves the list together with the refs that led to it, as after an undone commit.
- Released snapshots come back, each with an entry, and others get their old parents again. That is
  known to be right if no snapshot's transaction logs, its own and those of all its ancestors in
  order, are others than before: every operation keeps these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    ConfigChangedUpdate,
    ExpirationRanUpdate,
    FeatureFlagChangedUpdate,
    MetadataChangedUpdate,
    NewDetachedSnapshotUpdate,
    RepoStatusChangedUpdate,
    TagCreatedUpdate,
    TagDeletedUpdate,
    Update,
    UpdateType,
)
from icectl.repository.history import State, find_reachable
from icectl.repository.transitions import find_problem

SETTINGS = (
    ConfigChangedUpdate,
    MetadataChangedUpdate,
    FeatureFlagChangedUpdate,
    RepoStatusChangedUpdate,
)
_OF_AN_UNDO = (
    *SETTINGS,
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    ExpirationRanUpdate,
    NewDetachedSnapshotUpdate,
    TagCreatedUpdate,
    TagDeletedUpdate,
)


def end_of_write(updates: Sequence[Update], number: int) -> int:
    """The number of the first entry behind the write whose newest entry this is.

    At the end of the log are entries that a migration invented, which are no part of a write.
    """
    end = number + 1
    while end < len(updates) and updates[end].backup_path is None:
        end += 1
    return end if end < len(updates) else number + 1


def find_write_problem(updates: Sequence[UpdateType], before: State, after: State) -> str | None:
    """A change between the states that the entries of the write do not explain; None if all is."""
    if len(updates) == 1:
        problem = find_problem(updates[0], before, after)
        if problem is None or not isinstance(updates[0], _OF_AN_UNDO):
            return problem
    return next(_problems(updates, before, after), None)


def _problems(updates: Sequence[UpdateType], before: State, after: State) -> Iterator[str]:
    branches: dict[str, SnapshotId | None] = {}
    tags: dict[str, SnapshotId | None] = {}
    added: set[SnapshotId] = set()
    # A copy that moves a tag deletes and creates it.
    deleted_tags = {update.name for update in updates if isinstance(update, TagDeletedUpdate)}
    for update in updates:
        if not isinstance(update, _OF_AN_UNDO):
            yield f"a {update.kind} operation was written together with others"
        match update:
            case NewDetachedSnapshotUpdate(new):
                added.add(new)
            case BranchCreatedUpdate(name):
                branches[name] = after.branches.get(name)
                yield from _check_ref("branch", name, None, before.branches)
            case BranchResetUpdate(name, previous):
                branches[name] = after.branches.get(name)
                yield from _check_ref("branch", name, previous, before.branches)
            case BranchDeletedUpdate(name, previous):
                branches[name] = None
                yield from _check_ref("branch", name, previous, before.branches)
            case TagCreatedUpdate(name):
                tags[name] = after.tags.get(name)
                if name not in deleted_tags:
                    yield from _check_ref("tag", name, None, before.tags)
            case TagDeletedUpdate(name, previous):
                tags.setdefault(name, None)
                yield from _check_ref("tag", name, previous, before.tags)
            case _:
                pass
    for kind, refs_before, refs_after, meant in (
        ("branch", before.branches, after.branches, branches),
        ("tag", before.tags, after.tags, tags),
    ):
        for name in sorted({*refs_before, *refs_after}):
            if meant.get(name, refs_before.get(name)) != refs_after.get(name):
                yield f"the {kind} {name} changed with another operation"
    left = [before.branches[name] for name in branches if name in before.branches]
    left += [before.tags[name] for name in tags if name in before.tags]
    expires = any(isinstance(update, ExpirationRanUpdate) for update in updates)
    yield from _history_problems(before, after, added, left, expires)


def _check_ref(
    kind: str, name: str, previous: SnapshotId | None, before: Mapping[str, SnapshotId]
) -> Iterator[str]:
    if before.get(name) != previous:
        where = "did not exist" if previous is None else f"pointed at {previous}"
        yield f"it is not true that the {kind} {name} {where} before"


def _history_problems(
    before: State,
    after: State,
    added: set[SnapshotId],
    left: Sequence[SnapshotId],
    expires: bool,
) -> Iterator[str]:
    old, new = before.parents, after.parents
    for snapshot_id in (new.keys() - old.keys()) ^ added:
        yield f"the snapshot {snapshot_id} came with another operation"
    gone = old.keys() - new.keys()
    if gone and not expires:
        released: set[SnapshotId] = find_reachable(left, old.__getitem__)
        for snapshot_id in gone - released:
            yield f"the snapshot {snapshot_id} went with another operation"
    moved = [
        snapshot_id
        for snapshot_id in old.keys() & new.keys()
        if _line(before, snapshot_id) != _line(after, snapshot_id)
    ]
    if not moved:
        return
    # Writers before spec version 2.1 dropped the logs.
    if added and find_problem(ExpirationRanUpdate(), after, before) is None:
        return
    logs_before, logs_after = _hash_logs(before), _hash_logs(after)
    for snapshot_id in moved:
        if not (added or expires) or logs_before[snapshot_id] != logs_after[snapshot_id]:
            yield f"the ancestry of {snapshot_id} changed with another operation"


def _line(
    state: State, snapshot_id: SnapshotId
) -> tuple[SnapshotId | None, tuple[SnapshotId, ...]]:
    snapshot = state.snapshots[snapshot_id]
    return snapshot.parent_id, snapshot.pruned_ancestor_tx_logs or ()


def _hash_logs(state: State) -> dict[SnapshotId, int]:
    """Of each snapshot, its transaction logs from the first one on."""
    hashes: dict[SnapshotId, int] = {}
    for snapshot_id in state.parents_first():
        parent_id, pruned = _line(state, snapshot_id)
        value = 0 if parent_id is None else hashes.get(parent_id, 0)
        for log in (*pruned, snapshot_id):
            value = hash((value, log))
        hashes[snapshot_id] = value
    return hashes
