"""The copies of `repo` in `overwritten/`: what their names tell, and whether one is newer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.model.ids import encode_base32
from icectl.model.repo import RepoInfo
from icectl.repository.ops_log import REPO_PATH, backup_object, read_repo
from icectl.storage.contract import Storage

YEAR_3000_MILLISECONDS = 32_503_680_000_000
"""Copies are named by the time left until then, so that the newest lists first."""
_NAME = re.compile(rf"{REPO_PATH}\.(\d+)\.[0-9A-HJKMNP-TV-Z]{{20}}")


def backup_name(now: int, of: str = REPO_PATH) -> str:
    """The name of a copy that is made now, in microseconds."""
    return f"{of}.{YEAR_3000_MILLISECONDS - now // 1000}.{encode_base32(os.urandom(12))}"


def made_at(name: str) -> int | None:
    """When the copy of `repo` was made, in milliseconds; None for any other name."""
    found = _NAME.fullmatch(name)
    return None if found is None else YEAR_3000_MILLISECONDS - int(found[1])


def find_newer_backup(storage: Storage, info: RepoInfo, names: Iterable[str]) -> str | None:
    """The path of a copy whose state is newer than `repo` itself: an old one was put back."""
    newest = info.latest_updates[0].updated_at if info.latest_updates else 0
    made, name = max(((made_at(name) or 0, name) for name in names), default=(0, ""))
    if made <= newest // 1000:
        return None
    path = backup_object(name)
    try:
        copied = read_repo(storage, path).latest_updates
    except (FormatError, ObjectNotFoundError):
        return None  # nobody needs it yet
    # Others may have gone on since `repo` was read.
    now = read_repo(storage).latest_updates
    return path if copied and now and copied[0].updated_at > now[0].updated_at else None
