"""The backups of `repo` in `overwritten/`: their names, and whether one is newer than `repo`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Set
from datetime import UTC, datetime

from icectl.errors import FormatError, ObjectNotFoundError, Remedy, StorageError, UnsupportedError
from icectl.format.repo import RepoFile
from icectl.model.ids import encode_base32
from icectl.model.repo import RepoInfo, Update
from icectl.repository.layout import CONFIG_PATH
from icectl.repository.ops_log import BACKUPS, REPO_PATH, backup_object, read_repo, walk_updates
from icectl.storage.contract import WHOLE_DIRECTORY, ListingShard, Storage

YEAR_3000_MILLISECONDS = 32_503_680_000_000
"""Backups are named by the time left until then, so the newest is listed first."""
CLOCKS_DIFFER_MILLISECONDS = 2 * 600 * 1000
"""Official writers refuse to commit when their clock is 600 s off the storage's."""
_NAME = re.compile(rf"({REPO_PATH}|{re.escape(CONFIG_PATH)})\.(\d+)\.[0-9A-HJKMNP-TV-Z]{{20}}")


def backup_name(now: int, of: str = REPO_PATH) -> str:
    """The name of a backup made at this time, in microseconds."""
    return f"{of}.{YEAR_3000_MILLISECONDS - now // 1000}.{encode_base32(os.urandom(12))}"


def is_backup(name: str) -> bool:
    """Whether it is the name of a backup: of `repo`, or of the configuration of V1."""
    return _NAME.fullmatch(name) is not None


def made_at(name: str) -> int | None:
    """When the backup of `repo` was made, in milliseconds; None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None or found[1] != REPO_PATH:
        return None
    return YEAR_3000_MILLISECONDS - int(found[2])


def list_backups(storage: Storage, shard: ListingShard = WHOLE_DIRECTORY) -> dict[str, int]:
    """The names of all backups of `repo`, and when each was made."""
    listed = storage.list(BACKUPS, with_info=False, shard=shard)
    return times_of(info.path for info in listed)


def times_of(paths: Iterable[str]) -> dict[str, int]:
    """The names of the backups of `repo` among these objects, and when each was made."""
    names = (path.removeprefix(f"{BACKUPS}/") for path in paths)
    return {name: made for name in names if (made := made_at(name)) is not None}


def is_cleared(name: str, backups: Mapping[str, int]) -> bool:
    """Whether this backup and all older ones are gone: removed by age, not lost by damage."""
    made = made_at(name)
    if made is None or name in backups:
        return False
    return all(made <= other for other in backups.values())


def check_newest(
    storage: Storage,
    info: RepoInfo,
    ignored: Set[str] = frozenset(),
    *,
    needs_all: bool = False,
    backups: Mapping[str, int] | None = None,
) -> None:
    """`FormatError` if a backup is newer than `repo` itself: somebody put an old `repo` back.

    Reads only backups that the ops log does not name: those made since the newest update, by
    writers that are at work or gave up, and the last one before. With `needs_all`, an unreadable
    one of them is an error as well. Those `ignored`, by path, do not count. `backups` are all that
    exist, if they were listed already.
    """
    newest = info.latest_updates[0].updated_at if info.latest_updates else 0
    # The newest are listed first, and there may be very many others.
    since = YEAR_3000_MILLISECONDS - newest // 1000 + CLOCKS_DIFFER_MILLISECONDS
    shard = ListingShard(through=f"{REPO_PATH}.{since}")
    if backups is None:
        copies = list_backups(storage, shard)
    else:
        copies = {name: made for name, made in backups.items() if name in shard}
    named = {update.backup_path for update in info.latest_updates}
    unnamed = sorted(copies.keys() - named, key=copies.__getitem__, reverse=True)
    younger = [name for name in unnamed if copies[name] > newest // 1000]
    paths = [backup_object(name) for name in unnamed[: len(younger) + 1]]
    newer: list[tuple[int, str]] = []
    for path, data in storage.read_many(path for path in paths if path not in ignored):
        if isinstance(data, ObjectNotFoundError):
            continue
        if isinstance(data, StorageError):
            raise data
        try:
            copied = RepoFile(data).newest_update
        except (FormatError, UnsupportedError) as error:
            if not needs_all or path not in paths[: len(younger)]:
                continue
            raise FormatError(
                f"this copy is newer than {REPO_PATH}, and cannot be read: "
                + getattr(error, "reason", error.message),
                path=path,
                hint=Remedy("check-ops-log-or-known-missing"),
            ) from None
        if copied is not None and copied.updated_at > newest:
            newer.append((copied.updated_at, path))
    if not newer:
        return
    # A repaired log begins with an entry that is older than those in the backups it continues in.
    chain = {
        backup_object(update.backup_path)
        for update in walk_updates(storage, info)
        if isinstance(update, Update) and update.backup_path is not None
    }
    updated_at, path = max((found for found in newer if found[1] not in chain), default=(0, ""))
    # Others may have written since `repo` was read.
    if path and _is_older(storage, updated_at):
        raise FormatError(
            f"it is older than its own copy {path}: a change would bury what was committed since",
            path=REPO_PATH,
            hint=Remedy("return-or-accept-older-repo"),
        )


def _is_older(storage: Storage, updated_at: int) -> bool:
    updates = read_repo(storage).latest_updates
    return not updates or updates[0].updated_at < updated_at


def describe_backups(storage: Storage) -> Remedy | None:
    """How many backups of `repo` there are, and how to use the newest; None without any."""
    try:
        made_at = list_backups(storage)
    except StorageError:
        return None
    if not made_at:
        return None
    newest = max(made_at, key=made_at.__getitem__)
    moment = datetime.fromtimestamp(made_at[newest] // 1000, UTC)
    return Remedy(
        "restore-backup",
        {
            "backups": f"are {len(made_at):,} backups" if len(made_at) > 1 else "is 1 backup",
            "name": REPO_PATH,
            "moment": f"{moment:%Y-%m-%d %H:%M:%S}Z",
        },
    )
