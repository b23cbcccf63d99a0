"""What is left where `repo` is missing or unreadable: the backups that a user can go back to."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from icectl.errors import StorageError
from icectl.repository.backups import list_backups
from icectl.repository.ops_log import REPO_PATH, backup_object
from icectl.storage.contract import Storage

_COPY_COMMANDS = {"s3": "aws s3 cp", "gs": "gcloud storage cp"}


def describe_backups(storage: Storage) -> str | None:
    """How many backups of `repo` there are, and how to use the newest; None without any."""
    try:
        made_at = list_backups(storage)
    except StorageError:
        return None
    if not made_at:
        return None
    newest = max(made_at, key=made_at.__getitem__)
    moment = datetime.fromtimestamp(made_at[newest] // 1000, UTC)
    count = f"{len(made_at):,} backups" if len(made_at) > 1 else "1 backup"
    backup, repo = (
        shlex.quote(f"{storage.location}/{path}") for path in (backup_object(newest), REPO_PATH)
    )
    copy = _COPY_COMMANDS.get(storage.location.partition("://")[0], "cp")
    return (
        f"there {'are' if len(made_at) > 1 else 'is'} {count} of `{REPO_PATH}`, the newest from "
        f"{moment:%Y-%m-%d %H:%M:%S}Z: the state before the last change, which it lacks. Inspect "
        f"it with `icectl inspect-file {backup}`; to go back to it while nobody writes: "
        f"`{copy} {backup} {repo}`"
    )
