"""Old backups of `repo` in `overwritten/`: which ones are deleted, and where the ops log is cut.

A backup that the ops log still reaches stays, unless the log itself is cut there. Backups are never
rewritten: entries in `repo` are cut off, and where the log continues in a backup, it ends with the
first one that is gone, as after a lifecycle rule of the storage. The official package reads such a
log up to there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import takewhile

from icectl.errors import ObjectNotFoundError
from icectl.model.repo import RepoInfo, Update
from icectl.pipeline.objects import is_created_before
from icectl.repository.backups import is_backup, times_of
from icectl.repository.ops_log import BACKUPS, backup_object
from icectl.repository.past import Timeline
from icectl.storage.contract import ObjectInfo, Storage


@dataclass(frozen=True, slots=True)
class BackupPlan:
    garbage: tuple[ObjectInfo, ...]
    kept: int
    foreign: tuple[str, ...]
    oldest_update_at: int | None = None
    """Where the ops log is cut: the oldest entry that stays. None leaves it whole."""
    is_uncut: bool = False
    """The log was to be cut, but a younger backup is older by its name than those to be deleted."""

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
    cut = None
    reached: frozenset[str] = frozenset()
    if info is not None:
        cut = _cut(info.latest_updates, old) if truncate_ops_log else None
        # After a cut inside `repo`, the log has no older part.
        timeline = Timeline(storage, info if cut is None else truncated(info, cut))
        reached = _reached(timeline)
        if truncate_ops_log and cut is None:
            cleared = _oldest_of(names, old)
            reached -= cleared
            cut = _cut(timeline.updates, cleared)
    going = dict.fromkeys(abandoned)
    listed_at = {item.path: item for item in names}
    unneeded = old - reached - going.keys()
    # Oldest first: an interrupted run must not leave a gap in the log.
    garbage = (
        *(listed_at[path] for path in sorted(unneeded, reverse=True)),
        *(listed_at[path] for path in going if path in listed_at),
    )
    is_uncut = truncate_ops_log and cut is None and not old.isdisjoint(reached)
    return BackupPlan(garbage, len(names) - len(garbage), tuple(foreign), cut, is_uncut)


def _cut(updates: Iterable[Update], old: Set[str]) -> int | None:
    """The time of the oldest entry to keep, if one of the updates names an old backup."""
    kept: Update | None = None
    for update in updates:
        if update.backup_path is not None and backup_object(update.backup_path) in old:
            return None if kept is None else kept.updated_at
        kept = update
    return None


def _oldest_of(names: Iterable[ObjectInfo], old: Set[str]) -> frozenset[str]:
    """The old backups that are older than all others by their names, too."""
    times = times_of(item.path for item in names)
    oldest_first = map(backup_object, sorted(times, key=times.__getitem__))
    return frozenset(takewhile(old.__contains__, oldest_first))


def truncated(info: RepoInfo, oldest_update_at: int) -> RepoInfo:
    """The state without the entries of the ops log before that time."""
    updates = tuple(
        update for update in info.latest_updates if update.updated_at >= oldest_update_at
    )
    if len(updates) == len(info.latest_updates):
        return info
    return replace(info, latest_updates=updates, repo_before_updates=None)


def _reached(timeline: Timeline) -> frozenset[str]:
    # A missing backup ends the log; one that cannot be read at the moment does not.
    if timeline.end is not None and not isinstance(timeline.end.error, ObjectNotFoundError):
        raise timeline.end.error
    names = {*timeline.names, timeline.info.repo_before_updates}
    return frozenset(backup_object(name) for name in names if name is not None)
