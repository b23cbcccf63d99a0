"""Which two snapshots are compared, and which logs lead from one to the other."""

from __future__ import annotations

from dataclasses import dataclass

from icectl.errors import RefNotFoundError, Remedy
from icectl.model.ids import SnapshotId
from icectl.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class Versions:
    from_id: SnapshotId
    to_id: SnapshotId
    log_ids: tuple[SnapshotId, ...] | None
    """The logs after FROM up to TO, oldest first; None when FROM is no ancestor of TO."""


def select_versions(
    repository: Repository, from_: str, to: str, *, merge_base: bool = False
) -> Versions:
    from_id = repository.resolve(from_).snapshot_id
    to_id = repository.resolve(to).snapshot_id
    if merge_base:
        from_id = _find_merge_base(repository, from_id, to_id, f"{from_} and {to}")
    return Versions(from_id, to_id, _logs_between(repository, from_id, to_id))


def select_commit(repository: Repository, ref: str) -> Versions:
    """One snapshot against its parent."""
    to_id = repository.resolve(ref).snapshot_id
    parent_id = repository.snapshot_info(to_id).parent_id
    if parent_id is None:
        raise RefNotFoundError(
            f"{ref} is the first snapshot of the repository and has no parent",
            hint=Remedy("list-first-snapshot", {"ref": ref}),
        )
    return Versions(parent_id, to_id, _logs_between(repository, parent_id, to_id))


def _logs_between(
    repository: Repository, from_id: SnapshotId, to_id: SnapshotId
) -> tuple[SnapshotId, ...] | None:
    newest_first: list[SnapshotId] = []
    for info in repository.ancestry(to_id):
        if info.id == from_id:
            return tuple(reversed(newest_first))
        newest_first.append(info.id)
        newest_first.extend(reversed(info.pruned_ancestor_tx_logs or ()))
    return None


def _find_merge_base(
    repository: Repository, from_id: SnapshotId, to_id: SnapshotId, names: str
) -> SnapshotId:
    ours = {info.id for info in repository.ancestry(from_id)}
    for info in repository.ancestry(to_id):
        if info.id in ours:
            return info.id
    raise RefNotFoundError(
        f"{names} have no common ancestor",
        hint=Remedy("omit-merge-base"),
    )
