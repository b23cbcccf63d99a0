"""Undo or restore: plan the change on the newest state, and execute it with one conditional write.

A plan is a value; it is executed only if it is still the same on the state that is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from icectl.errors import ConflictError, RefNotFoundError, RefusedError, Remedy, UsageError
from icectl.model.ids import SnapshotId
from icectl.model.repo import GCRanUpdate, RepoInfo, RepoStatusChangedUpdate, UpdateType
from icectl.ops.ops_log import ListedOperation, ReportedChanges, list_operation, report_changes
from icectl.pipeline.progress import Progress
from icectl.repository.edits import Edited
from icectl.repository.history import state_of
from icectl.repository.operations import Operations, ParseTime, operations_of
from icectl.repository.ops_log import OpsLogBeyondReach, walk_updates
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
from icectl.repository.update import update_repo
from icectl.repository.writes import find_write_problem
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.ops.undo.needed import NeededObjects

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
    needed = _find_needed(repository, before, after, progress)
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


@dataclass(frozen=True, slots=True)
class UndoResult:
    dry_run: bool
    operation: ListedOperation
    changes: ReportedChanges
    left_out_snapshots: tuple[SnapshotId, ...]
    """Unreachable ones that are not listed again, since their objects are gone."""
    burnt_tags: tuple[str, ...]
    """Names of deleted tags, which can never be used again."""
    missing: tuple[str, ...]


def build_result(plan: UndoPlan, *, dry_run: bool, missing: tuple[str, ...]) -> UndoResult:
    left_out = () if plan.needed.missing else tuple(sorted(plan.needed.incomplete))
    changes = report_changes(plan.changes)
    return UndoResult(dry_run, plan.operation, changes, left_out, plan.burnt_tags, missing)


def missing_error(plan: UndoPlan) -> RefusedError:
    missing = plan.needed.missing
    more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
    return RefusedError(
        f"what the earlier state needs is gone, so nothing was changed: {missing[0]}{more}",
        hint=Remedy("restore-lost")
        if plan.collection is None
        else Remedy("restore-collected", {"by": f"@{plan.collection}"}),
    )


def execute_undo(
    repository: Repository, plan: UndoPlan, options: UndoOptions, progress: Progress
) -> UndoResult:
    """Write the planned change; `ConflictError` if it is another one on the newest state.

    The result lists what went missing while it was written.
    """
    if plan.needed.missing:
        raise missing_error(plan)

    def change(info: RepoInfo) -> Edited:
        after = plan.build(info)
        if diff_states(info, after) != plan.changes:
            raise ConflictError(
                "the repository changed since the plan was made, and nothing was changed",
                hint="look at the new plan, and confirm that",
            )
        if plan.needed.num_snapshots and _was_collected(repository.storage, plan.before, info):
            raise ConflictError(
                "a garbage collection ran since the plan was made, and nothing was changed",
                hint="look at the new plan once the collection is done",
            )
        return after, updates_of(info, after)

    update_repo(
        repository.storage,
        change,
        found=repository.found,
        whatever_status=options.while_read_only or plan.sets_only_status,
    )
    missing: tuple[str, ...] = ()
    if plan.needed.num_snapshots:
        # A collection that began before the write does not know what came back.
        missing = _find_needed(repository, plan.before, plan.after, progress).missing
    return build_result(plan, dry_run=False, missing=missing)


def _find_needed(
    repository: Repository, before: RepoInfo, after: RepoInfo, progress: Progress
) -> NeededObjects:
    # Imported here, since it loads numpy, which `ops-log` and `status` do not need.
    from icectl.ops.undo.needed import find_needed

    return find_needed(repository.storage, before, after, progress)


def _was_collected(storage: Storage, before: RepoInfo, now: RepoInfo) -> bool:
    """Whether a collection ran since; also if the log was cut since, as only collections do it."""
    for update in walk_updates(storage, now):
        if isinstance(update, OpsLogBeyondReach):
            return True
        if update.updated_at <= before.latest_updates[0].updated_at:
            return False
        if isinstance(update.update_type, GCRanUpdate):
            return True
    return True
