"""What an undo or a restore will change, decided on the newest state. A plan is a value."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from itertools import islice

from icectl.errors import RefNotFoundError, RefusedError, Remedy, UsageError
from icectl.model.ids import SnapshotId
from icectl.model.repo import GCRanUpdate, RepoInfo, RepoStatusChangedUpdate, UpdateType
from icectl.ops.ops_log import ListedOperation, list_operation
from icectl.ops.undo.needed import NeededObjects, find_needed
from icectl.pipeline.progress import Progress
from icectl.repository.history import state_of
from icectl.repository.operations import Operations, ParseTime, operations_of
from icectl.repository.repository import Repository
from icectl.repository.state_changes import (
    KINDS,
    Part,
    StateChanges,
    WrittenSinceError,
    apply_changes,
    diff_states,
    select_part,
    updates_of,
)
from icectl.repository.writes import find_write_problem

Build = Callable[[RepoInfo], RepoInfo]


@dataclass(frozen=True, slots=True)
class UndoOptions:
    only: Part | None = None
    undelete_tags: bool = False
    while_read_only: bool = False


@dataclass(frozen=True, slots=True)
class UndoPlan:
    operation: ListedOperation
    """What is taken back, or whose state is restored."""
    build: Build
    """Makes the new state of the newest one; may raise."""
    before: RepoInfo
    after: RepoInfo
    changes: StateChanges
    updates: tuple[UpdateType, ...]
    """The entries of the ops log, oldest first."""
    needed: NeededObjects
    collection: int | None
    """If anything that is needed is missing: the number of the operation that deleted it."""

    @property
    def is_empty(self) -> bool:
        return self.changes.is_empty

    @property
    def sets_only_status(self) -> bool:
        """That is possible whatever the status is."""
        return self.changes.status is not None and replace(self.changes, status=None).is_empty

    @property
    def burnt_tags(self) -> tuple[str, ...]:
        """Names that can never be used again."""
        return tuple(name for name, change in self.changes.tags.items() if change.after is None)


def parse_part(texts: tuple[str, ...]) -> Part | None:
    """Of `branch:X`, `tag:Y` and `KINDS`; None if nothing is given: all of it."""
    branches, tags, kinds = set(), set(), set()
    for text in texts:
        kind, _, name = text.partition(":")
        if kind == "branch" and name:
            branches.add(name)
        elif kind == "tag" and name:
            tags.add(name)
        elif text in KINDS:
            kinds.add(text)
        else:
            raise UsageError(
                f"{text!r} is not a part of a repository",
                hint=f"write branch:NAME, tag:NAME, {', '.join(KINDS)}",
            )
    return Part(frozenset(branches), frozenset(tags), frozenset(kinds)) if texts else None


def plan_undo(
    repository: Repository,
    name: str | None,
    parse_time: ParseTime,
    options: UndoOptions,
    progress: Progress,
) -> UndoPlan:
    """Revert one write, by default the newest, on the newest state."""
    operations = operations_of(repository)
    number = 0 if name is None else operations.find(name, parse_time)
    operations.check_undoable(number)
    found = operations.read_operation(number)
    number = found.number
    wanted = diff_states(found.after, found.before)
    kinds = {type(update.update_type) for update in found.written_together}
    if RepoStatusChangedUpdate not in kinds:
        # Official writers may change it without an entry.
        wanted = replace(wanted, status=None)
    if options.only is not None:
        _check_part(options.only, found.before, found.after)
        wanted = select_part(wanted, options.only, found.after, found.before)

    before = f"@{number + len(found.written_together)}"
    hint = Remedy("undo-later-first", {"before": before})

    def build(info: RepoInfo) -> RepoInfo:
        return _apply(info, wanted, options, hint)

    return _plan(repository, operations, number, build, hint, progress)


def plan_restore(
    repository: Repository,
    name: str,
    parse_time: ParseTime,
    options: UndoOptions,
    progress: Progress,
) -> UndoPlan:
    """Bring the state after an operation back, or a part of it."""
    operations = operations_of(repository)
    number = operations.find(name, parse_time)
    target = operations.read_state(number)
    assert repository.info is not None
    if target.spec_version != repository.info.spec_version:
        raise RefusedError(f"@{number} has another spec version: {target.spec_version}")
    if options.only is not None:
        _check_part(options.only, target, repository.info)

    hint = Remedy("restore-more")

    def build(info: RepoInfo) -> RepoInfo:
        wanted = diff_states(info, target)
        if options.only is not None:
            wanted = select_part(wanted, options.only, info, target)
        return _apply(info, wanted, options, hint)

    return _plan(repository, operations, number, build, hint, progress)


def _apply(info: RepoInfo, wanted: StateChanges, options: UndoOptions, hint: Remedy) -> RepoInfo:
    try:
        return apply_changes(info, wanted, undelete_tags=options.undelete_tags)
    except WrittenSinceError as error:
        error.hint = hint
        raise


def _plan(
    repository: Repository,
    operations: Operations,
    number: int,
    build: Build,
    hint: Remedy,
    progress: Progress,
) -> UndoPlan:
    before = repository.info
    assert before is not None
    after = build(before)
    needed = find_needed(repository.storage, before, after, progress)
    if needed.incomplete and not needed.missing:
        # Nobody needs them, and they cannot be listed without their objects.
        whole, left_out = build, needed.incomplete

        def build(info: RepoInfo) -> RepoInfo:
            return _without(whole(info), left_out)

        after = build(before)
    updates = updates_of(before, after)
    problem = find_write_problem(updates, state_of(before), state_of(after)) if updates else None
    if problem is not None:
        raise RefusedError(
            f"the ops log has no kinds of operations for this change: {problem}",
            hint=hint,
        )
    changes = diff_states(before, after)
    operation = list_operation(repository, operations, number)
    collection = _find_collection(operations, number) if needed.missing else None
    return UndoPlan(operation, build, before, after, changes, updates, needed, collection)


def _find_collection(operations: Operations, number: int) -> int | None:
    """The newest garbage collection since the operation."""
    for newer, update in enumerate(islice(operations, number)):
        if isinstance(update.update_type, GCRanUpdate):
            return newer
    return None


def _without(info: RepoInfo, left_out: Set[SnapshotId]) -> RepoInfo:
    """Without these unreachable snapshots and their descendants, which are unreachable as well."""
    gone = {*state_of(info).descendants(left_out)}
    kept = tuple(snapshot for snapshot in info.snapshots if snapshot.id not in gone)
    return replace(info, snapshots=kept)


def _check_part(part: Part, *states: RepoInfo) -> None:
    """`RefNotFoundError` for a ref that no state has: it is probably mistyped."""
    for kind, names, refs in (
        ("branch", part.branches, [state.branches for state in states]),
        ("tag", part.tags, [state.tags for state in states]),
    ):
        known = {ref.name for one in refs for ref in one}
        for name in sorted(names - known):
            raise RefNotFoundError(f"there is no {kind} {name}, and there was none then")
