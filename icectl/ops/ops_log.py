"""The ops log with filters: `icectl ops-log`. Reads repo info files only, never a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import get_args

from icectl.errors import ObjectNotFoundError, Remedy, UnsupportedError
from icectl.model.repo import UpdateType
from icectl.repository.backups import is_cleared, list_backups
from icectl.repository.ops_log import BACKUPS, OpsLogBeyondReach, OpsLogEntry, read_ops_log
from icectl.repository.repository import Repository
from icectl.storage.contract import ListingShard, Storage

__all__ = [
    "KINDS",
    "OpsLogBeyondReach",
    "OpsLogEntry",
    "OpsLogOptions",
    "read_filtered_ops_log",
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


def read_filtered_ops_log(
    repository: Repository, options: OpsLogOptions
) -> Iterator[OpsLogEntry | OpsLogBeyondReach]:
    """The matching updates, newest first, read as far as the caller asks.

    If a backup is missing or damaged, the last item says what is beyond reach, unless the filters
    were satisfied before.
    """
    if repository.info is None:
        raise UnsupportedError(
            f"a repository of the generation {repository.generation} keeps no ops log",
            hint=Remedy("show-all-commits"),
        )
    remaining = options.limit
    if remaining == 0:
        return
    for entry in read_ops_log(repository.storage, repository.info):
        if isinstance(entry, OpsLogBeyondReach):
            yield replace(entry, is_cleared=_is_cleared(repository.storage, entry))
            return
        if options.since is not None and entry.update.updated_at < options.since:
            return  # each entry is older than the one before it
        if _matches(entry, options):
            yield entry
            if remaining is not None:
                remaining -= 1
                if remaining == 0:
                    return


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
