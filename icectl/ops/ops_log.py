"""The ops log with filters, and one operation of it: `icectl ops-log`.

Reads repo info files only, never a snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import get_args

from icectl.errors import ObjectNotFoundError
from icectl.model.repo import Update, UpdateType
from icectl.ops.reported_changes import ReportedChanges, report_changes
from icectl.pipeline.progress import Progress
from icectl.repository.backups import is_cleared, list_backups
from icectl.repository.operations import Operations, ParseTime, operations_of
from icectl.repository.ops_log import BACKUPS, OpsLogBeyondReach, OpsLogEntry, read_ops_log
from icectl.repository.repository import Repository
from icectl.repository.state_changes import diff_states
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
    remaining = options.limit
    if remaining == 0:
        return
    entries = _read_entries(repository, operations)
    counted = (progress or Progress()).count(entries, "reading the ops log", None, "operations")
    for number, entry in enumerate(counted):
        if isinstance(entry, OpsLogBeyondReach):
            yield replace(entry, is_cleared=_is_cleared(repository.storage, entry))
            return
        if options.since is not None and entry.update.updated_at < options.since:
            return  # each entry is older than the one before it
        if _matches(entry, options):
            yield _listed(operations, number, entry)
            if remaining is not None:
                remaining -= 1
                if remaining == 0:
                    return


def show_operation(repository: Repository, name: str, parse_time: ParseTime) -> OperationChanges:
    """What one operation changed, by the states before and after it."""
    operations = operations_of(repository)
    found = operations.read_operation(operations.find(name, parse_time))
    end = found.number + len(found.written_together)
    entries = islice(_read_entries(repository, operations), found.number, end)
    newest, *others = (
        _listed(operations, found.number + place, entry)
        for place, entry in enumerate(entries)
        if isinstance(entry, OpsLogEntry)
    )
    changes = report_changes(diff_states(found.before, found.after))
    return OperationChanges(newest, tuple(others), changes)


def list_operation(repository: Repository, operations: Operations, number: int) -> ListedOperation:
    """One operation, as the ops log lists it."""
    entries = _read_entries(repository, operations)
    entry = next(islice(entries, number, None))
    assert isinstance(entry, OpsLogEntry)
    return _listed(operations, number, entry)


def _read_entries(
    repository: Repository, operations: Operations
) -> Iterator[OpsLogEntry | OpsLogBeyondReach]:
    assert repository.info is not None
    return read_ops_log(repository.storage, repository.info, updates=_walk(operations))


def _walk(operations: Operations) -> Iterator[Update | OpsLogBeyondReach]:
    yield from operations
    if operations.end is not None:
        yield operations.end


def _listed(operations: Operations, number: int, entry: OpsLogEntry) -> ListedOperation:
    obstacle, newest = operations.find_obstacle(number), operations.newest_of_write(number)
    written_with = newest if newest != number else None
    return ListedOperation(entry.update, entry.target, number, obstacle, written_with)


def _is_cleared(storage: Storage, end: OpsLogBeyondReach) -> bool:
    if not isinstance(end.error, ObjectNotFoundError):
        return False
    name = end.path.removeprefix(f"{BACKUPS}/")
    return is_cleared(name, list_backups(storage, ListingShard(after=name)))


def _matches(entry: OpsLogEntry, options: OpsLogOptions) -> bool:
    if options.until is not None and entry.update.updated_at > options.until:
        return False
    if options.kinds and entry.update.update_type.kind not in options.kinds:
        return False
    return options.branch is None or options.branch == _branch(entry.update.update_type)


def _branch(update: UpdateType) -> str | None:
    """The branch that an update concerns."""
    if update.kind.startswith("branch_"):
        return getattr(update, "name", None)
    return getattr(update, "branch", None)
