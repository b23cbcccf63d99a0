"""Why an object of the repository's history is garbage: the operation that released it.

A flipped index or parent in `repo` makes whole branches look unreachable. So each snapshot and
transaction log that is to go must have been let go by an operation: the ops log says which
operations can release anything, and the backups around such an operation show what it did.
A run of operations is explained at once where taking them back one by one leads from the state
after it to the state before it; else states are read around each releasing operation, from the
newest on, until all is explained.

One thing is stored once only: where a ref points that the very last operation created or
reset. Whether a bit of it was flipped can be told by packing the file once more, where the
writer's zstd packs as ours does.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.format.envelope import is_packed_anew
from icectl.format.repo import decode_repo
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    CommitAmendedUpdate,
    NewCommitUpdate,
    NewDetachedSnapshotUpdate,
    RepoInfo,
    UnknownUpdate,
    Update,
)
from icectl.ops.gc.objects import ObjectKind
from icectl.ops.gc.states import OpsLog
from icectl.ops.gc.transitions import RELEASING, UNRECORDED, State, find_problem, leads_to
from icectl.ops.gc.watch import Watch
from icectl.records import dataclass, field
from icectl.repository.ops_log import REPO_PATH, backup_object
from icectl.storage.contract import Storage


@dataclass(slots=True)
class Suspects:
    """Ids whose release is not explained yet."""

    snapshots: set[SnapshotId] = field(default_factory=set)
    logs: set[SnapshotId] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.logs)

    def kept_by(self, state: State) -> Suspects:
        return Suspects(self.snapshots & state.reachable, self.logs & state.logs)

    def forget(self, other: Suspects) -> None:
        self.snapshots -= other.snapshots
        self.logs -= other.logs

    def discard(self, snapshot_id: SnapshotId) -> None:
        self.snapshots.discard(snapshot_id)
        self.logs.discard(snapshot_id)

    def paths(self) -> Iterator[str]:
        yield from map(ObjectKind.SNAPSHOT.path, sorted(self.snapshots))
        yield from map(ObjectKind.TRANSACTION_LOG.path, sorted(self.logs))


def check_explained(
    storage: Storage,
    info: RepoInfo,
    suspects: Suspects,
    known_missing: Set[str],
    watch: Watch,
) -> None:
    """`FormatError` when one of the suspects was reachable and no operation released it."""
    if not suspects:
        return
    log = OpsLog(storage, info, known_missing)
    _check_last_step(log)
    _check_last_target(storage, info, log)
    created = {id_ for update in log.updates if (id_ := _created_snapshot(update)) is not None}
    listed = {snapshot.id for snapshot in info.snapshots}
    pruned = {id_ for snapshot in info.snapshots for id_ in snapshot.pruned_ancestor_tx_logs or ()}
    # What was never committed, an aborted commit's files, needs no operation to be let go; nor
    # does what was unreachable already where the ops log begins.
    never = Suspects(
        suspects.snapshots - created - listed, suspects.logs - created - listed - pruned
    )
    never.forget(never.kept_by(log.oldest_state()))
    suspects.forget(never)
    number = looked_at_closely = 0
    while suspects and number < len(log.updates):
        watch.check_time()
        end = log.end_of_run(number) if number >= looked_at_closely else number
        if end > number and _explain_run(log, number, end, suspects):
            number = end
            continue
        looked_at_closely = max(looked_at_closely, end)
        _explain_one(log, number, suspects)
        number += 1
    _check_gone(suspects.kept_by(log.oldest_state()), "before the ops log begins")


def _explain_run(log: OpsLog, start: int, end: int, suspects: Suspects) -> bool:
    """Explain what a run of operations let go by its two ends; False to look at each of them."""
    after, before = log.state(start, needed=False), log.state(end, needed=False)
    if after is None or before is None or suspects.kept_by(after):
        return False
    run = log.updates[start:end]
    updates = (update.update_type for update in run)
    if not leads_to(updates, before, after, log.read_targets(start, end)):
        return False
    suspects.forget(suspects.kept_by(before))
    for update in run:
        if (made := _created_snapshot(update)) is not None:
            suspects.discard(made)
    return True


def _explain_one(log: OpsLog, number: int, suspects: Suspects) -> None:
    kind = log.updates[number].update_type
    after = log.state(number, needed=isinstance(kind, RELEASING))
    if after is not None:
        _check_gone(suspects.kept_by(after), f"after a {kind.kind} operation")
        if isinstance(kind, RELEASING):
            _release(log, number, after, suspects)
    made = _created_snapshot(log.updates[number])
    if made is None:
        return
    still = Suspects(suspects.snapshots & {made}, suspects.logs & {made})
    # Where a lost backup is known and excused, the release may have been in it; and where
    # the backup of this commit was cleared, those of older releases were as well.
    if still and not (
        isinstance(kind, NewDetachedSnapshotUpdate) or log.has_excused_gap or log.is_cleared(number)
    ):
        _check_gone(still, f"when {made} was committed")
    suspects.discard(made)


def _release(log: OpsLog, number: int, after: State, suspects: Suspects) -> None:
    """Explain what this operation let go; what it did not is still to be explained."""
    update = log.updates[number].update_type
    before = log.state(number + 1)
    if before is None:
        return
    released = suspects.kept_by(before)
    if not released:
        return
    problem = find_problem(update, before, after)
    if problem is not None:
        path = next(released.paths())
        raise FormatError(
            f"{path} was reachable before an operation that does not explain why it is not any "
            f"more: {problem}",
            path=REPO_PATH,
            hint=_HINT,
        )
    suspects.forget(released)


_HINT = "a damaged repo file looks so: run `icectl validate`, and compare with the backups"


def _check_gone(still_kept: Suspects, when: str) -> None:
    for path in still_kept.paths():
        raise FormatError(
            f"{path} was reachable {when}, and no operation since then released it",
            path=REPO_PATH,
            hint=_HINT,
        )


def _created_snapshot(update: Update) -> SnapshotId | None:
    match update.update_type:
        case (
            NewCommitUpdate(_, new)
            | CommitAmendedUpdate(_, _, new)
            | NewDetachedSnapshotUpdate(new)
        ):
            return new
        case _:
            return None


def _check_last_step(log: OpsLog) -> None:
    """`FormatError` when `repo` differs from its newest copy by more than one operation."""
    before, after = (log.state(number, needed=False) for number in (1, 0))
    update = log.updates[0].update_type if log.updates else None
    if before is None or after is None or update is None or isinstance(update, UnknownUpdate):
        return
    problem = find_problem(update, before, after)
    if problem is not None:
        raise FormatError(
            f"the newest operation ({update.kind}) does not explain it: {problem}",
            path=REPO_PATH,
            hint=_HINT,
        )


def _check_last_target(storage: Storage, info: RepoInfo, log: OpsLog) -> None:
    """Where the last operation let a ref point is stored once: `FormatError` when a bit of it
    may have been flipped."""
    update = log.updates[0].update_type if log.updates else None
    copy = log.updates[1].backup_path if len(log.updates) > 1 else None
    if not isinstance(update, UNRECORDED) or copy is None:
        return
    try:
        data, packed = storage.read(REPO_PATH), is_packed_anew(storage.read(backup_object(copy)))
    except (FormatError, ObjectNotFoundError):
        return
    # Other writers may pack otherwise, and then nothing can be told; one that has its copies
    # packed like this has its `repo` so, too.
    if packed and decode_repo(data) == info and not is_packed_anew(data):
        raise FormatError(
            f"the newest operation ({update.kind} of {update.name}) is told by no other file, and "
            "this one is not packed as its copies are: a flipped bit would look so",
            path=REPO_PATH,
            hint=f"`icectl log {update.name}` shows where it points; when that is right, confirm "
            "it with any other change, such as a tag",
        )
