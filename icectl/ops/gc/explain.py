"""Why an object of the repository's history is garbage: the operation that released it.

A flipped index or parent in `repo` makes whole branches look unreachable. So each snapshot and
transaction log that is to go must have been let go by an operation: the ops log says which
operations can release anything, and the backups around such an operation show what it did.
A run of operations is explained at once where taking them back one by one leads from the state
after it to the state before it; else states are read around each releasing operation, from the
newest on, until all is explained.

One thing is stored once only: where a ref points that the very last operation created or
reset. Packing the file once more shows most flipped bits, where the writer's zstd packs as ours
does; one in a literal of the frame it does not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from icectl.errors import FormatError, ObjectNotFoundError, Remedy
from icectl.format.envelope import decode_header, is_packed_anew
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
from icectl.ops.gc.transitions import (
    RELEASING,
    UNRECORDED,
    State,
    find_problem,
    find_target,
    leads_to,
)
from icectl.ops.gc.watch import Watch
from icectl.repository.lines import Line
from icectl.repository.ops_log import REPO_PATH, backup_object
from icectl.storage.contract import Storage

MOST_COPIES = 20


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


def check_explained(line: Line, suspects: Suspects, known_missing: Set[str], watch: Watch) -> None:
    """`FormatError` when one of the suspects was reachable and no operation released it."""
    if not suspects:
        return
    info = line.info
    log = OpsLog(line, known_missing)
    _check_last_step(log)
    _check_last_target(line.storage, info, log)
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
    number = 0
    while suspects and number < len(log.updates):
        watch.check_time()
        end = log.end_of_run(number)
        while end > number and not _explain_run(log, number, end, suspects):
            end = number + (end - number) // 2
        if end == number:
            _explain_one(log, number, suspects)
        number = max(end, number + 1)
    _check_gone(log, suspects.kept_by(log.oldest_state()), "before the ops log begins")


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
        kept = suspects.kept_by(after)
        _check_gone(log, kept, f"after a {kind.kind} operation")
        suspects.forget(kept)
        if isinstance(kind, UNRECORDED) and find_target(kind, after.branches, after.tags) is None:
            raise FormatError(
                f"{kind.name} is not there after a {kind.kind} operation, by overwritten/"
                f"{log.updates[number].backup_path}",
                path=REPO_PATH,
                hint=Remedy("compare-repo-file"),
            )
        if isinstance(kind, RELEASING):
            _release(log, number, after, suspects)
    made = _created_snapshot(log.updates[number])
    if made is None:
        return
    still = Suspects(suspects.snapshots & {made}, suspects.logs & {made})
    # Where the backup of this commit was cleared, those of older releases were as well.
    if still and not (isinstance(kind, NewDetachedSnapshotUpdate) or log.is_cleared(number)):
        _check_gone(log, still, f"when {made} was committed")
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
            hint=Remedy("compare-repo-file"),
        )
    suspects.forget(released)


def _check_gone(log: OpsLog, still_kept: Suspects, when: str) -> None:
    if log.has_excused_gap:
        return  # the operation that released them may be the one whose state is lost
    for path in still_kept.paths():
        raise FormatError(
            f"{path} was reachable {when}, and no operation since then released it",
            path=REPO_PATH,
            hint=Remedy("compare-repo-file"),
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
            hint=Remedy("compare-repo-file"),
        )


def _check_last_target(storage: Storage, info: RepoInfo, log: OpsLog) -> None:
    """Where the last operation let a ref point is stored once: `FormatError` when a bit of it
    may have been flipped."""
    update = log.updates[0].update_type if log.updates else None
    if not isinstance(update, UNRECORDED):
        return
    data = storage.read(REPO_PATH)
    if decode_repo(data) != info or is_packed_anew(data):
        return
    if _copies_are_packed_anew(storage, log, data):
        raise FormatError(
            f"the newest operation ({update.kind} of {update.name}) is told by no other file, and "
            "this one is not packed as its copies are: a flipped bit would look so",
            path=REPO_PATH,
            hint=Remedy("confirm-last-change", {"ref": update.name}),
        )


def _copies_are_packed_anew(storage: Storage, log: OpsLog, data: bytes) -> bool:
    """Whether the zstd of the writer of this `repo` packs as ours does, by a copy of its making."""
    for update in log.updates[1:MOST_COPIES]:
        if update.backup_path is None:
            continue
        try:
            copy = storage.read(backup_object(update.backup_path))
            if decode_header(copy) == decode_header(data):
                return is_packed_anew(copy)
        except (FormatError, ObjectNotFoundError):
            continue
    return False
