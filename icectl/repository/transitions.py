"""Whether operations explain the transition from one state of `repo` to another. Pure.

Each operation must have done exactly what its entry in the ops log says: it changed the one ref
that it names, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from operator import ne
from typing import TypeVar

from icectl.format.repo import RefTarget
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    CommitAmendedUpdate,
    ExpirationRanUpdate,
    GCRanUpdate,
    NewCommitUpdate,
    NewDetachedSnapshotUpdate,
    SnapshotInfo,
    TagCreatedUpdate,
    TagDeletedUpdate,
    UnknownUpdate,
    UpdateType,
)
from icectl.repository.history import State, logs_of_skipped, walk

RELEASING = (
    BranchDeletedUpdate,
    BranchResetUpdate,
    CommitAmendedUpdate,
    ExpirationRanUpdate,
    GCRanUpdate,
    TagDeletedUpdate,
    UnknownUpdate,
)
IRREVERSIBLE = (ExpirationRanUpdate, GCRanUpdate, UnknownUpdate)
"""They rewrite the ancestry, or are unknown: `leads_to` cannot undo them."""
UNRECORDED = (BranchCreatedUpdate, BranchResetUpdate, TagCreatedUpdate)
"""The ops log does not record where these let a ref point."""


Target = TypeVar("Target")


def find_target(
    update: UpdateType, branches: Mapping[str, Target], tags: Mapping[str, Target]
) -> Target | None:
    """Where the ref points that an `UNRECORDED` operation names; None if it does not exist."""
    assert isinstance(update, UNRECORDED)
    return (tags if isinstance(update, TagCreatedUpdate) else branches).get(update.name)


def find_problem(update: UpdateType, before: State, after: State) -> str | None:
    """A change between the states that `update` does not explain; None if it explains all."""
    return next(_problems(update, before, after), None)


def leads_to(
    updates: Iterable[UpdateType],
    before: State,
    after: State,
    targets: Iterable[RefTarget | None],
) -> bool:
    """Whether these operations, newest first, and nothing else, turned `before` into `after`.

    They are undone one by one, and each must find the ref as it left it: one look at each, where
    `find_problem` compares the states around it. For an `UNRECORDED` operation, `targets` has the
    target at the same place. None may be `IRREVERSIBLE`.
    """
    branches, tags = dict(after.branches), dict(after.tags)
    created: set[SnapshotId] = set()
    for update, target in zip(updates, targets, strict=True):
        # Where the ref pointed after the operation and before it; None for no ref.
        left: SnapshotId | None = None
        found: SnapshotId | None = None
        if isinstance(update, UNRECORDED):
            if target is None:
                return False
            left = target.id
            made = after.snapshots.get(left)
            if made is None or made.parent_id != target.parent_id:
                return False
        match update:
            case NewCommitUpdate(name, left):
                made = after.snapshots.get(left)
                if made is None or made.parent_id is None:
                    return False
                refs, found = branches, made.parent_id
                created.add(left)
            case CommitAmendedUpdate(name, found, left):
                made, amended = after.snapshots.get(left), after.snapshots.get(found)
                if made is None or amended is None or not _is_amended(amended, made):
                    return False
                refs = branches
                created.add(left)
            case NewDetachedSnapshotUpdate(new):
                created.add(new)
                continue
            case BranchDeletedUpdate(name, found) | BranchResetUpdate(name, found):
                refs = branches
            case BranchCreatedUpdate(name):
                refs = branches
            case TagDeletedUpdate(name, found):
                refs = tags
            case TagCreatedUpdate(name):
                refs = tags
            case _:
                if isinstance(update, IRREVERSIBLE):
                    return False
                continue  # a change of the configuration, the metadata or the status
        if refs.pop(name, None) != left:
            return False
        if found is not None:
            refs[name] = found
    return (branches, tags) == (before.branches, before.tags) and not any(
        _history_changes(before, after, created)
    )


def _problems(update: UpdateType, before: State, after: State) -> Iterator[str]:
    match update:
        case BranchResetUpdate(name, previous):
            moved = after.branches.get(name)
            if before.branches.get(name) != previous or moved is None:
                yield f"the branch {name} did not point at {previous} before its reset"
            else:
                yield from _changes(before, after, branches={name: moved})
        case BranchDeletedUpdate(name, previous):
            if before.branches.get(name) != previous:
                yield f"the branch {name} did not point at {previous} before it was deleted"
            yield from _changes(before, after, branches={name: None})
        case TagDeletedUpdate(name, previous):
            if before.tags.get(name) != previous:
                yield f"the tag {name} did not point at {previous} before it was deleted"
            yield from _changes(before, after, tags={name: None})
        case CommitAmendedUpdate(branch, previous, new):
            if before.branches.get(branch) != previous:
                yield f"the branch {branch} did not point at {previous} before the amend"
            amended, made = before.snapshots.get(previous), after.snapshots.get(new)
            if amended is None or made is None or not _is_amended(amended, made):
                yield f"the amended snapshot {new} has another ancestry than {previous} had"
            yield from _changes(before, after, branches={branch: new}, added={new})
        case ExpirationRanUpdate() | GCRanUpdate():
            yield from _drops(update, before, after)
        case NewCommitUpdate(branch, new):
            yield from _changes(before, after, branches={branch: new}, added={new})
        case NewDetachedSnapshotUpdate(new):
            yield from _changes(before, after, added={new})
        case BranchCreatedUpdate(name):
            if name not in after.branches:
                yield f"the branch {name} was created, and is not there"
            created = {name: after.branches.get(name)}
            yield from _changes(before, after, branches=created)
        case TagCreatedUpdate(name):
            if name not in after.tags:
                yield f"the tag {name} was created, and is not there"
            yield from _changes(before, after, tags={name: after.tags.get(name)})
        case UnknownUpdate():
            yield f"an operation ({update.kind}) that this icectl does not know"
        case _:
            yield from _changes(before, after)


def _is_amended(amended: SnapshotInfo, made: SnapshotInfo) -> bool:
    """Whether the new snapshot has the ancestry of the one that it replaces."""
    return (amended.parent_id, amended.pruned_ancestor_tx_logs or ()) == (
        made.parent_id,
        made.pruned_ancestor_tx_logs or (),
    )


def _changes(
    before: State,
    after: State,
    *,
    branches: Mapping[str, SnapshotId | None] | None = None,
    tags: Mapping[str, SnapshotId | None] | None = None,
    added: set[SnapshotId] | None = None,
) -> Iterator[str]:
    yield from _ref_changes("branch", before.branches, after.branches, branches or {})
    yield from _ref_changes("tag", before.tags, after.tags, tags or {})
    yield from _history_changes(before, after, added or set())


def _history_changes(before: State, after: State, added: set[SnapshotId]) -> Iterator[str]:
    for snapshot_id in after.snapshots.keys() ^ before.snapshots.keys() ^ added:
        yield f"the snapshot {snapshot_id} came or went with another operation"
    for snapshot_id in after.snapshots.keys() & before.snapshots.keys():
        old, new = before.snapshots[snapshot_id], after.snapshots[snapshot_id]
        if (old.parent_id, old.pruned_ancestor_tx_logs) != (
            new.parent_id,
            new.pruned_ancestor_tx_logs,
        ):
            yield f"the ancestry of {snapshot_id} changed with another operation"


def _ref_changes(
    kind: str,
    before: Mapping[str, SnapshotId],
    after: Mapping[str, SnapshotId],
    meant: Mapping[str, SnapshotId | None],
) -> Iterator[str]:
    expected = {name: target for name, target in {**before, **meant}.items() if target is not None}
    for name in sorted(expected.keys() | after.keys()):
        if expected.get(name) != after.get(name):
            yield f"the {kind} {name} changed with another operation"


def _drops(update: UpdateType, before: State, after: State) -> Iterator[str]:
    """Expiration and gc: snapshots leave the list, and their children move up."""
    for snapshot_id in after.snapshots.keys() - before.snapshots.keys():
        yield f"the snapshot {snapshot_id} came with another operation"
    removed = before.snapshots.keys() - after.snapshots.keys()
    for kind, old, new in (
        ("branch", before.branches, after.branches),
        ("tag", before.tags, after.tags),
    ):
        for name, target in old.items():
            # Expiration may delete a ref together with its snapshot, which stays if another ref
            # leads to it.
            gone = isinstance(update, ExpirationRanUpdate) and name not in new
            if new.get(name) != target and not (
                gone and (target in removed or target in after.reachable)
            ):
                yield f"the {kind} {name} changed with another operation"
        for name in new.keys() - old.keys():
            yield f"the {kind} {name} came with another operation"
    if isinstance(update, GCRanUpdate):
        for snapshot_id in removed & before.reachable:
            yield f"gc dropped {snapshot_id}, which was reachable"
    for snapshot_id, info in after.snapshots.items():
        if snapshot_id in before.snapshots and not _moved_up(info, before, after):
            yield f"the ancestry of {snapshot_id} changed with another operation"


def _moved_up(now: SnapshotInfo, before: State, after: State) -> bool:
    """Whether the snapshot moved to an ancestor, and has the logs of all that it skips.

    Writers before spec version 2.1 dropped the logs. Expiration moves to the first snapshot even
    if a tag keeps another one in between; then only the logs prove it.
    """
    was = before.snapshots[now.id]
    own = was.pruned_ancestor_tx_logs or ()
    if now.parent_id == was.parent_id:
        return (now.pruned_ancestor_tx_logs or ()) == own
    ancestors = walk(was.parent_id, before.parents.__getitem__)
    skipped = [*takewhile(partial(ne, now.parent_id), ancestors)]
    if before.parents[skipped[-1] if skipped else now.id] != now.parent_id:
        return False
    found = now.pruned_ancestor_tx_logs or ()
    if found == logs_of_skipped([before.snapshots[id_] for id_ in skipped]) + own:
        return True
    return found == own and after.snapshots.keys().isdisjoint(skipped)
