"""Lines of history: which backups of `repo` the current one continues, and which it has lost.

Every update copies the state before it to `overwritten/`. Somebody who puts an older `repo` back,
or creates it again, starts another line there: the backups made since then hold states that the
ops log of `repo` does not lead to, and may be all that still lists the commits of those states.
That evidence stays however many operations follow.

A backup belongs to a line when the line's ops log names it or has its newest entry. The second
covers copies that a writer made and abandoned (a lost race) and entries without a `backup_path`.
A log that was cut, or whose older part was cleared, says nothing about what is older than its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from icectl.errors import (
    FormatError,
    ObjectNotFoundError,
    RefusedError,
    Remedy,
    StorageError,
    UnsupportedError,
)
from icectl.format.repo import decode_raw_repo, decode_repo_refs
from icectl.model.ids import SnapshotId
from icectl.model.repo import RepoInfo, RepoInitializedUpdate, Update, UpdateType
from icectl.repository.backups import is_cleared, list_backups
from icectl.repository.ops_log import (
    BACKUPS,
    OpsLogBeyondReach,
    backup_object,
    read_repo,
    walk_updates,
)
from icectl.storage.contract import Storage

Entry = tuple[int, UpdateType]
"""What identifies an update in every copy of the log; its `backup_path` is filled in later."""


class Line:
    """The history up to one state, as its ops log records it; read when it is first needed."""

    def __init__(
        self, storage: Storage, info: RepoInfo, backups: Mapping[str, int] | None = None
    ) -> None:
        self.storage = storage
        self.info = info
        if backups is not None:
            self.backups = backups

    @cached_property
    def _walked(self) -> tuple[list[Update], OpsLogBeyondReach | None]:
        updates: list[Update] = []
        for update in walk_updates(self.storage, self.info):
            if isinstance(update, OpsLogBeyondReach):
                return updates, update
            updates.append(update)
        return updates, None

    @property
    def updates(self) -> list[Update]:
        """From the newest on."""
        return self._walked[0]

    @property
    def end(self) -> OpsLogBeyondReach | None:
        """Why the log ends before the first operation; None where `repo` says that it ends."""
        return self._walked[1]

    @cached_property
    def backups(self) -> Mapping[str, int]:
        """The copies of `repo` that are there, of any line, and when each was made."""
        return list_backups(self.storage)

    @cached_property
    def _entries(self) -> Set[Entry]:
        return {(update.updated_at, update.update_type) for update in self.updates}

    @cached_property
    def names(self) -> Set[str]:
        return {update.backup_path for update in self.updates if update.backup_path is not None}

    def __contains__(self, newest: Update) -> bool:
        """Whether the state after this update is known to be part of the line."""
        return (newest.updated_at, newest.update_type) in self._entries

    def is_beyond(self, updated_at: int) -> bool:
        """Whether the log ends after that time, so that it cannot know the update."""
        if self.end is None and isinstance(self.updates[-1].update_type, RepoInitializedUpdate):
            return False
        if self.end is not None and not is_cleared(
            self.end.path.removeprefix(f"{BACKUPS}/"), self.backups
        ):
            return False  # a gap: what lies behind it may well be of a lost line
        return updated_at < self.updates[-1].updated_at


@dataclass(frozen=True, slots=True)
class LostBackup:
    """A backup whose state the current line of history does not continue."""

    name: str
    newest: Update
    snapshots: frozenset[SnapshotId]
    """Those that it lists, without those that the caller keeps anyway."""

    @property
    def path(self) -> str:
        return backup_object(self.name)


@dataclass(frozen=True, slots=True)
class LostHistory:
    backups: tuple[LostBackup, ...]
    """From the newest update on."""
    unreadable: Mapping[str, FormatError | UnsupportedError]
    """Backups, by path, of which nobody can tell."""

    def listing(self, snapshots: Set[SnapshotId]) -> LostHistory:
        """The part of it that lists any of these snapshots, with these alone."""
        found = (
            LostBackup(backup.name, backup.newest, backup.snapshots & snapshots)
            for backup in self.backups
        )
        return LostHistory(tuple(one for one in found if one.snapshots), self.unreadable)

    @property
    def snapshots(self) -> set[SnapshotId]:
        return {id_ for backup in self.backups for id_ in backup.snapshots}


def find_lost_history(line: Line, kept: Set[SnapshotId]) -> LostHistory:
    """The backups outside this line, which starts at `repo`; `kept` are of no interest."""
    if line.end is not None and _is_failure(line.end.error):
        raise line.end.error
    if not line.updates:
        return LostHistory((), {})
    lost: list[LostBackup] = []
    unreadable: dict[str, FormatError | UnsupportedError] = {}
    names = {backup_object(name): name for name in line.backups if name not in line.names}
    for path, data in line.storage.read_many(names):
        if isinstance(data, ObjectNotFoundError):
            continue  # its writer took it back
        if isinstance(data, StorageError):
            raise data
        try:
            newest = decode_repo_refs(data).newest
            if newest is None:
                raise FormatError("the ops log of this backup is empty")
            if newest in line or line.is_beyond(newest.updated_at):
                continue
            ids = frozenset(entry.id for entry in decode_raw_repo(data)[0].snapshots)
            lost.append(LostBackup(names[path], newest, ids - kept))
        except (FormatError, UnsupportedError) as error:
            # The name says when it was made: before the first operation it was of no use.
            if line.backups[names[path]] * 1000 >= line.updates[-1].updated_at:
                unreadable[path] = error.at(path) if isinstance(error, FormatError) else error
    lost = _without_new(line, lost)
    lost.sort(key=lambda backup: (backup.newest.updated_at, backup.name), reverse=True)
    return LostHistory(tuple(lost), unreadable)


def find_abandoned(
    storage: Storage, lost: Collection[LostBackup], names: Iterable[str]
) -> list[LostBackup]:
    """The lost backups on the lines that end in these, oldest first."""
    known = {backup.name: backup for backup in lost}
    found: dict[str, LostBackup] = {}
    for name in (name.removeprefix(f"{BACKUPS}/") for name in names):
        if name not in known:
            raise RefusedError(
                f"{backup_object(name)} is not a backup outside the current line of history",
                hint=Remedy("find-lost-line"),
            )
        line = Line(storage, read_repo(storage, known[name].path))
        for backup in lost:
            if backup.newest in line:
                found[backup.name] = backup
    return sorted(found.values(), key=lambda backup: backup.newest.updated_at)


def _without_new(line: Line, lost: list[LostBackup]) -> list[LostBackup]:
    """Others may have gone on since `repo` was read: each state that they left was in it."""
    newest = line.updates[0].updated_at
    if not any(backup.newest.updated_at > newest for backup in lost):
        return lost
    now = Line(line.storage, read_repo(line.storage))
    return [backup for backup in lost if backup.newest not in now]


def _is_failure(error: Exception) -> bool:
    """A storage that did not answer, as opposed to a backup that is gone or damaged."""
    return isinstance(error, StorageError) and not isinstance(error, ObjectNotFoundError)
