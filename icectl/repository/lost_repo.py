"""What is left where `repo` is missing or unreadable: the backups that a user can go back to."""

from __future__ import annotations

from datetime import UTC, datetime

from icectl.errors import Remedy, StorageError
from icectl.repository.backups import list_backups
from icectl.repository.ops_log import REPO_PATH, backup_object
from icectl.storage.contract import Storage

_COPY_COMMANDS = {"s3": "aws s3 cp", "gs": "gcloud storage cp"}


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
            "copy": _COPY_COMMANDS.get(storage.location.partition("://")[0], "cp"),
            "backup": f"{storage.location}/{backup_object(newest)}",
            "repo": f"{storage.location}/{REPO_PATH}",
        },
    )
