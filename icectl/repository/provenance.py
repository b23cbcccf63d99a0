"""Provenance: which operation released a snapshot, and whether all released ones are explained.

A flipped index or parent in `repo` makes whole branches look unreachable. So each snapshot and
transaction log that is to be deleted must have been released by an operation: the ops log says
which operations can release anything, and the backups around such an operation show what it did.
A run of operations is explained at once if undoing them one by one leads from the state after the
run to the state before it; otherwise the states around each releasing operation are read, newest
first, until everything is explained.

One fact is stored only once: where a ref points that the very last operation created or reset.
Compressing the file again reveals most flipped bits if the writer's zstd compresses as ours does; a
flipped bit in a literal of the frame stays hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from icectl.errors import FormatError, ObjectNotFoundError, Remedy
from icectl.format.envelope import decode_header, is_packed_anew
from icectl.format.repo import decode_repo
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    NewDetachedSnapshotUpdate,
    RepoInfo,
    UnknownUpdate,
    UpdateType,
    ids_of,
    pruned_logs_of,
)
from icectl.repository.backups import check_newest
from icectl.repository.history import State
from icectl.repository.layout import STANDARD
from icectl.repository.lost_history import (
    check_lost_history,
    check_no_later_version,
    find_backups_to_abandon,
)
from icectl.repository.ops_log import REPO_PATH, backup_object
from icectl.repository.past import PastStates, Timeline
from icectl.repository.transitions import (
    RELEASING,
    UNRECORDED,
    created_snapshot,
    find_target,
    leads_to,
)
from icectl.repository.writes import end_of_write, find_write_problem
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.repository.repository import Repository

MOST_COPIES = 20


@dataclass(slots=True)
class Unexplained:
    """Snapshots and transaction logs whose release is not explained yet."""

    snapshots: set[SnapshotId] = field(default_factory=set)
    logs: set[SnapshotId] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.logs)

    def kept_by(self, state: State) -> Unexplained:
        return Unexplained(self.snapshots & state.reachable, self.logs & state.logs)

    def remove(self, other: Unexplained) -> None:
        self.snapshots -= other.snapshots
        self.logs -= other.logs

    def discard(self, snapshot_id: SnapshotId) -> None:
        self.snapshots.discard(snapshot_id)
        self.logs.discard(snapshot_id)

    def paths(self) -> Iterator[str]:
        yield from map(STANDARD.snapshot, sorted(self.snapshots))
        yield from (f"{STANDARD.transactions}/{id_}" for id_ in sorted(self.logs))


class Provenance(Protocol):
    """The evidence that nothing is deleted which only damage makes look unneeded."""

    abandoned_backups: tuple[str, ...]
    """The objects of lost timelines that the user abandons, oldest first."""

    def check_unkept(self, kept: Set[SnapshotId], unkept: Set[SnapshotId]) -> None:
        """`FormatError` if lost history lists a snapshot that exists and is not kept."""

    def check_released(
        self, snapshots: Set[SnapshotId], logs: Set[SnapshotId], check_time: Callable[[], None]
    ) -> None:
        """`FormatError` if one of them was reachable and no operation released it.

        `check_time` is called now and then, and may raise.
        """


def read_provenance(
    repository: Repository, known_missing: Set[str], abandon_history: Collection[str]
) -> Provenance:
    """The provenance of a state; `FormatError` if a backup is newer than the state.

    `known_missing` are backups, by path, whose loss is known; `abandon_history` names the newest
    backup of each lost timeline that is abandoned.
    """
    if repository.info is None:
        return _RefFileProvenance(repository.storage)
    timeline = Timeline(repository.storage, repository.info)
    return _OpsLogProvenance(timeline, known_missing, abandon_history)


class _RefFileProvenance:
    """Spec version 1 has no ops log: only the refs say what is needed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.abandoned_backups: tuple[str, ...] = ()

    def check_unkept(self, _kept: Set[SnapshotId], unkept: Set[SnapshotId]) -> None:
        check_no_later_version(self._storage, unkept)

    def check_released(
        self, snapshots: Set[SnapshotId], logs: Set[SnapshotId], check_time: Callable[[], None]
    ) -> None:
        pass


class _OpsLogProvenance:
    def __init__(
        self, timeline: Timeline, known_missing: Set[str], abandon_history: Collection[str]
    ) -> None:
        self._timeline = timeline
        self._known_missing = known_missing
        self.abandoned_backups = find_backups_to_abandon(timeline, abandon_history)
        ignored = known_missing | {*self.abandoned_backups}
        # Almost every collection needs all the names, so they are listed once.
        names = timeline.backups
        check_newest(timeline.storage, timeline.info, ignored, needs_all=True, backups=names)

    def check_unkept(self, kept: Set[SnapshotId], unkept: Set[SnapshotId]) -> None:
        check_lost_history(
            self._timeline, kept, unkept, self._known_missing, self.abandoned_backups
        )

    def check_released(
        self, snapshots: Set[SnapshotId], logs: Set[SnapshotId], check_time: Callable[[], None]
    ) -> None:
        unexplained = Unexplained({*snapshots}, {*logs})
        if unexplained:
            past = PastStates(self._timeline, self._known_missing)
            past.read_ends()
            _check_last_step(past)
            _check_last_target(self._timeline.storage, self._timeline.info, past)
            _check_explained(self._timeline.info, past, unexplained, check_time)


def _check_explained(
    info: RepoInfo, past: PastStates, unexplained: Unexplained, check_time: Callable[[], None]
) -> None:
    created = {id_ for update in past.updates if (id_ := created_snapshot(update)) is not None}
    listed = {*ids_of(info.snapshots)}
    pruned = {id_ for logs in pruned_logs_of(info.snapshots).values() for id_ in logs}
    # The files of an aborted commit, which was never part of the history, need no operation that
    # releases them; nor does anything that was already unreachable where the ops log begins.
    never_needed = Unexplained(
        unexplained.snapshots - created - listed, unexplained.logs - created - listed - pruned
    )
    if never_needed:
        never_needed.remove(never_needed.kept_by(past.oldest_state()))
        unexplained.remove(never_needed)
    number = 0
    # Each may have been released by another operation; most often, by the newest ones.
    releases = len(unexplained.snapshots) + len(unexplained.logs)
    while unexplained and number < len(past.updates):
        check_time()
        farthest = end = past.end_of_run(number, releases)
        past.read_ahead((number, end))
        while end > number and not _explain_run(past, number, end, unexplained):
            end = number + (end - number) // 2
        releases = 4 * releases if end == farthest else 1
        if end == number:
            past.read_run(number)
            _explain_one(past, number, unexplained)
        number = max(end, number + 1)
    if unexplained:
        _check_none(past, unexplained.kept_by(past.oldest_state()), "before the ops log begins")


def _explain_run(past: PastStates, start: int, end: int, unexplained: Unexplained) -> bool:
    """Explain what a run of operations released by its two ends; False to look at each of them."""
    after, before = past.state(start, needed=False), past.state(end, needed=False)
    if after is None or before is None or unexplained.kept_by(after):
        return False
    run = past.updates[start:end]
    updates = [update.update_type for update in run]
    if not leads_to(updates, before, after, past.read_targets(start, end)):
        return False
    unexplained.remove(unexplained.kept_by(before))
    for update in run:
        if (made := created_snapshot(update)) is not None:
            unexplained.discard(made)
    return True


def _explain_one(past: PastStates, number: int, unexplained: Unexplained) -> None:
    kind = past.updates[number].update_type
    written = [one.update_type for one in past.updates[number : end_of_write(past.updates, number)]]
    is_releasing = any(isinstance(one, RELEASING) for one in written)
    after = past.state(number, needed=is_releasing)
    if after is not None:
        kept = unexplained.kept_by(after)
        _check_none(past, kept, f"after a {kind.kind} operation")
        unexplained.remove(kept)
        for one in written:
            if isinstance(one, UNRECORDED) and find_target(one, after.branches, after.tags) is None:
                raise FormatError(
                    f"{one.name} is not there after a {one.kind} operation, by overwritten/"
                    f"{past.updates[number].backup_path}",
                    path=REPO_PATH,
                    hint=Remedy("compare-repo-file"),
                )
        if is_releasing:
            _release(past, number, written, after, unexplained)
    made = created_snapshot(past.updates[number])
    if made is None:
        return
    still = Unexplained(unexplained.snapshots & {made}, unexplained.logs & {made})
    # If the backup of this commit was cleared, those of older releases were as well.
    if still and not (isinstance(kind, NewDetachedSnapshotUpdate) or past.is_cleared(number)):
        _check_none(past, still, f"when {made} was committed")
    unexplained.discard(made)


def _release(
    past: PastStates,
    number: int,
    written: Sequence[UpdateType],
    after: State,
    unexplained: Unexplained,
) -> None:
    """Explain what this write released; the rest stays unexplained."""
    before = past.state(number + len(written))
    if before is None:
        return
    released = unexplained.kept_by(before)
    if not released:
        return
    problem = find_write_problem(written, before, after)
    if problem is not None:
        path = next(released.paths())
        raise FormatError(
            f"{path} was reachable before an operation that does not explain why it is not any "
            f"more: {problem}",
            path=REPO_PATH,
            hint=Remedy("compare-repo-file"),
        )
    unexplained.remove(released)


def _check_none(past: PastStates, still_kept: Unexplained, when: str) -> None:
    if past.has_excused_gap:
        return  # the operation that released them may be the one whose state is lost
    for path in still_kept.paths():
        raise FormatError(
            f"{path} was reachable {when}, and no operation since then released it",
            path=REPO_PATH,
            hint=Remedy("compare-repo-file"),
        )


def _check_last_step(past: PastStates) -> None:
    """`FormatError` if `repo` differs from its newest backup by more than one operation."""
    written = past.newest_write()
    before, after = (past.state(number, needed=False) for number in (len(written), 0))
    if before is None or after is None or not written:
        return
    if any(isinstance(update, UnknownUpdate) for update in written):
        return
    problem = find_write_problem(written, before, after)
    if problem is not None:
        kinds = ", ".join(dict.fromkeys(update.kind for update in written))
        raise FormatError(
            f"the newest operation ({kinds}) does not explain it: {problem}",
            path=REPO_PATH,
            hint=Remedy("compare-repo-file"),
        )


def _check_last_target(storage: Storage, info: RepoInfo, past: PastStates) -> None:
    """`FormatError` if the target of the last operation, which is stored once, may be damaged."""
    update = next((one for one in past.newest_write() if isinstance(one, UNRECORDED)), None)
    if update is None:
        return
    data = storage.read(REPO_PATH)
    if decode_repo(data) != info or is_packed_anew(data):
        return
    if _backups_are_packed_anew(storage, past, data):
        raise FormatError(
            f"no other file records the newest operation ({update.kind} of {update.name}), and "
            "this one is not compressed as its backups are: a bit may be flipped",
            path=REPO_PATH,
            hint=Remedy("confirm-last-change", {"ref": update.name}),
        )


def _backups_are_packed_anew(storage: Storage, past: PastStates, data: bytes) -> bool:
    """Whether the zstd of this writer compresses as ours does, by one of its backups."""
    for update in past.updates[1:MOST_COPIES]:
        if update.backup_path is None:
            continue
        try:
            copy = storage.read(backup_object(update.backup_path))
            if decode_header(copy) == decode_header(data):
                return is_packed_anew(copy)
        except (FormatError, ObjectNotFoundError):
            continue
    return False
