"""Lost lines of history: what only their backups list stays until somebody gives it up."""

from __future__ import annotations

from collections.abc import Collection, Set

from icectl.errors import FormatError, shell_word
from icectl.model.ids import SnapshotId
from icectl.ops.gc.id_sets import id_set
from icectl.ops.gc.listing import Listing
from icectl.repository.lines import Line, LostBackup, find_abandoned, find_lost_history
from icectl.repository.ops_log import REPO_PATH


def check_lost_history(
    line: Line,
    listing: Listing,
    kept: Set[SnapshotId],
    known_missing: Set[str],
    abandon: Collection[str],
) -> tuple[str, ...]:
    """The backups of the lines to abandon, oldest first; `FormatError` when another line than
    these lists a snapshot that is there and not kept.

    Its manifests and chunks are not kept either, so that nothing may be deleted, whatever the
    age of the snapshot file is.
    """
    others = listing.ids[~id_set(kept).contains(listing.ids)]
    if not len(others) and not abandon:
        return ()
    lost = find_lost_history(line, kept)
    for path, error in lost.unreadable.items():
        if path not in known_missing:
            raise FormatError(
                "the ops log does not name this backup, and it cannot be read: "
                + getattr(error, "reason", error.message),
                path=path,
                hint="so nobody can tell whether only it lists some commits; when its loss is "
                "understood, name it with --known-missing",
            )
    abandoned = find_abandoned(line.storage, lost.backups, abandon)
    given_up = {backup.name for backup in abandoned}
    there = {SnapshotId(id_) for id_ in others.to_bytes()}
    protecting = [one for one in lost.listing(there).backups if one.name not in given_up]
    if protecting:
        raise _lost_history_error(protecting)
    return tuple(backup.path for backup in abandoned)


def _lost_history_error(backups: list[LostBackup]) -> FormatError:
    count = len({id_ for backup in backups for id_ in backup.snapshots})
    snapshots = "1 snapshot is" if count == 1 else f"{count:,} snapshots are"
    newest = backups[0]
    return FormatError(
        f"{snapshots} listed only by backups whose history it does not continue, the newest of "
        f"them {newest.path}, and would be lost for good",
        path=REPO_PATH,
        hint="an older repo file was put back, or it was created again; to return to that history, "
        f"copy {newest.path} to {REPO_PATH} while nobody writes; to give it up, run "
        f"`icectl gc --older-than 7d --abandon-history {shell_word(newest.name)}`",
    )
