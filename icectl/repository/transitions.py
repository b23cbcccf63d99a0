"""Whether operations explain the transition from one state of `repo` to another. Pure.

Each operation must have done exactly what its entry in the ops log says: it changed the one ref
that it names, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    TagCreatedUpdate,
    TagDeletedUpdate,
    UnknownUpdate,
    Update,
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
REMOVING = (ExpirationRanUpdate, GCRanUpdate)
"""They take snapshots off the list, and the ops log does not record which."""
UNRECORDED = (BranchCreatedUpdate, BranchResetUpdate, TagCreatedUpdate)
"""The ops log does not record where these let a ref point."""


Target = TypeVar("Target")


def created_snapshot(update: Update) -> SnapshotId | None:
    """The snapshot that the operation put on the list."""
    match update.update_type:
        case (
            NewCommitUpdate(_, new)
            | CommitAmendedUpdate(_, _, new)
            | NewDetachedSnapshotUpdate(new)
        ):
            return new
        case _:
            return None


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
    updates: Sequence[UpdateType],
    before: State,
    after: State,
    targets: Sequence[RefTarget | None],
) -> bool:
    """Whether these operations, newest first, and nothing else, turned `before` into `after`.

    They are repeated on `before` one by one, and each must find the ref that it names as its entry
    says: one look at each, where `find_problem` compares the states around it. For an `UNRECORDED`
    operation, `targets` has the target at the same place.

    The ops log does not record what a `REMOVING` operation did; here the pruned logs must prove it,
    as a snapshot that moved up lists all that it skips. False where there is no such proof does
    not mean that anything is wrong.
    """
    replayed = _Replay(before)
    for number in range(len(updates) - 1, -1, -1):
        if not replayed.apply(updates[number], targets[number]):
            return False
    return replayed.leads_to(after)


class _Replay:
    """The refs and the ancestry that operations lead to, if nothing was ever removed."""

    def __init__(self, state: State) -> None:
        self.branches, self.tags = dict(state.branches), dict(state.tags)
        self.parents: dict[SnapshotId, SnapshotId | None] = dict(state.parents)
        self.pruned_logs = dict(state.pruned_logs)
        self.detached: set[SnapshotId] = set()
        """Their parents are not recorded."""
        self.since_removal: set[SnapshotId] = set()
        """Made since the newest `REMOVING` operation."""
        self.since_expiration: set[str] = set()
        """Tags created since the newest expiration."""
        self.has_removal = self.has_expiration = False

    def apply(self, update: UpdateType, target: RefTarget | None) -> bool:
        """Whether the operation finds what its entry says."""
        if isinstance(update, UNRECORDED) and not self._is_known(target):
            return False
        match update:
            case NewCommitUpdate(name, new):
                parent = self.branches.get(name)
                if parent is None or not self._add(new, parent):
                    return False
                self.branches[name] = new
            case CommitAmendedUpdate(name, amended, new):
                if self.branches.get(name) != amended or amended in self.detached:
                    return False
                if not self._add(new, self.parents[amended]):
                    return False
                if amended in self.pruned_logs:
                    self.pruned_logs[new] = self.pruned_logs[amended]
                self.branches[name] = new
            case NewDetachedSnapshotUpdate(new):
                self.detached.add(new)
                return self._add(new, None)
            case BranchDeletedUpdate(name, previous):
                return self.branches.pop(name, None) == previous
            case TagDeletedUpdate(name, previous):
                return self.tags.pop(name, None) == previous
            case BranchResetUpdate(name, previous):
                assert target is not None
                if self.branches.get(name) != previous:
                    return False
                self.branches[name] = target.id
            case BranchCreatedUpdate(name):
                assert target is not None
                if name in self.branches:
                    return False
                self.branches[name] = target.id
            case TagCreatedUpdate(name):
                assert target is not None
                if name in self.tags:
                    return False
                self.tags[name] = target.id
                self.since_expiration.add(name)
            case ExpirationRanUpdate() | GCRanUpdate():
                self.has_removal = True
                self.since_removal.clear()
                if isinstance(update, ExpirationRanUpdate):
                    self.has_expiration = True
                    self.since_expiration.clear()
            case UnknownUpdate():
                return False
            case _:
                pass  # a change of the configuration, the metadata or the status
        return True

    def _add(self, new: SnapshotId, parent: SnapshotId | None) -> bool:
        if new in self.parents:
            return False
        self.parents[new] = parent
        self.since_removal.add(new)
        return True

    def _is_known(self, target: RefTarget | None) -> bool:
        """Whether the snapshot was there, with this parent or, once it moved up, an older one."""
        if target is None or target.id not in self.parents:
            return False
        if target.id in self.detached or self.parents[target.id] == target.parent_id:
            return True
        return self.has_removal and self._skipped(target.id, target.parent_id) is not None

    def _skipped(
        self, snapshot_id: SnapshotId, ancestor: SnapshotId | None
    ) -> list[SnapshotId] | None:
        """The snapshots between the two, nearest first; None if it is not known to be one."""
        skipped: list[SnapshotId] = []
        for id_ in walk(self.parents[snapshot_id], self.parents.__getitem__, {snapshot_id}):
            if id_ == ancestor:
                return skipped
            if id_ in self.detached:
                return None
            skipped.append(id_)
        last = skipped[-1] if skipped else snapshot_id
        return skipped if self.parents[last] is None and ancestor is None else None

    def leads_to(self, after: State) -> bool:
        if self.branches != after.branches or not self._explains_tags(after):
            return False
        if after.parents.keys() - self.parents.keys():
            return False
        gone = self.parents.keys() - after.parents.keys()
        if gone and not (self.has_removal and self.since_removal.isdisjoint(gone)):
            return False
        return all(self._explains_parent(id_, after) for id_ in after.parents)

    def _explains_tags(self, after: State) -> bool:
        """An expiration deletes tags without an entry for each, and leaves their names behind."""
        expired = {name for name in self.tags if name not in after.tags}
        for name in expired:
            target = self.tags[name]
            if name in self.since_expiration or name not in after.deleted_tags:
                return False
            if target in after.parents and target not in after.reachable:
                return False
        if expired and not self.has_expiration:
            return False
        return {n: id_ for n, id_ in self.tags.items() if n not in expired} == after.tags

    def _explains_parent(self, snapshot_id: SnapshotId, after: State) -> bool:
        if snapshot_id in self.detached:
            return True
        own = self.pruned_logs.get(snapshot_id, ())
        logs = after.pruned_logs.get(snapshot_id, ())
        if after.parents[snapshot_id] == self.parents[snapshot_id]:
            return logs == own
        if not self.has_removal or snapshot_id in self.since_removal:
            return False
        skipped = self._skipped(snapshot_id, after.parents[snapshot_id])
        if not skipped:
            return False
        return logs == logs_of_skipped(skipped, self.pruned_logs) + own


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
            if not _is_amended(previous, before, new, after):
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


def _is_amended(previous: SnapshotId, before: State, new: SnapshotId, after: State) -> bool:
    """Whether the new snapshot has the ancestry of the one that it replaces."""
    if previous not in before.parents or new not in after.parents:
        return False
    return (before.parents[previous], before.pruned_logs.get(previous)) == (
        after.parents[new],
        after.pruned_logs.get(new),
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
    for snapshot_id in after.parents.keys() ^ before.parents.keys() ^ added:
        yield f"the snapshot {snapshot_id} came or went with another operation"
    for snapshot_id, parent in after.parents.items():
        if snapshot_id in before.parents and (
            parent != before.parents[snapshot_id]
            or after.pruned_logs.get(snapshot_id) != before.pruned_logs.get(snapshot_id)
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
    for snapshot_id in after.parents.keys() - before.parents.keys():
        yield f"the snapshot {snapshot_id} came with another operation"
    removed = before.parents.keys() - after.parents.keys()
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
    for snapshot_id in after.parents:
        if snapshot_id in before.parents and not _moved_up(snapshot_id, before, after):
            yield f"the ancestry of {snapshot_id} changed with another operation"


def _moved_up(snapshot_id: SnapshotId, before: State, after: State) -> bool:
    """Whether the snapshot moved to an ancestor, and has the logs of all that it skips.

    Writers before spec version 2.1 dropped the logs. Expiration moves to the first snapshot even
    if a tag keeps another one in between; then only the logs prove it.
    """
    was, now = before.parents[snapshot_id], after.parents[snapshot_id]
    own = before.pruned_logs.get(snapshot_id, ())
    found = after.pruned_logs.get(snapshot_id, ())
    if now == was:
        return found == own
    skipped = [*takewhile(partial(ne, now), walk(was, before.parents.__getitem__))]
    if before.parents[skipped[-1] if skipped else snapshot_id] != now:
        return False
    if found == logs_of_skipped(skipped, before.pruned_logs) + own:
        return True
    return found == own and after.parents.keys().isdisjoint(skipped)
