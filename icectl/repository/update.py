"""The only read-modify-swap-retry loop for the repo info file (V2).

An update reads `repo` with its version, applies a pure edit, copies the old bytes to
`overwritten/`, and swaps: three rounds of requests. On an object store, the listing that shows
whether `repo` is older than its backups runs beside the copy. The name of that copy is random and
the new state refers to it, which identifies our own write: after a lost race or a lost response the
ops log shows whether the update landed, however many others came after it.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from icectl.errors import (
    ConflictError,
    FormatError,
    PreconditionFailedError,
    RefusedError,
    Remedy,
    StorageError,
)
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.values import decode_flexbuffers
from icectl.model.repo import Availability, RepoInfo, RepoStatus, Update, UpdateType
from icectl.repository.backups import backup_name, check_newest
from icectl.repository.clock import format_duration, is_ahead, local_time, write_time
from icectl.repository.edits import Edited
from icectl.repository.ops_log import REPO_PATH, OpsLogBeyondReach, backup_object, walk_updates
from icectl.storage.contract import Storage, VersionedBytes

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 200
LONGEST_PAUSE_SECONDS = 3.0
MOST_WINDOWS = 8
FRESH_SECONDS = 10.0
DEFAULT_NUM_UPDATES_PER_FILE = 1000
_LIMITED: dict[int, str] = {Availability.READ_ONLY: "read-only", Availability.OFFLINE: "offline"}


@dataclass(frozen=True, slots=True)
class RepoUpdate:
    """The state an update found, and the state it left; equal when there was nothing to do."""

    before: RepoInfo
    after: RepoInfo
    backup: str | None = None
    """The name of the copy of `before`; None when there was nothing to do."""


class FoundRepo:
    """`repo` as it was read a moment ago, for the first attempt to replace it."""

    def __init__(self, storage: Storage) -> None:
        self.bytes = storage.read_for_update(REPO_PATH)
        self.local_time = local_time()
        self._read_at = time.monotonic()

    def take(self) -> bool:
        """Whether it is worth trying: once, and unless somebody read a plan meanwhile."""
        is_fresh = time.monotonic() - self._read_at < FRESH_SECONDS
        self._read_at = -math.inf
        return is_fresh


def update_repo(
    storage: Storage,
    change: Callable[[RepoInfo], Edited],
    *,
    found: FoundRepo | None = None,
    whatever_status: bool = False,
    accept_older: bool = False,
    abandoned: Set[str] = frozenset(),
) -> RepoUpdate:
    """Apply `change` to the newest state, as often as it takes to win.

    The first attempt is made on `found`, if that is fresh, which saves a request.
    `change` sees a fresh state each time and may raise; nothing is written then, nor when it
    changes nothing. `whatever_status` is for the one operation that sets the status.
    A `repo` that is older than its own backups is refused unless `accept_older` says that
    it is meant to stay: a write would bury the evidence of what it lacks. The backups (by path)
    of an `abandoned` history do not count.
    """
    lost: list[str] = []
    try:
        return _update_until_won(
            storage, change, found, whatever_status, accept_older, abandoned, lost
        )
    finally:
        _forget(storage, lost)


def _update_until_won(
    storage: Storage,
    change: Callable[[RepoInfo], Edited],
    read: FoundRepo | None,
    whatever_status: bool,
    accept_older: bool,
    abandoned: Set[str],
    lost: list[str],
) -> RepoUpdate:
    """The loop; `lost` receives the copies that no state refers to."""
    tried: RepoUpdate | None = None
    checked: int | None = None
    for attempt in range(MAX_ATTEMPTS + 1):
        started = time.monotonic()
        found = read if attempt == 0 and read and read.take() else FoundRepo(storage)
        before = _decode(found.bytes.data)
        if tried is not None:
            if _is_in_log(storage, before, tried):
                return tried
            lost.append(backup_object(str(tried.backup)))
        if attempt == MAX_ATTEMPTS:
            break
        if not whatever_status:
            check_online(before.status)
        if not before.latest_updates:
            raise FormatError("the ops log is empty", path=REPO_PATH)
        edited, entries = change(before)
        if edited == before:
            return RepoUpdate(before, before)
        newest = before.latest_updates[0].updated_at
        # Once is enough while each attempt finds a newer state than the one before.
        is_checked = accept_older or (checked is not None and newest >= checked)
        checked = newest
        now = write_time(found.bytes.read_at, found.local_time)
        backup = backup_name(now)
        updates = entries if isinstance(entries, tuple) else (entries,)
        tried = RepoUpdate(before, with_updates(edited, updates, now, backup), backup)
        data = encode_repo(tried.after)
        storage.ensure_conditional_writes()
        path = backup_object(backup)
        try:
            with nullcontext() if is_checked else _newest_checked(storage, before, abandoned, path):
                storage.put_if_absent(path, found.bytes.data)
        except (FormatError, StorageError):
            lost.append(path)
            raise
        try:
            storage.put_if_match(REPO_PATH, data, found.bytes.version)
        except PreconditionFailedError:
            logger.info("another writer changed %s; attempt %d", REPO_PATH, attempt + 2)
            time.sleep(_pause(attempt, time.monotonic() - started))
            continue
        except StorageError as error:
            _check_landed(storage, tried, error)
        logger.info("wrote %s, with a backup in %s", REPO_PATH, path)
        return tried
    raise ConflictError(
        f"the repository was changed by others {MAX_ATTEMPTS} times in a row",
        hint="nothing was changed; try again when fewer writers are at work",
    )


@contextmanager
def _newest_checked(
    storage: Storage, info: RepoInfo, abandoned: Set[str], own: str
) -> Iterator[None]:
    """`check_newest`: before the block, or beside it where a request takes long."""
    if not storage.is_object_store:
        check_newest(storage, info, abandoned)
        yield
        return
    with ThreadPoolExecutor(1) as thread:
        checking = thread.submit(check_newest, storage, info, abandoned | {own})
        yield
        checking.result()


def with_updates(
    info: RepoInfo, update_types: Sequence[UpdateType], now: int, backup: str
) -> RepoInfo:
    """`info` with new entries (oldest first) in its ops log, by the rules of `latest_updates`.

    The entry that was the newest receives the name of the backup: the state it produced. What
    overflows stays reachable through `repo_before_updates`, except entries without a backup
    (of a migration), which stay in the file. An edit that emptied the log leaves all of it to
    the backup.
    """
    if not info.latest_updates:
        updates = [*_entries(update_types, now)]
        return replace(info, latest_updates=tuple(updates), repo_before_updates=backup)
    limit = _num_updates_per_file(info)
    newest, *older = info.latest_updates
    check_not_ahead(newest.updated_at, now)
    updates = [
        *_entries(update_types, max(now, newest.updated_at + 1)),
        replace(newest, backup_path=backup),
        *older,
    ]
    for index in range(limit, len(updates)):
        overflow = updates[index].backup_path
        if overflow is not None:
            return replace(
                info, latest_updates=tuple(updates[:index]), repo_before_updates=overflow
            )
    return replace(info, latest_updates=tuple(updates))


def _entries(update_types: Sequence[UpdateType], now: int) -> Iterator[Update]:
    """Newest first; readers refuse an entry that is not newer than the one below it."""
    for number in range(len(update_types) - 1, -1, -1):
        yield Update(update_types[number], now + number)


def put_back(storage: Storage, data: bytes, found: VersionedBytes | None, aside: str) -> None:
    """Replace a `repo` that is damaged or older than its backups by the bytes of a backup.

    The bytes that were found are copied to `aside`; None: the file is missing. `ConflictError` if
    another writer changed it since.
    """
    storage.ensure_conditional_writes()
    try:
        if found is None:
            storage.ensure_conditional_creates()
            storage.put_if_absent(REPO_PATH, data)
        else:
            storage.put_if_absent(aside, found.data)
            storage.put_if_match(REPO_PATH, data, found.version)
    except PreconditionFailedError:
        raise ConflictError(
            f"{REPO_PATH} was changed by somebody else meanwhile, and is left as it is"
        ) from None


def check_not_ahead(updated_at: int, now: int) -> None:
    """`RefusedError` for a newest operation in the future, which another one would have to follow.

    A few minutes are the difference of two clocks, and pass.
    """
    if is_ahead(updated_at, now):
        ahead = format_duration(updated_at - now)
        raise RefusedError(
            f"the newest operation of the ops log lies {ahead} in the future, so that official "
            "clients refuse to commit, and nothing was changed",
            hint=Remedy("repair-ops-log"),
        )


def check_online(status: RepoStatus) -> None:
    if status.availability == Availability.ONLINE:
        return
    name = _LIMITED.get(
        status.availability, f"in a state ({status.availability}) that this icectl does not know"
    )
    reason = status.limited_availability_reason
    raise RefusedError(
        f"the repository is {name}" + (f": {reason}" if reason else ""),
        hint=Remedy("set-online"),
    )


def _decode(data: bytes) -> RepoInfo:
    try:
        return decode_repo(data)
    except FormatError as error:
        raise error.at(REPO_PATH) from None


def _num_updates_per_file(info: RepoInfo) -> int:
    config = decode_flexbuffers(info.config) if info.config else None
    value = config.get("num_updates_per_repo_info_file") if isinstance(config, dict) else None
    return max(value, 1) if isinstance(value, int) else DEFAULT_NUM_UPDATES_PER_FILE


def _is_in_log(storage: Storage, info: RepoInfo, tried: RepoUpdate) -> bool:
    """Whether `tried` is in the ops log of the state `info`."""
    # Either may be the older one: a repair leaves entries from the future behind.
    oldest_of_interest = min(
        state.latest_updates[0].updated_at for state in (tried.before, tried.after)
    )
    for update in walk_updates(storage, info):
        if isinstance(update, OpsLogBeyondReach):
            raise update.error
        if update.backup_path == tried.backup:
            return True
        if update.updated_at < oldest_of_interest:
            return False
    return False


def _check_landed(storage: Storage, tried: RepoUpdate, error: StorageError) -> None:
    """After a failure that does not say whether the write happened: raise unless it did."""
    try:
        landed = _is_in_log(storage, _decode(storage.read(REPO_PATH)), tried)
    except (StorageError, FormatError):
        error.hint = Remedy("look-at-ops-log")
        raise error from None
    if not landed:
        raise error


def _forget(storage: Storage, backups: Iterable[str]) -> None:
    """Delete copies that no state refers to; they do no harm if that fails."""
    with suppress(StorageError):
        for _ in storage.delete_many(backups):
            pass


def _pause(attempt: int, duration: float) -> float:
    """A jittered pause in proportion to the duration of an attempt, which is the window of a race.

    A few windows keep many of us apart. More would not help against a writer that never pauses:
    each attempt is as likely to win as any other, so that the number of them decides.
    """
    windows = min(2 ** (attempt + 1), MOST_WINDOWS)
    return random.uniform(0, min(LONGEST_PAUSE_SECONDS, duration * windows))
