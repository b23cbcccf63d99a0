"""Old backups of `repo` in `overwritten/`: which ones are deleted, and where the ops log is cut.

A backup that the ops log still reaches stays, unless the log itself is cut there. Only entries in
`repo` can be cut: backups are never rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from icectl.errors import ObjectNotFoundError
from icectl.model.repo import RepoInfo, Update
from icectl.pipeline.objects import is_created_before
from icectl.repository.backups import is_backup
from icectl.repository.ops_log import (
    BACKUPS,
    OpsLogBeyondReach,
    backup_object,
    walk_updates,
)
from icectl.storage.contract import ObjectInfo, Storage


@dataclass(frozen=True, slots=True)
class BackupPlan:
    garbage: tuple[ObjectInfo, ...]
    kept: int
    foreign: tuple[str, ...]
    oldest_update_at: int | None = None
    """Where the ops log is cut: the oldest entry that stays. None leaves it whole."""
    is_uncut: bool = False
    """The log was to be cut, but the entries of that age are in backups, not in `repo`."""

    @property
    def num_bytes(self) -> int:
        return sum(info.size or 0 for info in self.garbage)


def plan_backups(
    storage: Storage,
    info: RepoInfo | None,
    older_than: int | None,
    *,
    truncate_ops_log: bool,
    abandoned: Sequence[str] = (),
) -> BackupPlan:
    """Delete old backups that are not needed, then the abandoned ones in their order."""
    names: list[ObjectInfo] = []
    foreign: list[str] = []
    for listed in storage.list(BACKUPS):
        if is_backup(listed.path.removeprefix(f"{BACKUPS}/")):
            names.append(listed)
        else:
            foreign.append(listed.path)
    old = {
        item.path
        for item in names
        if older_than is not None and is_created_before(item.created_at or 0, older_than)
    }
    cut = _cut(info, old) if info is not None and truncate_ops_log else None
    reached: set[str] = set()
    if info is not None:
        reached = _reached(storage, info if cut is None else truncated(info, cut))
    going = dict.fromkeys(abandoned)
    listed_at = {item.path: item for item in names}
    garbage = (
        *(item for item in names if item.path in old - reached and item.path not in going),
        *(listed_at[path] for path in going if path in listed_at),
    )
    is_uncut = truncate_ops_log and cut is None and not old.isdisjoint(reached)
    return BackupPlan(garbage, len(names) - len(garbage), tuple(foreign), cut, is_uncut)


def _cut(info: RepoInfo, old: set[str]) -> int | None:
    """The time of the oldest entry to keep, if one of the latest updates names an old backup."""
    kept: Update | None = None
    for update in info.latest_updates:
        if update.backup_path is not None and backup_object(update.backup_path) in old:
            return None if kept is None else kept.updated_at
        kept = update
    return None


def truncated(info: RepoInfo, oldest_update_at: int) -> RepoInfo:
    """The state without the entries of the ops log before that time."""
    updates = tuple(
        update for update in info.latest_updates if update.updated_at >= oldest_update_at
    )
    if len(updates) == len(info.latest_updates):
        return info
    return replace(info, latest_updates=updates, repo_before_updates=None)


def _reached(storage: Storage, info: RepoInfo) -> set[str]:
    reached: set[str] = set()
    if info.repo_before_updates is not None:
        reached.add(backup_object(info.repo_before_updates))
    for update in walk_updates(storage, info):
        if isinstance(update, OpsLogBeyondReach):
            # A missing backup ends the log; one that cannot be read at the moment does not.
            if isinstance(update.error, ObjectNotFoundError):
                break
            raise update.error
        if update.backup_path is not None:
            reached.add(backup_object(update.backup_path))
    return reached
