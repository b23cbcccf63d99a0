"""Operations by name, and the states that they left (V2).

An operation is an entry of the ops log. `@N` counts back from the newest, as git's reflog does; a
time means the state at that time; the name of a backup stays valid while operations are added. One
write can have several entries, such as that of an undo: only the newest of them has a state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from icectl.errors import (
    FormatError,
    IcectlError,
    ObjectNotFoundError,
    RefNotFoundError,
    RefusedError,
    Remedy,
    UnsupportedError,
    UsageError,
)
from icectl.format.repo import RepoFile
from icectl.model.repo import (
    GCRanUpdate,
    RepoInfo,
    RepoInitializedUpdate,
    RepoMigratedUpdate,
    UnknownUpdate,
    Update,
)
from icectl.repository.backups import is_cleared, list_backups, made_at
from icectl.repository.open import open_repository, repository_at
from icectl.repository.ops_log import (
    BACKUPS,
    REPO_PATH,
    OpsLogBeyondReach,
    backup_object,
    read_repo,
    read_repo_file,
    walk_updates,
)
from icectl.repository.repository import Repository
from icectl.storage.contract import ListingShard, Storage

SHORTEST_SUFFIX = 4
_NUMBER = re.compile(r"@([0-9]{1,18})")
_NEVER_UNDONE = {
    RepoInitializedUpdate: "there is no state before it",
    RepoMigratedUpdate: "the files of the old spec version are gone",
    GCRanUpdate: "a garbage collection deletes files",
    UnknownUpdate: "this icectl does not know the operation",
}

ParseTime = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Operation:
    """What one write did: the newest of its entries, and the states around it."""

    number: int
    written_together: tuple[Update, ...]
    """All entries of the write, newest first."""
    before: RepoInfo
    after: RepoInfo


class Operations:
    """The ops log of one state, read as far as it is asked for."""

    def __init__(self, storage: Storage, info: RepoInfo) -> None:
        self._storage = storage
        self._info = info
        self._walk = walk_updates(storage, info, self._read_window)
        self._updates: list[Update] = []
        self._newest_of_write: list[int] = []
        """Of each entry, the next one with a state; a write can have very many entries."""
        self._state_before: dict[int, int | None] = {}
        self.end: OpsLogBeyondReach | None = None
        """Why the log ends before the first operation, once the walk arrived there."""
        self._backups: dict[str, int] = {}
        self._listed_through = ""
        self._named_through = self._last_name(info.latest_updates)
        """The greatest name in the part of the log that was read: of its oldest backup."""

    def _read_window(self, path: str) -> RepoFile:
        file = read_repo_file(self._storage, path)
        with suppress(FormatError):  # the walk reports it
            name = self._last_name(file.latest_updates)
            self._named_through = max(self._named_through, name, path.removeprefix(f"{BACKUPS}/"))
        return file

    @staticmethod
    def _last_name(updates: Iterable[Update]) -> str:
        return max((update.backup_path or "" for update in updates), default="")

    def __iter__(self) -> Iterator[Update]:
        """All entries, newest first."""
        number = 0
        while (update := self.entry(number)) is not None:
            yield update
            number += 1

    def entry(self, number: int) -> Update | None:
        """None behind the oldest one that can be read."""
        while len(self._updates) <= number:
            if self.end is not None:
                return None
            update = next(self._walk, None)
            if update is None:
                return None
            if isinstance(update, OpsLogBeyondReach):
                self.end = update
            else:
                has_state = not self._updates or update.backup_path is not None
                newest = len(self._updates) if has_state else self._newest_of_write[-1]
                self._newest_of_write.append(newest)
                self._updates.append(update)
        return self._updates[number]

    def has_state(self, number: int) -> bool:
        """Whether a copy of the state after this entry was ever made."""
        return self.entry(number) is not None and self._newest_of_write[number] == number

    def newest_of_write(self, number: int) -> int:
        """The entry with the state of the write that this one belongs to.

        The entry itself if it belongs to none, as those that a migration invents.
        """
        is_part = self.entry(number) is not None and self.state_before(number) is not None
        return self._newest_of_write[number] if is_part else number

    def state_before(self, number: int) -> int | None:
        """The number of the state that the write of this entry found."""
        newest = self._newest_of_write[number]
        if newest not in self._state_before:
            older = number + 1
            while self.entry(older) is not None and not self.has_state(older):
                older += 1
            self._state_before[newest] = None if self.entry(older) is None else older
        return self._state_before[newest]

    def find_obstacle(self, number: int) -> str | None:
        """Why the operation cannot be undone whatever came after it; None if it may be."""
        number = self.newest_of_write(number)
        update = self.entry(number)
        assert update is not None
        reason = _NEVER_UNDONE.get(type(update.update_type))
        if reason is not None:
            return reason
        if not self.has_state(number):
            return "a migration recorded it"
        before = self.state_before(number)
        if before is None:
            return "the state before it is gone"
        for state, when in ((number, "after"), (before, "before")):
            if not self._is_there(state):
                return f"the backup of the state {when} it is gone"
        return None

    def state_object(self, number: int) -> str:
        """The object with the state after the operation; `RefNotFoundError` if there is none."""
        update = self.entry(number)
        if update is None:
            raise self._not_found(number)
        if number == 0:
            return REPO_PATH
        if update.backup_path is None:
            newest = self.newest_of_write(number)
            raise RefNotFoundError(
                f"a migration recorded @{number}: there is no state from that time"
                if newest == number
                else f"@{number} was written together with @{newest}: there is no state in between",
                hint=Remedy("list-operations"),
            )
        return backup_object(update.backup_path)

    def read_state(self, number: int) -> RepoInfo:
        """The state after the operation."""
        path = self.state_object(number)
        if path == REPO_PATH:
            return self._info
        info = read_backup(self._storage, path.removeprefix(f"{BACKUPS}/"))
        updated_at = self._updates[number].updated_at
        if not info.latest_updates or info.latest_updates[0].updated_at != updated_at:
            raise FormatError("this backup is not of the update that names it", path=path)
        return info

    def check_undoable(self, number: int) -> None:
        """`RefusedError` for a kind of operation that cannot be undone."""
        update = self.entry(number)
        assert update is not None
        reason = _NEVER_UNDONE.get(type(update.update_type))
        if reason is not None:
            raise RefusedError(f"@{number} ({update.update_type.kind}) cannot be undone: {reason}")

    def read_operation(self, number: int) -> Operation:
        """The write that the entry belongs to, and the states around it."""
        number = self.newest_of_write(number)
        after = self.read_state(number)
        before = self.state_before(number)
        if before is None:
            raise RefNotFoundError(f"there is no state before @{number}")
        together = tuple(self._updates[number:before])
        return Operation(number, together, self.read_state(before), after)

    def find(self, name: str, parse_time: ParseTime) -> int:
        """The number of the operation; `RefNotFoundError` if there is none of that name."""
        if match := _NUMBER.fullmatch(name):
            number = int(match[1])
            if self.entry(number) is None:
                raise self._not_found(number)
            return number
        moment = _parse_moment(name, parse_time)
        if moment is not None:
            return self._find_at(name, moment)
        backup = find_backup(self._storage, name)
        for number, update in enumerate(self):
            if update.backup_path == backup:
                return number
        raise RefNotFoundError(
            f"{backup_object(backup)} is not part of the history of this repository",
            hint=Remedy("list-operations"),
        )

    def _find_at(self, name: str, moment: int) -> int:
        oldest = 0
        for number, update in enumerate(self):
            if update.updated_at <= moment and self.has_state(number):
                return number
            oldest = number
        if self.end is not None:
            raise self._not_found(oldest + 1)
        raise RefNotFoundError(
            f"no state of the repository is kept from {name}", hint=Remedy("list-operations")
        )

    def _not_found(self, number: int) -> IcectlError:
        if self.end is None:
            return RefNotFoundError(
                f"there is no operation @{number}: the oldest is @{len(self._updates) - 1}",
                hint=Remedy("list-operations"),
            )
        return _unreadable(self._storage, self.end.path.removeprefix(f"{BACKUPS}/"), self.end.error)

    def _is_there(self, number: int) -> bool:
        update = self.entry(number)
        assert update is not None
        name = update.backup_path
        if name is None:
            return True  # it is `repo`
        if name > self._listed_through:
            # All that this part of the log names, in one listing: the oldest are listed last.
            through = max(self._named_through, name)
            shard = ListingShard(self._listed_through, through)
            self._backups |= list_backups(self._storage, shard)
            self._listed_through = through
        return name in self._backups


def operations_of(repository: Repository) -> Operations:
    """`UnsupportedError` before spec version 2."""
    if repository.info is None:
        raise UnsupportedError(
            f"a repository of the generation {repository.generation} keeps no ops log",
            hint=Remedy("show-all-commits"),
        )
    return Operations(repository.storage, repository.info)


def open_at(storage: Storage, name: str, parse_time: ParseTime) -> Repository:
    """The repository as it was after an operation, or as a backup holds it."""
    path = find_state(storage, name, parse_time)
    if path == REPO_PATH:
        return open_repository(storage)
    return repository_at(storage, read_backup(storage, path.removeprefix(f"{BACKUPS}/")))


def find_state(storage: Storage, name: str, parse_time: ParseTime) -> str:
    """The object with the state after an operation: a backup, or `repo`.

    Any backup will do, also one that the ops log does not name, and also if `repo` is damaged.
    """
    if is_backup_name(name):
        return backup_object(find_backup(storage, name))
    operations = operations_of(open_repository(storage))
    return operations.state_object(operations.find(name, parse_time))


def is_backup_name(name: str) -> bool:
    return made_at(name.removeprefix(f"{BACKUPS}/")) is not None


def find_backup(storage: Storage, name: str) -> str:
    """The name of a backup of `repo`, given its path, its name, or the end of it."""
    if is_backup_name(name):
        return name.removeprefix(f"{BACKUPS}/")
    found = [one for one in list_backups(storage) if one.endswith(name.upper())]
    if len(name) < SHORTEST_SUFFIX or not found:
        raise UsageError(
            f"{name!r} is not an operation",
            hint=f"did you mean @{name}?" if name.isdecimal() else Remedy("name-operation"),
        )
    if len(found) > 1:
        raise RefNotFoundError(
            f"{name} is the end of the names of {len(found)} backups",
            hint="give more characters of the name",
        )
    return found[0]


def read_backup(storage: Storage, name: str) -> RepoInfo:
    """`RefNotFoundError` if it was cleared by age, `FormatError` if it is lost."""
    try:
        return read_repo(storage, backup_object(name))
    except ObjectNotFoundError as error:
        raise _unreadable(storage, name, error) from None


def _unreadable(storage: Storage, name: str, error: IcectlError) -> IcectlError:
    path = backup_object(name)
    if not isinstance(error, ObjectNotFoundError):
        return error
    if is_cleared(name, list_backups(storage, ListingShard(after=name))):
        return RefNotFoundError(
            f"the state that {path} held is gone: the backups of that age were deleted"
        )
    return FormatError(
        "this backup is missing, though older ones exist: the state that it held is lost",
        path=path,
    )


def _parse_moment(name: str, parse_time: ParseTime) -> int | None:
    if is_backup_name(name):
        return None
    try:
        return parse_time(name)
    except UsageError:
        return None
