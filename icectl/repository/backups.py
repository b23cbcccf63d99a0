"""The copies of `repo` in `overwritten/`: what their names tell, and whether one is newer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Set

from icectl.errors import FormatError, ObjectNotFoundError, Remedy, StorageError, UnsupportedError
from icectl.format.repo import decode_repo_refs
from icectl.model.ids import encode_base32
from icectl.model.repo import RepoInfo, Update
from icectl.repository.ops_log import BACKUPS, REPO_PATH, backup_object, read_repo, walk_updates
from icectl.storage.contract import WHOLE_DIRECTORY, ListingShard, Storage

YEAR_3000_MILLISECONDS = 32_503_680_000_000
"""Copies are named by the time left until then, so that the newest lists first."""
CLOCKS_DIFFER_MILLISECONDS = 2 * 600 * 1000
"""Official writers refuse to commit when their clock is 600 s off the storage's."""
_NAME = re.compile(rf"{REPO_PATH}\.(\d+)\.[0-9A-HJKMNP-TV-Z]{{20}}")


def backup_name(now: int, of: str = REPO_PATH) -> str:
    """The name of a copy that is made now, in microseconds."""
    return f"{of}.{YEAR_3000_MILLISECONDS - now // 1000}.{encode_base32(os.urandom(12))}"


def made_at(name: str) -> int | None:
    """When the copy of `repo` was made, in milliseconds; None for any other name."""
    found = _NAME.fullmatch(name)
    return None if found is None else YEAR_3000_MILLISECONDS - int(found[1])


def list_backups(storage: Storage, shard: ListingShard = WHOLE_DIRECTORY) -> dict[str, int]:
    """The names of all copies of `repo`, and when each was made."""
    listed = storage.list(BACKUPS, with_info=False, shard=shard)
    return times_of(info.path for info in listed)


def times_of(paths: Iterable[str]) -> dict[str, int]:
    """The names of the copies of `repo` among these objects, and when each was made."""
    names = (path.removeprefix(f"{BACKUPS}/") for path in paths)
    return {name: made for name in names if (made := made_at(name)) is not None}


def is_cleared(name: str, backups: Mapping[str, int]) -> bool:
    """Whether this copy is gone, and every other one as old: by age, that is, not by damage."""
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
) -> None:
    """`FormatError` when a copy is newer than `repo` itself: somebody put an old one back.

    Reads only copies that the ops log does not name: those made since the newest update, which
    writers make right now or gave up, and the last one before. With `needs_all`, one of them
    that cannot be read is an error as well. Those `ignored`, by path, do not count.
    """
    newest = info.latest_updates[0].updated_at if info.latest_updates else 0
    # The newest list first, and there may be very many others.
    since = YEAR_3000_MILLISECONDS - newest // 1000 + CLOCKS_DIFFER_MILLISECONDS
    copies = list_backups(storage, ListingShard(through=f"{REPO_PATH}.{since}"))
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
            copied = decode_repo_refs(data).newest
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
    # A repaired log begins with an entry that is older than those in the copies it goes on in.
    chain = {
        backup_object(update.backup_path)
        for update in walk_updates(storage, info)
        if isinstance(update, Update) and update.backup_path is not None
    }
    updated_at, path = max((found for found in newer if found[1] not in chain), default=(0, ""))
    # Others may have gone on since `repo` was read.
    if path and _is_older(storage, updated_at):
        raise FormatError(
            f"it is older than its own copy {path}: a change would bury what was committed since",
            path=REPO_PATH,
            hint=Remedy("return-or-accept-older-repo", {"path": path, "repo": REPO_PATH}),
        )


def _is_older(storage: Storage, updated_at: int) -> bool:
    updates = read_repo(storage).latest_updates
    return not updates or updates[0].updated_at < updated_at
