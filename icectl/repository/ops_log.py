"""The ops log: every update of a repository (V2), newest first, across its backups.

`repo` holds the latest updates; `repo_before_updates` names the backup whose newest update is
the first one that no longer fitted, and so on to the first operation. Only repo info files are
read, so the log is available even if every snapshot is unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from icectl.errors import FormatError, IcectlError, StorageError
from icectl.format.repo import RepoFile, decode_repo
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    CommitAmendedUpdate,
    NewCommitUpdate,
    RepoInfo,
    RepoMigratedUpdate,
    TagCreatedUpdate,
    TagDeletedUpdate,
    Update,
    UpdateType,
)
from icectl.storage.contract import READS_IN_FLIGHT, Storage
from icectl.storage.paths import is_object_name

REPO_PATH = "repo"
BACKUPS = "overwritten"
MOST_WAITING = 1000
"""Entries that wait for the backup of one of them."""


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
    return decode_repo_at(storage.read(path), path)


def decode_repo_at(data: bytes, path: str) -> RepoInfo:
    try:
        return decode_repo(data)
    except FormatError as error:
        raise error.at(path) from None


def read_repo_file(storage: Storage, path: str = REPO_PATH) -> RepoFile:
    """The same, and its long lists are decoded when they are asked for."""
    return decode_repo_file(storage.read(path), path)


def decode_repo_file(data: bytes, path: str) -> RepoFile:
    try:
        return RepoFile(data)
    except FormatError as error:
        raise error.at(path) from None


def read_ops_log(
    storage: Storage,
    info: RepoInfo,
    *,
    updates: Iterable[Update | OpsLogBeyondReach] | None = None,
    needs_target: Callable[[Update], bool] = lambda update: True,
) -> Iterator[OpsLogEntry | OpsLogBeyondReach]:
    """The updates before and up to the state `info`, read as far as the caller asks.

    Backups that are needed for targets are read many at once, so a target that needs one waits for
    later entries. `updates` are those of `walk_updates`, if the caller walks there itself.
    """
    known = _KnownRefs(info)
    waiting: list[tuple[Update, SnapshotId | _Unread | None]] = []
    unread: set[str] = set()
    for update in walk_updates(storage, info) if updates is None else updates:
        if isinstance(update, OpsLogBeyondReach):
            yield from _read_targets(storage, waiting, unread)
            yield update
            return
        target = known.find_target(update)
        if isinstance(target, _Unread):
            if needs_target(update):
                unread.add(target.path)
            else:
                target = None
        waiting.append((update, target))
        if not unread or len(unread) == READS_IN_FLIGHT or len(waiting) == MOST_WAITING:
            yield from _read_targets(storage, waiting, unread)
            waiting.clear()
            unread.clear()
    yield from _read_targets(storage, waiting, unread)


def walk_updates(
    storage: Storage, info: RepoInfo, read: Callable[[str], RepoFile] | None = None
) -> Iterator[Update | OpsLogBeyondReach]:
    """The updates, newest first; `read` has the backups in which the log continues."""
    visited: set[str] = set()
    yield from info.latest_updates
    name = info.repo_before_updates
    while name is not None:
        path = backup_object(name)
        try:
            if name in visited:
                raise FormatError("the chain of backups contains a cycle", path=path)
            visited.add(name)
            if not is_object_name(name):
                raise FormatError(
                    "its ops log continues in a file that cannot exist", path=REPO_PATH
                )
            file = read_repo_file(storage, path) if read is None else read(path)
            updates = _updates_in(file, path)
        except (FormatError, StorageError) as error:
            yield OpsLogBeyondReach(path, error)
            return
        # In its own file the newest update has no path yet: that file is its backup.
        newest, *older = updates
        yield replace(newest, backup_path=name)
        yield from older
        name = file.repo_before_updates


def _updates_in(file: RepoFile, path: str) -> tuple[Update, ...]:
    try:
        updates = file.latest_updates
    except FormatError as error:
        raise error.at(path) from None
    if not updates:
        raise FormatError("the ops log of this backup is empty", path=path)
    return updates


@dataclass(frozen=True, slots=True)
class _Unread:
    """A target that only a backup has."""

    path: str
    name: str
    is_tag: bool


def _read_targets(
    storage: Storage,
    updates: Iterable[tuple[Update, SnapshotId | _Unread | None]],
    paths: Collection[str],
) -> Iterator[OpsLogEntry]:
    files: dict[str, RepoFile] = {}
    for path, data in storage.read_many(paths) if paths else ():
        if not isinstance(data, StorageError):
            with suppress(FormatError):
                files[path] = RepoFile(data)
    for update, target in updates:
        if isinstance(target, _Unread):
            target = _find_in_file(target, files.get(target.path))
        yield OpsLogEntry(update, target)


def _find_in_file(target: _Unread, file: RepoFile | None) -> SnapshotId | None:
    if file is None:
        return None
    try:
        refs = file.tag_targets() if target.is_tag else file.branch_targets()
    except FormatError:
        return None
    found = refs.get(target.name)
    return None if found is None else found.id


class _KnownRefs:
    """Where refs pointed, followed backward in time from the newest state.

    The log itself is used first; a backup is named only for what the log does not record.
    """

    def __init__(self, info: RepoInfo) -> None:
        self._newest = info
        self._written = info.latest_updates[0] if info.latest_updates else None
        """The newest entry of the write that is looked at: an undo may have several."""
        self._branches = {ref.name: ref.snapshot_id for ref in info.branches}
        self._tags = {ref.name: ref.snapshot_id for ref in info.tags}

    def find_target(self, update: Update) -> SnapshotId | _Unread | None:
        """The update's target; the refs known afterwards are those before the update."""
        kind = update.update_type
        if update.backup_path is not None:
            self._written = update
        target: SnapshotId | _Unread | None = None
        if isinstance(kind, BranchCreatedUpdate | BranchResetUpdate):
            target = self._branches.get(kind.name) or self._find_state(kind.name, is_tag=False)
        elif isinstance(kind, TagCreatedUpdate):
            target = self._tags.get(kind.name) or self._find_state(kind.name, is_tag=True)
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

    def _find_state(self, name: str, *, is_tag: bool) -> SnapshotId | _Unread | None:
        written = self._written
        if written is None or isinstance(written.update_type, RepoMigratedUpdate):
            return None  # a migration invents entries, of which there is no state
        if written.backup_path is not None:
            return _Unread(backup_object(written.backup_path), name, is_tag)
        refs = self._newest.tags if is_tag else self._newest.branches
        return next((ref.snapshot_id for ref in refs if ref.name == name), None)
