"""The past of a repository (V2): its ops log, and the states that its backups hold.

Every update copies the state before it to `overwritten/`, and the ops log names the copies. Both
classes read only what they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from functools import cached_property

from icectl.errors import FormatError, IcectlError, ObjectNotFoundError, Remedy, StorageError
from icectl.format.repo import RefTarget, RepoFile
from icectl.model.repo import (
    RepoInfo,
    RepoInitializedUpdate,
    UnknownUpdate,
    Update,
    UpdateType,
)
from icectl.repository.backups import is_cleared, list_backups
from icectl.repository.history import State, state_of
from icectl.repository.ops_log import (
    BACKUPS,
    OpsLogBeyondReach,
    backup_object,
    decode_repo_file,
    read_repo_file,
    walk_updates,
)
from icectl.repository.transitions import RELEASING, UNRECORDED, find_target
from icectl.repository.writes import end_of_write
from icectl.storage.contract import Storage

Entry = tuple[int, UpdateType]
"""What identifies an update in every copy of the log; its `backup_path` is filled in later."""

MOST_STATES = 3
READS_IN_FLIGHT = 64


class Timeline:
    """The operations that led to one state, as its ops log records them.

    A backup belongs to a timeline if the ops log names it or has its newest entry. The second
    covers copies that a writer made and abandoned (a lost race) and entries without a
    `backup_path`. A log that was cut, or whose older part was cleared, says nothing about what is
    older than its end.
    """

    def __init__(
        self, storage: Storage, info: RepoInfo, backups: Mapping[str, int] | None = None
    ) -> None:
        self.storage = storage
        self.info = info
        self._files: dict[str, RepoFile] = {}
        if backups is not None:
            self.backups = backups

    @cached_property
    def _walked(self) -> tuple[list[Update], OpsLogBeyondReach | None]:
        updates: list[Update] = []
        for update in walk_updates(self.storage, self.info, self._read_window):
            if isinstance(update, OpsLogBeyondReach):
                return updates, update
            updates.append(update)
        return updates, None

    def _read_window(self, path: str) -> RepoFile:
        if path not in self._files:
            data = self._windows.get(path)
            self._files[path] = decode_repo_file(
                self.storage.read(path) if data is None else data, path
            )
        return self._files[path]

    def read_backup(self, path: str) -> RepoInfo:
        """The whole state in a backup, which may be one that the ops log was read from."""
        try:
            return self._read_window(path).decode_all()
        except FormatError as error:
            raise error.at(path) from None

    @cached_property
    def _windows(self) -> Mapping[str, bytes]:
        """The backups in which the log most likely continues, read at once.

        Each names only the next, and is as far from it as it has entries, unless writers left
        copies that no log names. A wrong guess costs a request.
        """
        first, step = self.info.repo_before_updates, len(self.info.latest_updates)
        if first is None or first not in self.backups:
            return {}
        older = sorted(name for name in self.backups if name >= first)  # newest first
        guesses = map(backup_object, older[::step])
        found = self.storage.read_many(guesses, concurrency=READS_IN_FLIGHT)
        return {path: data for path, data in found if not isinstance(data, StorageError)}

    @property
    def updates(self) -> list[Update]:
        """Newest first."""
        return self._walked[0]

    @property
    def end(self) -> OpsLogBeyondReach | None:
        """Why the log ends before the first operation; None where `repo` says that it ends."""
        return self._walked[1]

    @cached_property
    def backups(self) -> Mapping[str, int]:
        """The existing copies of `repo`, of any timeline, and when each was made."""
        return list_backups(self.storage)

    @cached_property
    def _entries(self) -> Set[Entry]:
        return {(update.updated_at, update.update_type) for update in self.updates}

    @cached_property
    def names(self) -> Set[str]:
        """Of the backups that the log names."""
        return {update.backup_path for update in self.updates if update.backup_path is not None}

    def __contains__(self, newest: Update) -> bool:
        """Whether the state after this update is known to be part of the timeline."""
        return (newest.updated_at, newest.update_type) in self._entries

    def is_beyond(self, updated_at: int) -> bool:
        """Whether the log ends after that time, so that it cannot know the update."""
        if self.end is None and isinstance(self.updates[-1].update_type, RepoInitializedUpdate):
            return False
        if self.end is not None and not is_cleared(
            self.end.path.removeprefix(f"{BACKUPS}/"), self.backups
        ):
            return False  # a gap: the part behind it may belong to a lost timeline
        return updated_at < self.updates[-1].updated_at


class PastStates:
    """The states after the operations of a timeline, by number: 0 is the newest.

    Backups named in `known_missing`, by path, are treated as lost, and their loss as explained.
    """

    def __init__(self, timeline: Timeline, known_missing: Set[str]) -> None:
        self._storage = timeline.storage
        self._known_missing = known_missing
        self._states: dict[int, State] = {0: state_of(timeline.info)}
        self.has_excused_gap = False
        """A state was needed whose loss is known: whatever it would show is unknown."""
        self._backups = timeline.backups
        self._read: dict[str, bytes] = {}
        self.updates = timeline.updates
        if timeline.end is not None:
            self._excuse(timeline.end.path, timeline.end.error)
        existing = (
            number
            for number, update in enumerate(self.updates)
            if update.backup_path in timeline.backups
        )
        self._oldest_copy = max(existing, default=-1)

    def end_of_run(self, start: int, releases: int) -> int:
        """The number of an older state from which known operations lead to the state after the
        update `start`: so many of them that can release anything, and what precedes them."""
        end = start
        while (
            end + 1 < len(self.updates)
            and not isinstance(self.updates[end].update_type, UnknownUpdate)
            and self.updates[end + 1].backup_path is not None
            and end < self._oldest_copy
        ):
            is_release = isinstance(self.updates[end].update_type, RELEASING)
            if is_release and not releases:
                break
            releases -= is_release
            end += 1
        return end

    def state(self, number: int, *, needed: bool = True) -> State | None:
        """After the update of this number; None where no backup was ever made of it.

        A lost or damaged one is an error, unless it is not needed.
        """
        if number in self._states:
            self._states[number] = state = self._states.pop(number)
            return state
        name = self.updates[number].backup_path if number < len(self.updates) else None
        if name is None or self._oldest_copy < number:
            return None  # never made, or cleared by age: all older ones are gone as well
        path = backup_object(name)
        try:
            if path in self._known_missing:
                raise ObjectNotFoundError(path)
            file = self._read_file(path)
            newest = file.newest_update
            if newest is None or newest.updated_at != self.updates[number].updated_at:
                raise FormatError("this backup is not of the update that names it", path=path)
            state = state_of(file)
        except (FormatError, ObjectNotFoundError) as error:
            if needed:
                self._excuse(path, error)
                self.has_excused_gap = True
            return None
        # Neighbours share a state, and nobody comes back to much newer ones.
        recent = [*self._states.items()][-MOST_STATES:]
        self._states = {0: self._states[0], **dict(recent), number: state}
        return state

    def read_ahead(self, numbers: Iterable[int]) -> None:
        """Read the backups of these states at once; whatever fails, fails when it is needed."""
        paths = {path for number in numbers if (path := self._path(number)) is not None}
        wanted = paths - self._known_missing - self._read.keys()
        self._read = {path: data for path, data in self._read.items() if path in paths}
        for path, data in self._storage.read_many(wanted, concurrency=READS_IN_FLIGHT):
            if not isinstance(data, StorageError):
                self._read[path] = data

    def read_run(self, number: int) -> None:
        """Read the backups of this state and of many older ones, unless the next one is there."""
        if self._path(number + 1) not in self._read:
            self.read_ahead(range(number, number + READS_IN_FLIGHT))

    def _path(self, number: int) -> str | None:
        """The backup of the state, where it exists."""
        if not 0 < number < len(self.updates) or number in self._states:
            return None
        name = self.updates[number].backup_path
        return backup_object(name) if name is not None and name in self._backups else None

    def _read_file(self, path: str) -> RepoFile:
        data = self._read.get(path)
        return read_repo_file(self._storage, path) if data is None else decode_repo_file(data, path)

    def newest_write(self) -> list[UpdateType]:
        """The entries of the last write, newest first."""
        if not self.updates:
            return []
        return [update.update_type for update in self.updates[: end_of_write(self.updates, 0)]]

    def read_targets(self, start: int, end: int) -> list[RefTarget | None]:
        """Where the ref of each update pointed afterwards, if the update does not record it.

        None for the others, and where no copy shows it.
        """
        targets: list[RefTarget | None] = [None] * (end - start)
        numbers: dict[str, int] = {}
        for number in range(start, end):
            update = self.updates[number]
            if isinstance(update.update_type, UNRECORDED):
                if number in self._states:
                    state = self._states[number]
                    targets[number - start] = _target_in(update.update_type, state)
                elif update.backup_path is not None:
                    numbers[backup_object(update.backup_path)] = number
        for path, data in self._storage.read_many(numbers, concurrency=READS_IN_FLIGHT):
            if isinstance(data, StorageError):
                continue
            update = self.updates[numbers[path]]
            with suppress(FormatError):
                file = RepoFile(data)
                newest = file.newest_update
                if newest is not None and newest.updated_at == update.updated_at:
                    target = find_target(
                        update.update_type, file.branch_targets(), file.tag_targets()
                    )
                    targets[numbers[path] - start] = target
        return targets

    def is_cleared(self, number: int) -> bool:
        """Whether the copy of the state after this update was cleared by age.

        Entries that a migration invented never had a copy: theirs counts as cleared if one of a
        later state is, which was made after it.
        """
        if self.updates[number].backup_path is not None:
            return self.state(number) is None
        later = range(self._oldest_copy + 1, number)
        return any(self.updates[one].backup_path is not None for one in later)

    def read_ends(self) -> None:
        """Read the backups of the newest and the oldest past state, which every check needs."""
        self.read_ahead({1, min(self._oldest_copy, len(self.updates) - 1)})

    def oldest_state(self) -> State:
        """The first existing one: older copies were cleared, or their loss is known."""
        for number in range(len(self.updates) - 1, 0, -1):
            gap = self.has_excused_gap
            state = self.state(number)
            self.has_excused_gap = gap  # by age it lies behind everything that is needed
            if state is not None:
                return state
        return self._states[0]

    def _excuse(self, path: str, error: IcectlError) -> None:
        if path in self._known_missing:
            return
        name = path.removeprefix(f"{BACKUPS}/")
        if isinstance(error, ObjectNotFoundError) and is_cleared(name, self._backups):
            return
        raise FormatError(
            "this backup is needed to tell why snapshots are unreachable: "
            + getattr(error, "reason", error.message),
            path=path,
            hint=Remedy("restore-or-excuse-backup"),
        )


def _target_in(update: UpdateType, state: State) -> RefTarget | None:
    found = find_target(update, state.branches, state.tags)
    return None if found is None else RefTarget(found, state.parents[found])
