"""Repair a repository: plan the steps, execute them, and report the problems that are left.

Each step repairs what one rule of `validate` finds in one object. To add a kind of step, write a
planner and add it to `PLANNERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from icectl.checks import rules
from icectl.checks.rules import Level, Rule
from icectl.model.repo import MetadataChangedUpdate, RepoInfo
from icectl.ops.config_keys import find_lost_conditions, set_key
from icectl.ops.validate.result import Finding
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.repository.clock import is_ahead
from icectl.repository.config import config_object, read_config, update_config
from icectl.repository.edits import Edited, leave_log_behind
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository
from icectl.repository.update import RepoUpdate, update_repo
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Step:
    """One repair."""

    action: str
    """A stable name."""
    object: str
    summary: str
    """An imperative."""
    rule: Rule
    """The rule by which `validate` finds the problem in `object` until it is repaired."""
    apply: Callable[[Repository], RepoUpdate | None]
    loses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    action: str
    object: str
    summary: str
    loses: tuple[str, ...]
    done: bool


@dataclass(frozen=True, slots=True)
class RepairResult:
    dry_run: bool
    steps: tuple[StepResult, ...]
    left: tuple[Finding, ...]
    """Errors and warnings of the level `refs` that no step repairs."""


def plan_repair(repository: Repository, now: int) -> list[Step]:
    """The steps that are needed; `now` is the storage's time."""
    repository.check_writable()
    return [step for planner in PLANNERS for step in planner(repository, now)]


def execute_repair(repository: Repository, steps: Sequence[Step], *, dry_run: bool) -> RepairResult:
    if not dry_run:
        for step in steps:
            step.apply(repository)
    planned = {(step.rule.code, step.object) for step in steps} if dry_run else set()
    return RepairResult(
        dry_run,
        tuple(
            StepResult(step.action, step.object, step.summary, step.loses, not dry_run)
            for step in steps
        ),
        tuple(
            finding
            for finding in _find_faults(repository.storage)
            if (finding.code, finding.object) not in planned
        ),
    )


def _find_faults(storage: Storage) -> Iterator[Finding]:
    result, _ = validate(storage, ValidateOptions(level=Level.REFS))
    return (finding for finding in result.findings if finding.severity != "info")


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
        yield Step(
            "restart_ops_log",
            REPO_PATH,
            "add a current entry to the ops log",
            rules.FUTURE_TIME,
            # Setting the status is an operation too, and is refused until this one is done.
            lambda repository: update_repo(repository.storage, edit, whatever_status=True),
        )


def _plan_conditions(repository: Repository, _now: int) -> Iterator[Step]:
    def find(config: dict[str, object]) -> list[str]:
        return find_lost_conditions(config, repository.storage)

    def reset(config: dict[str, object]) -> dict[str, object]:
        for key in find(config):
            config = set_key(config, key, None)
        return config

    if find(read_config(repository)):
        yield Step(
            "reset_storage_settings",
            config_object(repository),
            "enable the conditional writes of official clients",
            rules.CONDITIONS_OFF,
            lambda repository: update_config(repository, reset),
        )


PLANNERS: tuple[Callable[[Repository, int], Iterator[Step]], ...] = (
    _plan_ops_log,
    _plan_conditions,
)
"""In the order of execution: nothing else is written while the ops log is locked."""
