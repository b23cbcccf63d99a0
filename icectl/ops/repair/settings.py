"""Settings and operations that keep official clients from safe writes."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.checks import rules
from icectl.model.repo import MetadataChangedUpdate, RepoInfo
from icectl.ops.config_keys import find_lost_conditions, set_key
from icectl.ops.repair.step import Step, repo_step
from icectl.repository.clock import is_ahead
from icectl.repository.config import config_object, read_config, update_config
from icectl.repository.edits import Edited, leave_log_behind
from icectl.repository.open import open_repository
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository


def plan_settings(repository: Repository, now: int) -> Iterator[Step]:
    """Needs no file but the one that was opened; `now` is the storage's time."""
    # Nothing else is written while the ops log is locked.
    yield from _plan_ops_log(repository, now)
    yield from _plan_conditions(repository)


def _plan_ops_log(repository: Repository, now: int) -> Iterator[Step]:
    """Leave entries from the future behind, in the backup that the new newest entry follows.

    They keep their times there: no entry of the log and no backup is rewritten, so the provenance
    of every state can still be checked.
    """

    def is_locked(info: RepoInfo) -> bool:
        return bool(info.latest_updates) and is_ahead(info.latest_updates[0].updated_at, now)

    def edit(info: RepoInfo) -> Edited:
        return leave_log_behind(info) if is_locked(info) else (info, MetadataChangedUpdate())

    if repository.info is not None and is_locked(repository.info):
        yield repo_step(
            "restart_ops_log",
            "add a current entry to the ops log",
            edit,
            mends=[(rules.FUTURE_TIME.code, REPO_PATH)],
            # Setting the status is an operation too, and is refused until this one is done.
            whatever_status=True,
        )


def _plan_conditions(repository: Repository) -> Iterator[Step]:
    def find(config: dict[str, object]) -> list[str]:
        return find_lost_conditions(config, repository.storage)

    def reset(config: dict[str, object]) -> dict[str, object]:
        for key in find(config):
            config = set_key(config, key, None)
        return config

    if find(read_config(repository)):
        object_ = config_object(repository)
        yield Step(
            "reset_storage_settings",
            object_,
            "enable the conditional writes of official clients",
            lambda storage: update_config(open_repository(storage), reset),
            mends=frozenset({(rules.CONDITIONS_OFF.code, object_)}),
        )
