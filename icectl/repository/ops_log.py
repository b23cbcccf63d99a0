"""The ops log: every update of a repository (V2), newest first, across its backups.

`repo` holds the latest updates; `repo_before_updates` names the backup whose newest update is
the first one that no longer fitted, and so on to the first operation. Only repo info files are
read, so the log is available even if every snapshot is unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from icectl.errors import FormatError, IcectlError, StorageError
from icectl.format.repo import decode_repo
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    CommitAmendedUpdate,
    NewCommitUpdate,
    RepoInfo,
    TagCreatedUpdate,
    TagDeletedUpdate,
    Update,
    UpdateType,
)
from icectl.storage.contract import Storage
from icectl.storage.paths import is_object_name

REPO_PATH = "repo"
BACKUPS = "overwritten"


@dataclass(frozen=True, slots=True)
class OpsLogEntry:
    update: Update
    """With the `backup_path` of the state that it produced; None on the newest."""
    target: SnapshotId | None
    """Where a created or reset ref pointed afterwards; None for other kinds, or when unknown."""


@dataclass(frozen=True, slots=True)
class OpsLogBeyondReach:
    """The end of a walk that could not reach the first operation."""

    path: str
    error: IcectlError
    is_cleared: bool = False
    """Whether the older part of the log was removed by age; False if nobody checked."""


def backup_object(name: str) -> str:
    """The object of a `backup_path` or `repo_before_updates`, which are bare names."""
    return f"{BACKUPS}/{name}"


def read_repo(storage: Storage, path: str = REPO_PATH) -> RepoInfo:
    try:
        return decode_repo(storage.read(path))
    except FormatError as error:
        raise error.at(path) from None


def read_ops_log(
    storage: Storage,
    info: RepoInfo,
    *,
    with_targets: bool = True,
    updates: Iterable[Update | OpsLogBeyondReach] | None = None,
) -> Iterator[OpsLogEntry | OpsLogBeyondReach]:
    """The updates before and up to the state `info`, read as far as the caller asks.

    `with_targets=False` avoids reading backups that are needed for targets alone. `updates` are
    those of `walk_updates`, if the caller walks there itself.
    """
    known = _KnownRefs(storage, info) if with_targets else None
    for update in walk_updates(storage, info) if updates is None else updates:
        if isinstance(update, OpsLogBeyondReach):
            yield update
            return
        target = known.read_target(update) if known else None
        yield OpsLogEntry(update, target)


def walk_updates(storage: Storage, info: RepoInfo) -> Iterator[Update | OpsLogBeyondReach]:
    visited: set[str] = set()
    yield from info.latest_updates
    while info.repo_before_updates is not None:
        name = info.repo_before_updates
        path = backup_object(name)
        try:
            if name in visited:
                raise FormatError("the chain of backups contains a cycle", path=path)
            visited.add(name)
            if not is_object_name(name):
                raise FormatError(
                    "its ops log continues in a file that cannot exist", path=REPO_PATH
                )
            info = read_repo(storage, path)
            if not info.latest_updates:
                raise FormatError("the ops log of this backup is empty", path=path)
        except (FormatError, StorageError) as error:
            yield OpsLogBeyondReach(path, error)
            return
        # In its own file the newest update has no path yet: that file is its backup.
        newest, *older = info.latest_updates
        yield replace(newest, backup_path=name)
        yield from older


class _KnownRefs:
    """Where refs pointed, followed backward in time from the newest state.

    The log itself is used first; a backup is read only for what the log does not record.
    """

    def __init__(self, storage: Storage, info: RepoInfo) -> None:
        self._storage = storage
        self._newest = info
        self._branches = {ref.name: ref.snapshot_id for ref in info.branches}
        self._tags = {ref.name: ref.snapshot_id for ref in info.tags}

    def read_target(self, update: Update) -> SnapshotId | None:
        """The update's target; the refs known afterwards are those before the update."""
        kind = update.update_type
        target = None
        if isinstance(kind, BranchCreatedUpdate | BranchResetUpdate):
            target = self._branches.get(kind.name) or self._read_backup(update).get(kind.name)
        elif isinstance(kind, TagCreatedUpdate):
            target = self._tags.get(kind.name) or self._read_backup(update).get(kind.name)
        self._go_back(kind)
        return target

    def _go_back(self, kind: UpdateType) -> None:
        match kind:
            case BranchDeletedUpdate(name, previous) | BranchResetUpdate(name, previous):
                self._branches[name] = previous
            case CommitAmendedUpdate(branch, previous, _):
                self._branches[branch] = previous
            case BranchCreatedUpdate(name):
                self._branches.pop(name, None)
            case NewCommitUpdate(branch, _):
                # Not the parent that the newest state has: expiration may have changed it.
                self._branches.pop(branch, None)
            case TagDeletedUpdate(name, previous):
                self._tags[name] = previous
            case _:
                pass

    def _read_backup(self, update: Update) -> dict[str, SnapshotId]:
        try:
            if update.backup_path is not None:
                state = read_repo(self._storage, backup_object(update.backup_path))
            elif update == self._newest.latest_updates[0]:
                state = self._newest
            else:
                return {}
        except (FormatError, StorageError):
            return {}
        of_tag = isinstance(update.update_type, TagCreatedUpdate)
        return {ref.name: ref.snapshot_id for ref in (state.tags if of_tag else state.branches)}
