"""Changing branches and tags: one interface for the two generations that can be changed.

Spec version 2 keeps all refs in `repo`, spec version 1 each in a file of its own. A store decides
each change on the newest state, whatever state of the repository was opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from icectl.model.ids import SnapshotId
from icectl.model.repo import RepoInfo
from icectl.repository import edits
from icectl.repository.edits import Edited, find_ref
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.update import FoundRepo, update_repo
from icectl.storage.contract import Storage


class RefStore(Protocol):
    """Names must be new to create a ref, and `RefNotFoundError` answers an unknown one.

    `expect` makes a change conditional: `ConflictError` if the branch points elsewhere.
    """

    def branch_object(self, name: str) -> str:
        """The object that says where the branch points."""

    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None: ...

    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expect: SnapshotId | None = None
    ) -> SnapshotId:
        """Point the branch elsewhere; returns the snapshot it pointed at before."""

    def delete_branch(self, name: str, expect: SnapshotId | None = None) -> SnapshotId:
        """Returns the snapshot it pointed at."""

    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None: ...

    def delete_tag(self, name: str) -> SnapshotId:
        """Returns the snapshot it pointed at. The name can never be used again."""


class RepoFileRefs:
    """Refs of spec version 2: entries of `repo`, changed by its update loop."""

    def __init__(self, storage: Storage, found: FoundRepo | None) -> None:
        self._storage = storage
        self._found = found

    def branch_object(self, _name: str) -> str:
        return REPO_PATH

    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        self._update(lambda info: edits.create_branch(info, name, snapshot_id))

    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expect: SnapshotId | None = None
    ) -> SnapshotId:
        before = self._update(lambda info: edits.reset_branch(info, name, snapshot_id, expect))
        return find_ref(before.branches, name, "branch")

    def delete_branch(self, name: str, expect: SnapshotId | None = None) -> SnapshotId:
        before = self._update(lambda info: edits.delete_branch(info, name, expect))
        return find_ref(before.branches, name, "branch")

    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        self._update(lambda info: edits.create_tag(info, name, snapshot_id))

    def delete_tag(self, name: str) -> SnapshotId:
        before = self._update(lambda info: edits.delete_tag(info, name))
        return find_ref(before.tags, name, "tag")

    def _update(self, change: Callable[[RepoInfo], Edited]) -> RepoInfo:
        """The state before the change."""
        return update_repo(self._storage, change, found=self._found).before
