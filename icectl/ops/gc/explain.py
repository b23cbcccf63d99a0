"""Why an object of the repository's history is garbage: the operation that released it.

A flipped index or parent in `repo` makes whole branches look unreachable. So each snapshot and
transaction log that is to go must have been let go by an operation: the ops log says which
operations can release anything, and the backups around such an operation show what it did.
States are read only around releasing operations, from the newest on, until all is explained.

One thing is stored once only, and cannot be checked: where a ref points that the very last
operation created or reset.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from icectl.errors import FormatError, IcectlError, ObjectNotFoundError
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    CommitAmendedUpdate,
    NewCommitUpdate,
    NewDetachedSnapshotUpdate,
    RepoInfo,
    Update,
)
from icectl.ops.gc.objects import ObjectKind
from icectl.ops.gc.transitions import RELEASING, State, find_problem, state_of
from icectl.ops.gc.watch import Watch
from icectl.records import dataclass, field
from icectl.repository.backups import find_newer_backup, made_at
from icectl.repository.ops_log import (
    BACKUPS,
    REPO_PATH,
    OpsLogBeyondReach,
    backup_object,
    read_repo,
    walk_updates,
)
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
    log = _OpsLog(storage, info, known_missing)
    log.check_newest()
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
    for number, update in enumerate(log.updates):
        if not suspects:
            return
        watch.check_time()
        kind = update.update_type
        if isinstance(kind, RELEASING):
            _release(log, number, suspects)
        made = _created_snapshot(update)
        if made is None:
            continue
        still = Suspects(suspects.snapshots & {made}, suspects.logs & {made})
        # Where a lost backup is known and excused, the release may have been in it; and where
        # the backup of this commit was cleared, those of older releases were as well.
        if still and not (
            isinstance(kind, NewDetachedSnapshotUpdate)
            or log.has_excused_gap
            or log.is_cleared(number)
        ):
            _check_gone(still, f"when {made} was committed")
        suspects.discard(made)
    _check_gone(suspects.kept_by(log.oldest_state()), "before the ops log begins")


def _release(log: _OpsLog, number: int, suspects: Suspects) -> None:
    """Explain what this operation let go; what it did not is still to be explained."""
    update = log.updates[number].update_type
    after = log.state(number)
    if after is None:
        return
    _check_gone(
        suspects.kept_by(after), f"after the newest operation that releases ({update.kind})"
    )
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


class _OpsLog:
    """The updates from the newest on, and the states after them, read when they are needed."""

    def __init__(self, storage: Storage, info: RepoInfo, known_missing: Set[str]) -> None:
        self._storage = storage
        self._info = info
        self._known_missing = known_missing
        self._states: dict[int, State] = {0: state_of(info)}
        self.has_excused_gap = False
        self._backups = _Backups(storage)
        self.updates: list[Update] = []
        for update in walk_updates(storage, info):
            if isinstance(update, OpsLogBeyondReach):
                self._excuse(update.path, update.error)
                break
            self.updates.append(update)

    def state(self, number: int) -> State | None:
        """After the update of this number; None where no backup was ever made of it."""
        if number in self._states:
            return self._states[number]
        name = self.updates[number].backup_path if number < len(self.updates) else None
        if name is None or self._backups.is_cleared(name):
            return None
        path = backup_object(name)
        try:
            info = read_repo(self._storage, path)
        except (FormatError, ObjectNotFoundError) as error:
            self._excuse(path, error)
            return None
        newest = info.latest_updates[0].updated_at if info.latest_updates else None
        if newest != self.updates[number].updated_at:
            raise FormatError("this backup is not of the update that names it", path=path)
        # Neighbours share a state, and nobody comes back to older ones.
        self._states = {0: self._states[0], number: state_of(info)}
        return self._states[number]

    def is_cleared(self, number: int) -> bool:
        """Whether the state after this update was put aside, and its copy cleared away since."""
        name = self.updates[number].backup_path
        return name is not None and self.state(number) is None

    def check_newest(self) -> None:
        """`FormatError` when `repo` is older than a copy of it: somebody put an old one back."""
        newer = find_newer_backup(self._storage, self._info, self._backups.times)
        if newer is not None:
            raise FormatError(
                f"it is older than its own copy {newer}: what was committed since would go",
                path=REPO_PATH,
                hint="put the newest copy back; or, when this state is meant to stay, make it the "
                "newest with any change, such as a tag",
            )

    def oldest_state(self) -> State:
        for number in range(len(self.updates) - 1, 0, -1):
            state = self.state(number)
            if state is not None:
                return state
        return self._states[0]

    def _excuse(self, path: str, error: IcectlError) -> None:
        if path in self._known_missing:
            self.has_excused_gap = True
            return
        name = path.removeprefix(f"{BACKUPS}/")
        if isinstance(error, ObjectNotFoundError) and self._backups.is_cleared(name):
            return
        raise FormatError(
            f"this backup is needed to tell why snapshots are unreachable: {error.message}",
            path=path,
            hint="restore it; or, when its loss is understood, name it with --known-missing",
        )


class _Backups:
    """The copies of `repo` that are there, listed when they are first asked for."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._times: dict[str, int] | None = None

    @property
    def times(self) -> dict[str, int]:
        """When each was made, by its name."""
        if self._times is None:
            listed = self._storage.list(BACKUPS, with_info=False)
            names = (info.path.removeprefix(f"{BACKUPS}/") for info in listed)
            self._times = {name: made for name in names if (made := made_at(name)) is not None}
        return self._times

    def is_cleared(self, name: str) -> bool:
        """Whether it is gone, and every other one as old: by age, that is, and not by damage."""
        made = made_at(name)
        if made is None or name in self.times or not self.times:
            return False
        return made < min(self.times.values())
