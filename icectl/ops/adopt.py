"""Snapshot files that `repo` does not list: find their parents, and give them a branch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from icectl.checks.problem import UNREADABLE
from icectl.errors import ObjectNotFoundError
from icectl.format.values import decode_metadata, encode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    NewDetachedSnapshotUpdate,
    RepoInfo,
    SnapshotInfo,
)
from icectl.model.snapshot import Snapshot
from icectl.ops.repair.derive_log import derive_log, explains
from icectl.repository import edits
from icectl.repository.edits import Edited
from icectl.repository.repository import Repository

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


def unlisted_snapshots(repository: Repository, since: int | None = None) -> Iterator[Snapshot]:
    """Readable snapshot files that `repo` does not list, written since that time."""
    assert repository.info is not None
    listed = {one.id for one in repository.info.snapshots}
    directory = repository.layout.snapshots
    for found in repository.storage.list(directory):
        try:
            snapshot_id = SnapshotId.parse(found.path.removeprefix(f"{directory}/"))
        except ValueError:
            continue
        if snapshot_id in listed or (since is not None and (found.created_at or since) < since):
            continue
        try:
            yield repository.read_snapshot(snapshot_id)
        except (ObjectNotFoundError, *UNREADABLE):
            continue
