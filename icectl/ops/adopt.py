"""Snapshot files that `repo` does not list: find their parents, and give them a branch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from icectl.checks.problem import UNREADABLE, error_of
from icectl.checks.rules import Level
from icectl.errors import ObjectNotFoundError, RefNotFoundError
from icectl.format.values import decode_metadata, encode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    NewDetachedSnapshotUpdate,
    RepoInfo,
    SnapshotInfo,
    ids_of,
)
from icectl.model.snapshot import Snapshot
from icectl.ops.refs import BranchChange
from icectl.ops.repair.logs import derive_log, explains
from icectl.ops.repair.steps import check_files
from icectl.ops.validate.refs import read_history
from icectl.pipeline.progress import Progress
from icectl.repository import edits
from icectl.repository.backups import list_backups
from icectl.repository.edits import Edited
from icectl.repository.open import repository_at
from icectl.repository.ops_log import backup_object, read_repo
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo

MOST_CANDIDATES = 100
"""Snapshots and backups that are read to find the parent of a snapshot."""

Infos = Mapping[SnapshotId, SnapshotInfo]


def info_of(snapshot: Snapshot, parent_id: SnapshotId | None) -> SnapshotInfo:
    """The entry of the snapshot in `repo`."""
    metadata = snapshot.metadata
    if snapshot.spec_version < 2:
        metadata = encode_metadata(decode_metadata(metadata, snapshot.spec_version), 2)
    return SnapshotInfo(
        snapshot.id, parent_id, snapshot.flushed_at, snapshot.message, metadata or None
    )


def adopt(info: RepoInfo, branch: str, chain: Sequence[SnapshotInfo]) -> Edited:
    """A new branch at the last snapshot of the chain, whose parents come first.

    Those that `repo` lists already are left as they are.
    """
    listed = {one.id for one in info.snapshots}
    new = [one for one in chain if one.id not in listed]
    snapshots = tuple(sorted((*info.snapshots, *new), key=lambda one: one.id))
    edited, created = edits.create_branch(replace(info, snapshots=snapshots), branch, chain[-1].id)
    assert isinstance(created, BranchCreatedUpdate)
    return edited, (*(NewDetachedSnapshotUpdate(one.id) for one in new), created)


def follow(infos: Infos, snapshot_id: SnapshotId, known: Infos) -> list[SnapshotInfo] | None:
    """The snapshot and its ancestors up to a known one, oldest first; None if one is unknown."""
    chain: list[SnapshotInfo] = []
    next_id: SnapshotId | None = snapshot_id
    while next_id is not None and next_id not in known:
        if next_id not in infos or len(chain) > len(infos):
            return None
        chain.append(infos[next_id])
        next_id = infos[next_id].parent_id
    return chain[::-1]


def find_parent(
    repository: Repository, snapshot: Snapshot, candidates: Iterable[SnapshotId]
) -> SnapshotId | None:
    """The candidate from which the snapshot's transaction log leads to the snapshot.

    Since spec version 2 a snapshot does not name its parent.
    """
    try:
        log = repository.read_transaction_log(snapshot.id)
    except (ObjectNotFoundError, *UNREADABLE):
        return None
    for candidate in candidates:
        try:
            before = repository.read_snapshot(candidate)
            derived = derive_log(repository, snapshot.id, before, snapshot)
        except (ObjectNotFoundError, *UNREADABLE):
            continue
        if before.flushed_at < snapshot.flushed_at and explains(log, derived):
            return candidate
    return None


def free_name(repository: Repository, wanted: str) -> str:
    """The name, or the name with a number, that no branch has."""
    names = (wanted, *(f"{wanted}-{number}" for number in range(2, 10_000)))
    return next(name for name in names if name not in repository.branches())


def unlisted_snapshots(
    repository: Repository, since: int, known: Set[SnapshotId]
) -> Iterator[Snapshot]:
    """Readable snapshot files that `repo` does not list, written since that time.

    Those that are `known` are left out.
    """
    assert repository.info is not None
    listed = known | {*ids_of(repository.info.snapshots)}
    directory = repository.layout.snapshots
    for found in repository.storage.list(directory):
        try:
            snapshot_id = SnapshotId.parse(found.path.removeprefix(f"{directory}/"))
        except ValueError:
            continue
        if snapshot_id in listed or (found.created_at or since) < since:
            continue
        try:
            yield repository.read_snapshot(snapshot_id)
        except (ObjectNotFoundError, *UNREADABLE):
            continue


def adopt_snapshot(
    repository: Repository, branch: str, snapshot_id: SnapshotId, progress: Progress
) -> BranchChange:
    """Create a branch at a snapshot file that `repo` does not list, after checking all it needs.

    Its parent is what a backup of `repo` says, else the snapshot from which its transaction log
    leads to it, else the first snapshot of the repository.
    """
    repository.check_online()
    if repository.info is None:
        check_adopted(repository, {snapshot_id}, (snapshot_id,), progress)
        repository.refs.create_branch(branch, snapshot_id)
        return BranchChange(branch, snapshot_id, None)
    chain = find_chain(repository, snapshot_id)
    new_state, _ = adopt(repository.info, branch, chain)
    state = repository_at(repository.storage, new_state)
    check_adopted(state, {one.id for one in chain}, (snapshot_id,), progress)
    update_repo(repository.storage, lambda info: adopt(info, branch, chain))
    return BranchChange(branch, snapshot_id, None)


def find_chain(repository: Repository, snapshot_id: SnapshotId) -> list[SnapshotInfo]:
    """The entries that `repo` needs for the snapshot, oldest first."""
    info = repository.info
    assert info is not None
    known = {one.id: one for one in info.snapshots}
    if snapshot_id in known:
        return [known[snapshot_id]]
    try:
        snapshot = repository.read_snapshot(snapshot_id)
    except ObjectNotFoundError:
        raise RefNotFoundError(f"there is no snapshot file {snapshot_id}") from None
    for backup in _states_with(repository, snapshot_id):
        chain = follow({one.id: one for one in backup.snapshots}, snapshot_id, known)
        if chain:
            return chain
    newest_first = sorted(known.values(), key=lambda one: one.flushed_at, reverse=True)
    tips = {*repository.branches().values(), *repository.tags().values()}
    candidates = sorted(newest_first, key=lambda one: one.id not in tips)[:MOST_CANDIDATES]
    parent = find_parent(repository, snapshot, (one.id for one in candidates))
    if parent is None:
        parent = next(one.id for one in newest_first if one.parent_id is None)
    return [info_of(snapshot, parent)]


def _states_with(repository: Repository, snapshot_id: SnapshotId) -> Iterator[RepoInfo]:
    """The states in backups that list the snapshot, newest first."""
    made = list_backups(repository.storage)
    for name in sorted(made, key=made.__getitem__, reverse=True)[:MOST_CANDIDATES]:
        try:
            state = read_repo(repository.storage, backup_object(name))
        except (ObjectNotFoundError, *UNREADABLE):
            continue
        if any(one.id == snapshot_id for one in state.snapshots):
            yield state


def check_adopted(
    repository: Repository,
    adopted: Set[SnapshotId],
    tips: Iterable[SnapshotId],
    progress: Progress,
) -> None:
    """`FormatError` for the first thing that is missing or wrong in one of the snapshots."""
    history = read_history(repository, tuple(map(str, tips)))
    report = check_files(repository, history, Level.CHUNKS, progress)
    for problem, snapshots in report.problems:
        if problem.rule.severity == "error" and not adopted.isdisjoint(snapshots):
            raise error_of(problem, "nothing was changed; restore the file first")
