"""List, create, move and delete branches and tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icectl.errors import FormatError, RefNotFoundError, StorageError
from icectl.model.ids import SnapshotId
from icectl.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class ListedRef:
    name: str
    snapshot_id: SnapshotId
    flushed_at: int | None
    """None, like the message, where the snapshot is missing or damaged."""
    message: str | None


@dataclass(frozen=True, slots=True)
class BranchList:
    branches: tuple[ListedRef, ...]


@dataclass(frozen=True, slots=True)
class TagList:
    tags: tuple[ListedRef, ...]
    deleted_tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BranchChange:
    branch: str
    snapshot_id: SnapshotId | None
    """None when the branch is gone."""
    previous_snapshot_id: SnapshotId | None
    """None when the branch is new."""


@dataclass(frozen=True, slots=True)
class TagChange:
    tag: str
    snapshot_id: SnapshotId
    """Where the tag points, or pointed before it was deleted."""
    previous_snapshot_id: SnapshotId | None = None
    """None when the tag is new."""


def list_branches(repository: Repository) -> BranchList:
    return BranchList(_list(repository, repository.branches()))


def list_tags(repository: Repository) -> TagList:
    return TagList(_list(repository, repository.tags()), repository.deleted_tags())


def create_branch(repository: Repository, name: str, ref: str) -> BranchChange:
    snapshot_id = repository.resolve(ref).snapshot_id
    repository.refs.create_branch(name, snapshot_id)
    return BranchChange(name, snapshot_id, None)


def reset_branch(
    repository: Repository, name: str, ref: str, expect: str | None = None
) -> BranchChange:
    snapshot_id = repository.resolve(ref).snapshot_id
    expected = _resolve_expected(repository, expect)
    previous = repository.refs.reset_branch(name, snapshot_id, expected)
    return BranchChange(name, snapshot_id, previous)


def delete_branch(repository: Repository, name: str, expect: str | None = None) -> BranchChange:
    expected = _resolve_expected(repository, expect)
    return BranchChange(name, None, repository.refs.delete_branch(name, expected))


def create_tag(repository: Repository, name: str, ref: str) -> TagChange:
    snapshot_id = repository.resolve(ref).snapshot_id
    repository.refs.create_tag(name, snapshot_id)
    return TagChange(name, snapshot_id)


def delete_tag(repository: Repository, name: str) -> TagChange:
    previous = repository.refs.delete_tag(name)
    return TagChange(name, previous, previous)


def _resolve_expected(repository: Repository, expect: str | None) -> SnapshotId | None:
    return None if expect is None else repository.resolve(expect).snapshot_id


def _list(repository: Repository, refs: Mapping[str, SnapshotId]) -> tuple[ListedRef, ...]:
    names = sorted(refs)
    if repository.lists_snapshots:
        return tuple(_describe(repository, name, refs[name]) for name in names)
    # Before spec version 2, each ref is a file that must be read.
    from icectl.pipeline.read_ahead import read_ahead

    return tuple(
        listed
        for _, listed in read_ahead(lambda name: _describe(repository, name, refs[name]), names)
    )


def _describe(repository: Repository, name: str, snapshot_id: SnapshotId) -> ListedRef:
    try:
        info = repository.snapshot_info(snapshot_id)
    except (FormatError, StorageError, RefNotFoundError):
        return ListedRef(name, snapshot_id, None, None)
    return ListedRef(name, snapshot_id, info.flushed_at, info.message)
