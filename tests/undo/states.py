"""States of a repository apart from its ops log, and the undo of an operation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from icectl.model.repo import RepoInfo
from icectl.ops.undo.run import UndoOptions, UndoResult, execute_undo, plan_undo
from icectl.pipeline.progress import Progress
from icectl.repository.open import open_repository
from icectl.storage.contract import Storage
from tests.official import Where, ic, open_official

LEFT_OUT = ("header", "latest_updates", "repo_before_updates")
"""The writer of the file, and its log."""


def official_state(where: Where) -> dict[str, Any]:
    """`inspect_repo_info` without the log, and what it leaves out."""
    repo = open_official(where)
    info = {key: value for key, value in repo.inspect_repo_info().items() if key not in LEFT_OUT}
    status = repo.get_status()
    return {
        **info,
        "ancestry": {
            one["id"]: [ancestor.id for ancestor in repo.ancestry(snapshot_id=one["id"])]
            for one in info["snapshots"]
        },
        "metadata": repo.get_metadata(),
        "flags": [(flag.id, flag.setting, flag.enabled) for flag in repo.feature_flags()],
        "status": (str(status.availability), status.set_at, status.limited_availability_reason),
        "config": str(ic.Repository.fetch_config(repo.storage)),
    }


def own_state(info: RepoInfo) -> RepoInfo:
    """The repo file without the log; an absent list is an empty one."""
    return replace(
        info,
        latest_updates=(),
        repo_before_updates=None,
        metadata=info.metadata or None,
        enabled_feature_flags=info.enabled_feature_flags or None,
        disabled_feature_flags=info.disabled_feature_flags or None,
        snapshots=tuple(
            replace(one, pruned_ancestor_tx_logs=one.pruned_ancestor_tx_logs or None, metadata=None)
            for one in info.snapshots
        ),
    )


def undo(storage: Storage, name: str | None = None) -> UndoResult:
    repository = open_repository(storage)
    plan = plan_undo(repository, name, int, UndoOptions(), Progress())
    return execute_undo(repository, plan, UndoOptions(), Progress())
