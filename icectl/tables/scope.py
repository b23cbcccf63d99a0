"""Which snapshots a table shows, and which of its rows can be left out beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from icectl.errors import RefNotFoundError, Remedy
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.repository.repository import Repository
from icectl.repository.resolve import DEFAULT_REF


@dataclass(frozen=True, slots=True)
class Scope:
    """The user's choice; with none of it, main, or for the history the whole repository."""

    refs: tuple[str, ...] = ()
    all_snapshots: bool = False
    as_of: int | None = None
    """Microseconds since 1970: nothing that is newer."""
    backup: str | None = None
    """The backup with the state that is read; None for the newest state."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A column must be one of `values`, or begin with `prefix`.

    Partitions and files that cannot match are left out. Whoever asks filters the rows again,
    so that a table may ignore a condition.
    """

    column: str
    values: tuple[str, ...] = ()
    prefix: str | None = None

    def admits(self, value: str | None) -> bool:
        if value is None:
            return False
        return value in self.values if self.prefix is None else value.startswith(self.prefix)


Conditions = tuple[Condition, ...]


def admits(conditions: Conditions, column: str, value: object) -> bool:
    """Whether rows can match whose `column` is `value`, or the text of it."""
    text = None if value is None else str(value)
    return all(one.admits(text) for one in conditions if one.column == column)


def select_versions(
    repository: Repository, scope: Scope, conditions: Conditions
) -> list[SnapshotInfo]:
    """The snapshots whose content is wanted: the tip of main unless others are named."""
    if scope.all_snapshots:
        return select_history(repository, scope, conditions)
    found = {
        info.id: info
        for ref in scope.refs or (DEFAULT_REF,)
        for info in [_newest(repository, ref, scope.as_of)]
    }
    return _ordered(found.values(), conditions)


def select_history(
    repository: Repository, scope: Scope, conditions: Conditions
) -> list[SnapshotInfo]:
    """The ancestry of the named refs; every snapshot of the repository when none is named."""
    found: dict[SnapshotId, SnapshotInfo] = {}
    if scope.all_snapshots or not scope.refs:
        found.update((info.id, info) for info in repository.all_snapshots())
    else:
        tips = (repository.resolve(ref).snapshot_id for ref in scope.refs)
        found.update((info.id, info) for info in repository.ancestry_of_all(tips))
    return _ordered(_until(found.values(), scope.as_of), conditions)


def _newest(repository: Repository, ref: str, as_of: int | None) -> SnapshotInfo:
    ancestry = repository.ancestry(repository.resolve(ref).snapshot_id)
    newest = next(_until(ancestry, as_of), None)
    if newest is None:
        raise RefNotFoundError(
            f"{ref} has no snapshot as old as that", hint=Remedy("show-commit-times", {"ref": ref})
        )
    return newest


def _until(infos: Iterable[SnapshotInfo], as_of: int | None) -> Iterator[SnapshotInfo]:
    return (info for info in infos if as_of is None or info.flushed_at <= as_of)


def _ordered(infos: Iterable[SnapshotInfo], conditions: Conditions) -> list[SnapshotInfo]:
    chosen = (info for info in infos if admits(conditions, "snapshot_id", info.id))
    return sorted(chosen, key=lambda info: (info.flushed_at, info.id))
