"""The ops log with filters, one operation of it, and what an operation changed: `icectl ops-log`.

Reads repo info files only, never a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import get_args

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.format.values import decode_flexbuffers, decode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.redaction import redact_locations
from icectl.model.repo import FEATURE_FLAGS, RepoStatus, Update, UpdateType
from icectl.model.values import MetadataItem
from icectl.pipeline.progress import Progress
from icectl.repository.backups import is_cleared, list_backups
from icectl.repository.operations import Operations, ParseTime, operations_of
from icectl.repository.ops_log import BACKUPS, OpsLogBeyondReach, OpsLogEntry, read_ops_log
from icectl.repository.repository import Repository
from icectl.repository.state_changes import Change, StateChanges, Target, diff_states
from icectl.storage.contract import ListingShard, Storage

__all__ = [
    "KINDS",
    "ListedOperation",
    "OperationChanges",
    "OpsLogBeyondReach",
    "OpsLogOptions",
    "read_filtered_ops_log",
    "show_operation",
]

KINDS: tuple[str, ...] = tuple(update.kind for update in get_args(UpdateType))


@dataclass(frozen=True, slots=True)
class OpsLogOptions:
    limit: int | None = None
    since: int | None = None
    until: int | None = None
    kinds: Collection[str] = ()
    """None given: all."""
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class ListedOperation(OpsLogEntry):
    number: int
    """Counted back from the newest, which is 0."""
    obstacle: str | None
    """Why it cannot be undone; None if nothing but later operations can be in the way."""
    written_with: int | None
    """The number of a newer operation of the same write, such as an undo; None for most."""


@dataclass(frozen=True, slots=True)
class RefChange:
    name: str
    snapshot_id: SnapshotId | None
    """None if the ref is gone."""
    previous_snapshot_id: SnapshotId | None
    """None if the ref is new."""


@dataclass(frozen=True, slots=True)
class ParentChange:
    id: SnapshotId
    parent_id: SnapshotId | None
    previous_parent_id: SnapshotId | None
    num_pruned_logs: int
    """How many transaction logs of released ancestors the snapshot lists."""
    previous_num_pruned_logs: int


@dataclass(frozen=True, slots=True)
class ValueChange:
    key: str
    value: object
    """None if it is gone, or left at its default."""
    previous_value: object


@dataclass(frozen=True, slots=True)
class ReportedChanges:
    branches: tuple[RefChange, ...]
    tags: tuple[RefChange, ...]
    added_snapshots: tuple[SnapshotId, ...]
    removed_snapshots: tuple[SnapshotId, ...]
    reparented_snapshots: tuple[ParentChange, ...]
    config: tuple[ValueChange, ...]
    metadata: tuple[ValueChange, ...]
    flags: tuple[ValueChange, ...]
    status: tuple[ValueChange, ...]


@dataclass(frozen=True, slots=True)
class OperationChanges:
    operation: ListedOperation
    written_together: tuple[ListedOperation, ...]
    """Operations that the same write recorded, newest first; usually none."""
    changes: ReportedChanges


def read_filtered_ops_log(
    repository: Repository, options: OpsLogOptions, progress: Progress | None = None
) -> Iterator[ListedOperation | OpsLogBeyondReach]:
    """The matching updates, newest first, read as far as the caller asks.

    If a backup is missing or damaged, the last item says what is beyond reach, unless the filters
    were satisfied before.
    """
    operations = operations_of(repository)
    matches = partial(_matches, options)
    entries = _read_entries(repository, _walk_filtered(operations, options), matches)
    counted = (progress or Progress()).count(entries, "reading the ops log", None, "operations")
    for number, entry in enumerate(counted):
        if isinstance(entry, OpsLogBeyondReach):
            yield replace(entry, is_cleared=_is_cleared(repository.storage, entry))
        elif matches(entry.update):
            yield _listed(operations, number, entry)


def show_operation(repository: Repository, name: str, parse_time: ParseTime) -> OperationChanges:
    """What one operation changed, by the states before and after it."""
    operations = operations_of(repository)
    found = operations.read_operation(operations.find(name, parse_time))
    end = found.number + len(found.written_together)
    newest, *others = _list_operations(repository, operations, range(found.number, end))
    changes = report_changes(diff_states(found.before, found.after))
    return OperationChanges(newest, tuple(others), changes)


def report_changes(changes: StateChanges) -> ReportedChanges:
    config = changes.config or Change(None, None)
    return ReportedChanges(
        branches=tuple(_refs(changes.branches)),
        tags=tuple(_refs(changes.tags)),
        added_snapshots=tuple(snapshot.id for snapshot in changes.added),
        removed_snapshots=tuple(snapshot.id for snapshot in changes.removed),
        reparented_snapshots=tuple(
            ParentChange(
                change.after.id,
                change.after.parent_id,
                change.before.parent_id,
                len(change.after.pruned_ancestor_tx_logs or ()),
                len(change.before.pruned_ancestor_tx_logs or ()),
            )
            for change in changes.reparented
        ),
        config=tuple(_compare(_settings(config.before), _settings(config.after))),
        metadata=tuple(
            ValueChange(name, _value(change.after), _value(change.before))
            for name, change in sorted(changes.metadata.items())
        ),
        flags=tuple(
            ValueChange(FEATURE_FLAGS.get(flag, str(flag)), change.after, change.before)
            for flag, change in sorted(changes.flags.items())
        ),
        status=tuple(_compare_status(changes.status)) if changes.status else (),
    )


def list_operation(repository: Repository, operations: Operations, number: int) -> ListedOperation:
    """One operation, as the ops log lists it."""
    return _list_operations(repository, operations, range(number, number + 1))[0]


def _list_operations(
    repository: Repository, operations: Operations, numbers: range
) -> list[ListedOperation]:
    walk = [*islice(operations, numbers.stop)]
    first = walk[numbers.start].updated_at
    entries = enumerate(
        _read_entries(repository, iter(walk), lambda update: update.updated_at <= first)
    )
    return [
        _listed(operations, number, entry)
        for number, entry in entries
        if number in numbers and isinstance(entry, OpsLogEntry)
    ]


def _read_entries(
    repository: Repository,
    walk: Iterator[Update | OpsLogBeyondReach],
    needs_target: Callable[[Update], bool],
) -> Iterator[OpsLogEntry | OpsLogBeyondReach]:
    assert repository.info is not None
    return read_ops_log(
        repository.storage, repository.info, updates=walk, needs_target=needs_target
    )


def _walk_filtered(
    operations: Operations, options: OpsLogOptions
) -> Iterator[Update | OpsLogBeyondReach]:
    """All entries as far back as one can match."""
    remaining = options.limit
    if remaining == 0:
        return
    for update in operations:
        if options.since is not None and update.updated_at < options.since:
            return  # each entry is older than the one before it
        yield update
        if remaining is not None and _matches(options, update):
            remaining -= 1
            if remaining == 0:
                return
    if operations.end is not None:
        yield operations.end


def _listed(operations: Operations, number: int, entry: OpsLogEntry) -> ListedOperation:
    newest = operations.newest_of_write(number)
    obstacle = operations.find_obstacle(newest)
    written_with = newest if newest != number else None
    return ListedOperation(entry.update, entry.target, number, obstacle, written_with)


def _is_cleared(storage: Storage, end: OpsLogBeyondReach) -> bool:
    if not isinstance(end.error, ObjectNotFoundError):
        return False
    name = end.path.removeprefix(f"{BACKUPS}/")
    return is_cleared(name, list_backups(storage, ListingShard(after=name)))


def _matches(options: OpsLogOptions, update: Update) -> bool:
    if options.until is not None and update.updated_at > options.until:
        return False
    if options.kinds and update.update_type.kind not in options.kinds:
        return False
    return options.branch is None or options.branch == _branch(update.update_type)


def _branch(update: UpdateType) -> str | None:
    """The branch that an update concerns."""
    if update.kind.startswith("branch_"):
        return getattr(update, "name", None)
    return getattr(update, "branch", None)


def _refs(changes: Mapping[str, Target]) -> Iterator[RefChange]:
    for name, change in sorted(changes.items()):
        yield RefChange(name, change.after, change.before)


def _settings(config: bytes | None) -> dict[str, object]:
    """By dotted keys, without the secrets of locations."""
    try:
        decoded = decode_flexbuffers(config) if config else {}
    except FormatError:
        return {"(unreadable)": config}
    return dict(_flatten("", redact_locations(decoded)))


def _flatten(key: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _flatten(f"{key}.{name}" if key else str(name), below)
    else:
        yield key, value


def _compare(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[ValueChange]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield ValueChange(key, after.get(key), before.get(key))


def _value(item: MetadataItem | None) -> object:
    try:
        return None if item is None else decode_metadata((item,), 2)[item.name]
    except FormatError:
        return "(unreadable)"


def _compare_status(change: Change[RepoStatus]) -> Iterable[ValueChange]:
    before, after = change.before, change.after
    return _compare(
        {"availability": before.availability, "reason": before.limited_availability_reason},
        {"availability": after.availability, "reason": after.limited_availability_reason},
    )
