"""Lost history: states in backups that the ops log of `repo` does not lead to.

If somebody puts an older `repo` back, or creates it again, another timeline starts there. The
backups made since then hold states of a timeline that is lost, and may be all that still lists the
commits of those states. That evidence stays however many operations follow, and the commits are
kept until somebody recovers or abandons them explicitly.

A lost timeline is recovered if the operations of `repo` since the fork added each snapshot that
its operations made and whose file exists, gave each other snapshot at which they set a ref that its
newest state still has a branch with a `recovered_name`, and did this for at least one snapshot,
unless an undo took it back. Then it protects nothing any more, not even what both timelines share:
what was released since then was released by operations of `repo`, which provenance explains. Until
then it protects all that its states list: one that only tagged an old snapshot may be the only one
that needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import takewhile

from icectl.errors import (
    FormatError,
    ObjectNotFoundError,
    RefusedError,
    Remedy,
    StorageError,
    UnsupportedError,
)
from icectl.format.repo import RepoFile
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    CommitAmendedUpdate,
    NewCommitUpdate,
    NewDetachedSnapshotUpdate,
    Ref,
    RepoInfo,
    RepoInitializedUpdate,
    TagCreatedUpdate,
    TagDeletedUpdate,
    UnknownUpdate,
    Update,
    ids_of,
)
from icectl.repository.backups import list_backups
from icectl.repository.ops_log import BACKUPS, REPO_PATH, backup_object, read_repo, read_repo_file
from icectl.repository.past import Timeline
from icectl.repository.transitions import created_snapshot
from icectl.repository.writes import end_of_write
from icectl.storage.contract import Storage

RECOVERED = "recovered-"


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


@dataclass(frozen=True, slots=True)
class LostLine:
    """A lost timeline."""

    newest: LostBackup
    state: RepoInfo
    """In its newest backup."""
    backups: tuple[LostBackup, ...]
    """Newest update first; older ones may belong to several lines."""
    made: frozenset[SnapshotId]
    """Snapshots that its own operations made."""
    unrecovered_refs: tuple[Ref, ...]
    """Those of its newest state that its operations set, and that no recovered branch replaces."""
    is_recovered: bool


def recovered_name(ref: str, snapshot_id: SnapshotId) -> str:
    """The name of the branch that replaces a lost ref; a number may follow."""
    return f"{RECOVERED}{ref.removeprefix(RECOVERED)}-{snapshot_id!s:.8}"


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


def find_protecting(
    timeline: Timeline, lost: LostHistory, kept: Set[SnapshotId], unkept: Set[SnapshotId]
) -> LostHistory:
    """The part of it that protects any of the `unkept` snapshots, whose files exist."""
    listing = lost.listing(unkept)
    if not listing.backups:
        return listing
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for line in find_lost_lines(timeline, lost, kept | unkept):
        names[line.is_recovered].update(backup.name for backup in line.backups)
    recovered = names[True] - names[False]
    found = tuple(backup for backup in listing.backups if backup.name not in recovered)
    return LostHistory(found, lost.unreadable)


def find_lost_lines(
    timeline: Timeline, lost: LostHistory, existing: Set[SnapshotId]
) -> Iterator[LostLine]:
    """The lost timelines, the newest first; `existing` are the snapshots whose files exist."""
    seen: set[str] = set()
    for newest in lost.backups:
        if newest.name in seen:
            continue
        try:
            state = read_repo(timeline.storage, newest.path)
        except (FormatError, UnsupportedError):
            continue  # only its list of snapshots can be read
        other = Timeline(timeline.storage, state, timeline.backups)
        backups = tuple(one for one in lost.backups if one.newest in other)
        seen.update(one.name for one in backups)
        made, refs = _find_made(timeline, other)
        added, replaced = _find_recovered(timeline, other)
        unrecovered = tuple(
            ref
            for ref in refs
            if ref.snapshot_id in existing
            and ref.snapshot_id not in added
            and f"{ref.snapshot_id!s:.8}" not in replaced
        )
        is_touched = any(
            id_ in added or f"{id_!s:.8}" in replaced for id_ in ids_of(state.snapshots)
        )
        is_recovered = is_touched and not unrecovered and made & existing <= added
        yield LostLine(newest, state, backups, frozenset(made), unrecovered, is_recovered)


def _find_made(timeline: Timeline, other: Timeline) -> tuple[set[SnapshotId], list[Ref]]:
    """The snapshots that only the operations of the other timeline made, and the refs of its state
    that they set."""
    state = other.info
    own = [*takewhile(lambda update: update not in timeline, other.updates)]
    is_whole = len(own) < len(other.updates) or (
        other.end is None and isinstance(own[-1].update_type, RepoInitializedUpdate)
    )
    if not is_whole or any(isinstance(one.update_type, UnknownUpdate) for one in own):
        # The log does not show all back to the fork, so whatever is not ours may be its own.
        known = {created_snapshot(update) for update in timeline.updates}
        known |= {INITIAL_SNAPSHOT_ID, *ids_of(timeline.info.snapshots)}
        return {*ids_of(state.snapshots)} - known, [*state.branches, *state.tags]
    made: set[SnapshotId] = set()
    branches: set[str] = set()
    tags: set[str] = set()
    for update in own:
        match update.update_type:
            case NewCommitUpdate(branch, new) | CommitAmendedUpdate(branch, _, new):
                made.add(new)
                branches.add(branch)
            case NewDetachedSnapshotUpdate(new):
                made.add(new)
            case BranchCreatedUpdate(name) | BranchResetUpdate(name, _):
                branches.add(name)
            case TagCreatedUpdate(name):
                tags.add(name)
            case _:
                pass
    refs = [ref for ref in state.branches if ref.name in branches]
    return made, refs + [ref for ref in state.tags if ref.name in tags]


def _find_recovered(timeline: Timeline, other: Timeline) -> tuple[set[SnapshotId], set[str]]:
    """The snapshots that the timeline added since the fork, and the beginnings of the ids of those
    that it gave a branch with a `recovered_name`."""
    listed = {*ids_of(timeline.info.snapshots)}
    added: set[SnapshotId] = set()
    replaced: set[str] = set()
    since = [*takewhile(lambda update: update not in other, timeline.updates)]
    for number in reversed(range(len(since))):
        match since[number].update_type:
            case NewDetachedSnapshotUpdate(new):
                added.add(new)
            case BranchCreatedUpdate(name) if name.startswith(RECOVERED):
                replaced.update(name.split("-")[-2:])
            case BranchDeletedUpdate() | BranchResetUpdate() | TagDeletedUpdate() if (
                not added <= listed
            ):
                undone = _find_undone(timeline, number, added)
                added -= undone
                replaced -= {f"{id_!s:.8}" for id_ in undone}
            case _:
                pass
    return added, replaced


def _find_undone(timeline: Timeline, number: int, added: Set[SnapshotId]) -> Set[SnapshotId]:
    """Those of the added snapshots that left the list when this update moved or deleted a ref,
    which only an undo does; all of them if no backup shows it."""
    updates = timeline.updates
    newest = number
    while newest and updates[newest].backup_path is None:
        newest -= 1  # an undo may have written several entries
    before = _listed_after(timeline, end_of_write(updates, newest))
    after = _listed_after(timeline, newest)
    return added if before is None or after is None else added & before - after


def _listed_after(timeline: Timeline, number: int) -> Set[SnapshotId] | None:
    """The snapshots on the list after the update; None if its backup cannot be read."""
    if not number:
        return {*ids_of(timeline.info.snapshots)}
    name = timeline.updates[number].backup_path if number < len(timeline.updates) else None
    if name is None:
        return None
    try:
        return {*ids_of(read_repo_file(timeline.storage, backup_object(name)).snapshots)}
    except (FormatError, UnsupportedError, ObjectNotFoundError):
        return None


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
    protecting = [
        one
        for one in find_protecting(timeline, lost, kept, unkept).backups
        if one.path not in abandoned
    ]
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
