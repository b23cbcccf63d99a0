"""The copies of `repo` in `overwritten/`: what their names tell, and whether one is newer."""

from __future__ import annotations

import os
import re
from collections.abc import Set

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.model.ids import encode_base32
from icectl.model.repo import RepoInfo, Update
from icectl.repository.ops_log import (
    BACKUPS,
    REPO_PATH,
    backup_object,
    read_repo,
    walk_updates,
)
from icectl.storage.contract import WHOLE_DIRECTORY, ListingShard, Storage

YEAR_3000_MILLISECONDS = 32_503_680_000_000
"""Copies are named by the time left until then, so that the newest lists first."""
CLOCKS_DIFFER_MILLISECONDS = 24 * 3600 * 1000
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
    names = (info.path.removeprefix(f"{BACKUPS}/") for info in listed)
    return {name: made for name in names if (made := made_at(name)) is not None}


def check_newest(storage: Storage, info: RepoInfo, known_missing: Set[str] = frozenset()) -> None:
    """`FormatError` when a copy is newer than `repo` itself: somebody put an old one back."""
    newest = info.latest_updates[0].updated_at if info.latest_updates else 0
    # The newest list first, and there may be very many others.
    since = YEAR_3000_MILLISECONDS - newest // 1000 + CLOCKS_DIFFER_MILLISECONDS
    copies = list_backups(storage, ListingShard(through=f"{REPO_PATH}.{since}"))
    ordered = sorted(copies, key=copies.__getitem__, reverse=True)
    # Those that a writer makes right now, or made and gave up; else the last one.
    younger = [name for name in ordered if copies[name] > newest // 1000]
    for name in younger or ordered[:1]:
        path = backup_object(name)
        if path in known_missing:
            continue
        try:
            copied = read_repo(storage, path).latest_updates
        except ObjectNotFoundError:
            continue
        except FormatError as error:
            if name not in younger:
                continue
            raise FormatError(
                f"this copy is newer than {REPO_PATH}, and cannot be read: {error.reason}",
                path=path,
                hint="so nobody can tell whether an older repo file was put back; when "
                "`icectl ops-log` shows all that should be there, name it with --known-missing",
            ) from None
        if not copied or copied[0].updated_at <= newest or _is_in_log(storage, info, name):
            continue
        # Others may have gone on since `repo` was read.
        if _is_older(storage, copied[0].updated_at):
            raise FormatError(
                f"it is older than its own copy {path}: what was committed since would go",
                path=REPO_PATH,
                hint="find out who put it there; the newest copy is the state before the last "
                "change, and lacks what that change committed. When this state is meant to stay, "
                "make it the newest with any change, such as a tag",
            )


def _is_in_log(storage: Storage, info: RepoInfo, name: str) -> bool:
    """Whether the ops log names the copy: an operation before the newest one had a later time."""
    return any(
        isinstance(update, Update) and update.backup_path == name
        for update in walk_updates(storage, info)
    )


def _is_older(storage: Storage, updated_at: int) -> bool:
    updates = read_repo(storage).latest_updates
    return not updates or updates[0].updated_at < updated_at
