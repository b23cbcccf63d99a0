"""The ops log of a repository and the states after its operations, read when they are needed."""

from __future__ import annotations

from collections.abc import Set

from icectl.errors import FormatError, IcectlError, ObjectNotFoundError, Remedy, StorageError
from icectl.format.repo import RefTarget, decode_repo_refs
from icectl.model.repo import UpdateType
from icectl.ops.gc.transitions import ONE_BY_ONE, UNRECORDED, State, find_target, state_of
from icectl.repository.backups import is_cleared
from icectl.repository.lines import Line
from icectl.repository.ops_log import BACKUPS, backup_object, read_repo


class OpsLog:
    """The updates from the newest on, and the states after them, read when they are needed."""

    def __init__(self, line: Line, known_missing: Set[str]) -> None:
        self._storage = line.storage
        self._known_missing = known_missing
        self._states: dict[int, State] = {0: state_of(line.info)}
        self.has_excused_gap = False
        """A state was asked for whose loss is known: what it would tell, nobody knows."""
        self._backups = line.backups
        self.updates = line.updates
        if line.end is not None:
            self._excuse(line.end.path, line.end.error)
        there = (n for n, update in enumerate(self.updates) if update.backup_path in line.backups)
        self._oldest_copy = max(there, default=-1)

    def end_of_run(self, start: int) -> int:
        """The number of the oldest state from which operations that can be taken back lead to
        the state after the update `start`."""
        end = start
        while (
            end + 1 < len(self.updates)
            and not isinstance(self.updates[end].update_type, ONE_BY_ONE)
            and self.updates[end + 1].backup_path is not None
            and end < self._oldest_copy
        ):
            end += 1
        return end

    def state(self, number: int, *, needed: bool = True) -> State | None:
        """After the update of this number; None where no backup was ever made of it.

        One that is lost or damaged is an error, unless it is not needed.
        """
        if number in self._states:
            return self._states[number]
        name = self.updates[number].backup_path if number < len(self.updates) else None
        if name is None or self._oldest_copy < number:
            return None  # never made, or cleared by age: all that are older are gone as well
        path = backup_object(name)
        try:
            if path in self._known_missing:
                raise ObjectNotFoundError(path)
            info = read_repo(self._storage, path)
            if not info.latest_updates or (
                info.latest_updates[0].updated_at != self.updates[number].updated_at
            ):
                raise FormatError("this backup is not of the update that names it", path=path)
        except (FormatError, ObjectNotFoundError) as error:
            if needed:
                self._excuse(path, error)
                self.has_excused_gap = True
            return None
        # Neighbours share a state, and nobody comes back to older ones.
        self._states = {0: self._states[0], number: state_of(info)}
        return self._states[number]

    def read_targets(self, start: int, end: int) -> list[RefTarget | None]:
        """Where the ref of each update pointed afterwards, where the update does not say it.

        None for the others, and where no copy tells it.
        """
        targets: list[RefTarget | None] = [None] * (end - start)
        numbers: dict[str, int] = {}
        for number in range(start, end):
            update = self.updates[number]
            if isinstance(update.update_type, UNRECORDED):
                if number == 0:
                    targets[0] = _target_in(update.update_type, self._states[0])
                elif update.backup_path is not None:
                    numbers[backup_object(update.backup_path)] = number
        for path, data in self._storage.read_many(numbers):
            if isinstance(data, StorageError):
                continue
            try:
                refs = decode_repo_refs(data)
            except FormatError:
                continue
            number = numbers[path]
            if refs.newest and refs.newest.updated_at == self.updates[number].updated_at:
                update_type = self.updates[number].update_type
                targets[number - start] = find_target(update_type, refs.branches, refs.tags)
        return targets

    def is_cleared(self, number: int) -> bool:
        """Whether the copy of the state after this update was cleared by age.

        Entries that a migration made up never had a copy: theirs counts as cleared when one of
        a later state is, which was made after it.
        """
        if self.updates[number].backup_path is not None:
            return self.state(number) is None
        later = range(self._oldest_copy + 1, number)
        return any(self.updates[one].backup_path is not None for one in later)

    def oldest_state(self) -> State:
        """The first that is there: before it copies were cleared, or their loss is known."""
        for number in range(len(self.updates) - 1, 0, -1):
            gap = self.has_excused_gap
            state = self.state(number)
            self.has_excused_gap = gap  # by age it lies behind all that is asked for
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
    return None if found is None else RefTarget(found, state.snapshots[found].parent_id)
