"""Lost lines of history: what only their backups list stays until somebody gives it up."""

from __future__ import annotations

from collections.abc import Collection, Set

from icectl.errors import FormatError, Remedy
from icectl.model.ids import SnapshotId
from icectl.ops.gc.id_sets import id_set
from icectl.ops.gc.listing import Listing
from icectl.repository.backups import list_backups
from icectl.repository.lines import Line, LostBackup, find_abandoned, find_lost_history
from icectl.repository.ops_log import BACKUPS, REPO_PATH, backup_object, read_repo
from icectl.storage.contract import Storage


def find_abandoned_backups(line: Line, names: Collection[str]) -> tuple[str, ...]:
    """The objects of the lost lines that end in these backups, oldest first."""
    if not names:
        return ()
    lost = find_lost_history(line, {snapshot.id for snapshot in line.info.snapshots}).backups
    return tuple(backup.path for backup in find_abandoned(line.storage, lost, names))


def check_lost_history(
    line: Line,
    listing: Listing,
    kept: Set[SnapshotId],
    known_missing: Set[str],
    abandoned: Collection[str],
) -> None:
    """`FormatError` when a lost line that is not abandoned lists a snapshot that is there and
    not kept.

    Its manifests and chunks are not kept either, so that nothing may be deleted, whatever the
    age of the snapshot file is.
    """
    others = listing.ids[~id_set(kept).contains(listing.ids)]
    if not len(others) and not abandoned:
        return
    lost = find_lost_history(line, kept)
    for path, error in lost.unreadable.items():
        if path not in known_missing:
            raise FormatError(
                "the ops log does not name this backup, and it cannot be read: "
                + getattr(error, "reason", error.message),
                path=path,
                hint=Remedy("excuse-unreadable-backup"),
            )
    there = {SnapshotId(id_) for id_ in others.to_bytes()}
    protecting = [one for one in lost.listing(there).backups if one.path not in abandoned]
    if protecting:
        raise _lost_history_error(protecting)


def check_no_later_version(storage: Storage, listing: Listing, kept: Set[SnapshotId]) -> None:
    """The same for a repository of spec version 1, which has no `repo` and so no backups of one.

    Backups of `repo` are there when it was migrated, and its old refs were put back afterwards.
    """
    others = listing.ids[~id_set(kept).contains(listing.ids)]
    backups = list_backups(storage) if len(others) else {}
    there = {SnapshotId(id_) for id_ in others.to_bytes()}
    for name in sorted(backups, key=backups.__getitem__, reverse=True):
        path = backup_object(name)
        lost = there & {snapshot.id for snapshot in read_repo(storage, path).snapshots}
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
        hint=Remedy(
            "return-or-abandon-history",
            {"path": newest.path, "repo": REPO_PATH, "backup": newest.name},
        ),
    )
