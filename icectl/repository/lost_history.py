"""Lost history: states in backups that the ops log of `repo` does not lead to.

If somebody puts an older `repo` back, or creates it again, another timeline starts there. The
backups made since then hold states of a timeline that is lost, and may be all that still lists the
commits of those states. That evidence stays however many operations follow, and the commits are
kept until somebody abandons them explicitly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass

from icectl.errors import (
    FormatError,
    ObjectNotFoundError,
    RefusedError,
    Remedy,
    StorageError,
    UnsupportedError,
)
from icectl.format.repo import RepoFile
from icectl.model.ids import SnapshotId
from icectl.model.repo import Update, ids_of
from icectl.repository.backups import list_backups
from icectl.repository.ops_log import BACKUPS, REPO_PATH, backup_object, read_repo
from icectl.repository.past import Timeline
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class LostBackup:
    """A backup whose state is not part of the current timeline."""

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
    """Newest update first."""
    unreadable: Mapping[str, FormatError | UnsupportedError]
    """Backups, by path, whose content is unknown."""

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


def find_lost_history(timeline: Timeline, kept: Set[SnapshotId]) -> LostHistory:
    """The backups outside the timeline of `repo`; the `kept` snapshots are of no interest."""
    if timeline.end is not None and _is_failure(timeline.end.error):
        raise timeline.end.error
    if not timeline.updates:
        return LostHistory((), {})
    lost: list[LostBackup] = []
    unreadable: dict[str, FormatError | UnsupportedError] = {}
    names = {backup_object(name): name for name in timeline.backups if name not in timeline.names}
    for path, data in timeline.storage.read_many(names):
        if isinstance(data, ObjectNotFoundError):
            continue  # its writer took it back
        if isinstance(data, StorageError):
            raise data
        try:
            file = RepoFile(data)
            newest = file.newest_update
            if newest is None:
                raise FormatError("the ops log of this backup is empty")
            if newest in timeline or timeline.is_beyond(newest.updated_at):
                continue
            ids = frozenset(ids_of(file.snapshots))
            lost.append(LostBackup(names[path], newest, ids - kept))
        except (FormatError, UnsupportedError) as error:
            # The name says when it was made: before the first operation it was of no use.
            if timeline.backups[names[path]] * 1000 >= timeline.updates[-1].updated_at:
                unreadable[path] = error.at(path) if isinstance(error, FormatError) else error
    lost = _without_new(timeline, lost)
    lost.sort(key=lambda backup: (backup.newest.updated_at, backup.name), reverse=True)
    return LostHistory(tuple(lost), unreadable)


def find_backups_to_abandon(timeline: Timeline, newest: Collection[str]) -> tuple[str, ...]:
    """The objects of the lost timelines whose newest backups have these names, oldest first."""
    if not newest:
        return ()
    listed = {*ids_of(timeline.info.snapshots)}
    lost = {backup.name: backup for backup in find_lost_history(timeline, listed).backups}
    found: dict[str, LostBackup] = {}
    for name in (name.removeprefix(f"{BACKUPS}/") for name in newest):
        if name not in lost:
            raise RefusedError(
                f"{backup_object(name)} is not a backup outside the current line of history",
                hint=Remedy("find-lost-line"),
            )
        other = Timeline(timeline.storage, read_repo(timeline.storage, lost[name].path))
        for backup in lost.values():
            if backup.newest in other:
                found[backup.name] = backup
    oldest_first = sorted(found.values(), key=lambda backup: backup.newest.updated_at)
    return tuple(backup.path for backup in oldest_first)


def check_lost_history(
    timeline: Timeline,
    kept: Set[SnapshotId],
    unkept: Set[SnapshotId],
    known_missing: Set[str],
    abandoned: Collection[str],
) -> None:
    """`FormatError` if a lost timeline that is not abandoned lists one of the `unkept` snapshots,
    whose files exist.

    Their manifests and chunks are not kept either, so nothing may be deleted, whatever the age of
    the snapshot file is.
    """
    if not unkept and not abandoned:
        return
    lost = find_lost_history(timeline, kept)
    for path, error in lost.unreadable.items():
        if path not in known_missing:
            raise FormatError(
                "the ops log does not name this backup, and it cannot be read: "
                + getattr(error, "reason", error.message),
                path=path,
                hint=Remedy("excuse-unreadable-backup"),
            )
    protecting = [one for one in lost.listing(unkept).backups if one.path not in abandoned]
    if protecting:
        raise _lost_history_error(protecting)


def check_no_later_version(storage: Storage, unkept: Set[SnapshotId]) -> None:
    """The same for a repository of spec version 1, which has no `repo` and so no backups of one.

    There are backups of `repo` if it was migrated and its old refs were put back afterwards.
    """
    backups = list_backups(storage) if unkept else {}
    for name in sorted(backups, key=backups.__getitem__, reverse=True):
        path = backup_object(name)
        lost = unkept & {*ids_of(read_repo(storage, path).snapshots)}
        if lost:
            raise FormatError(
                f"this backup of a later spec version lists {len(lost):,} snapshots that no ref "
                "reaches, so nothing is deleted",
                path=path,
                hint=f"to return to that version, copy it to {REPO_PATH} while nobody writes; to "
                f"give it up, move the files {BACKUPS}/{REPO_PATH}.* to another place",
            )


def _lost_history_error(backups: list[LostBackup]) -> FormatError:
    count = len({id_ for backup in backups for id_ in backup.snapshots})
    snapshots = "1 snapshot" if count == 1 else f"{count:,} snapshots"
    newest = backups[0]
    return FormatError(
        f"backups whose history it does not continue, the newest of them {newest.path}, list "
        f"{snapshots} that would be lost for good",
        path=REPO_PATH,
        hint=Remedy("return-or-abandon-history", {"backup": newest.name}),
    )


def _without_new(timeline: Timeline, lost: list[LostBackup]) -> list[LostBackup]:
    """Others may have gone on since `repo` was read: each state that they left was in it."""
    newest = timeline.updates[0].updated_at
    if not any(backup.newest.updated_at > newest for backup in lost):
        return lost
    now = Timeline(timeline.storage, read_repo(timeline.storage))
    return [backup for backup in lost if backup.newest not in now]


def _is_failure(error: Exception) -> bool:
    """A storage that did not answer, as opposed to a backup that is gone or damaged."""
    return isinstance(error, StorageError) and not isinstance(error, ObjectNotFoundError)
