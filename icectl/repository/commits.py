"""One commit as users see it: a snapshot with its message, metadata and refs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from icectl.errors import FormatError
from icectl.format.values import decode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class Commit:
    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: int
    message: str
    metadata: Mapping[str, object]
    branches: tuple[str, ...]
    """The names that point here, sorted."""
    tags: tuple[str, ...]


def commit_fields(commit: Commit) -> dict[str, Any]:
    """The fields by name, to make a commit with more of them."""
    return {field.name: getattr(commit, field.name) for field in fields(commit)}


class CommitReader:
    """Makes commits of snapshot infos; finds out once which refs point where."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._branches = _names_by_target(repository.branches())
        self._tags = _names_by_target(repository.tags())

    def commit(self, info: SnapshotInfo) -> Commit:
        return Commit(
            info.id,
            info.parent_id,
            info.flushed_at,
            info.message,
            self._metadata(info),
            self._branches.get(info.id, ()),
            self._tags.get(info.id, ()),
        )

    def _metadata(self, info: SnapshotInfo) -> dict[str, object]:
        try:
            return decode_metadata(info.metadata, self._repository.spec_version)
        except FormatError as error:
            raise error.at(self._repository.info_object(info.id)) from None


def _names_by_target(refs: Mapping[str, SnapshotId]) -> dict[SnapshotId, tuple[str, ...]]:
    names: dict[SnapshotId, tuple[str, ...]] = {}
    for name in sorted(refs):
        names[refs[name]] = (*names.get(refs[name], ()), name)
    return names
