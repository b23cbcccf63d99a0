"""Gather what `icectl report` shows: the results of the commands that its page draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icectl.checks.rules import Level
from icectl.ops.expire.plan import plan_for
from icectl.ops.expire.policy import Policy
from icectl.ops.expire.report import ExpireResult
from icectl.ops.expire.report import build_result as build_expire_result
from icectl.ops.gc.report import GcResult, summarize
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.ops.log import LogOptions, read_whole_log
from icectl.ops.ops_log import (
    ListedOperation,
    OpsLogBeyondReach,
    OpsLogOptions,
    read_filtered_ops_log,
)
from icectl.ops.settings import StatusReport, read_status
from icectl.ops.stats.result import StatsResult
from icectl.ops.stats.run import StatsOptions, measure
from icectl.ops.validate.report import ValidateResult
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.commits import Commit
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class ReportOptions:
    now: int
    """By the storage's clock."""
    policy: Policy | None = None
    """Show what expire under this policy would release."""
    gc_cutoff: int | None = None
    """Show what gc of objects older than this would delete."""
    level: Level | None = None
    """Validate at this level."""
    state: str = REPO_PATH
    """The object with the state that is validated."""


@dataclass(frozen=True, slots=True)
class Report:
    status: StatusReport
    stats: StatsResult
    commits: Sequence[Commit]
    """Every snapshot of the repository, newest first, with the counts of its changes."""
    operations: Sequence[ListedOperation] | None
    """Newest first; None before spec version 2."""
    operations_end: OpsLogBeyondReach | None
    expiration: ExpireResult | None
    """Of a dry run; None: not requested. The same holds for the next fields."""
    garbage: GcResult | None
    validation: ValidateResult | None


def gather(repository: Repository, options: ReportOptions, progress: Progress) -> Report:
    """Run the commands without changing anything; what one of them cannot read is an error."""
    stats = measure(
        repository,
        StatsOptions(
            by_branch=True, by_tag=True, by_snapshot=True, by_growth=True, policy=options.policy
        ),
        progress,
    )
    operations, end = _read_operations(repository, progress)
    return Report(
        status=read_status(repository),
        stats=stats,
        commits=[*read_whole_log(repository, LogOptions(with_changes=True))],
        operations=operations,
        operations_end=end,
        expiration=_plan_expiration(repository, options, progress),
        garbage=_plan_garbage(repository, options, progress),
        validation=_validate(repository, options, progress),
    )


def _read_operations(
    repository: Repository, progress: Progress
) -> tuple[list[ListedOperation] | None, OpsLogBeyondReach | None]:
    if repository.info is None:
        return None, None
    operations, end = [], None
    for entry in read_filtered_ops_log(repository, OpsLogOptions(), progress):
        if isinstance(entry, OpsLogBeyondReach):
            end = entry
        else:
            operations.append(entry)
    return operations, end


def _plan_expiration(
    repository: Repository, options: ReportOptions, progress: Progress
) -> ExpireResult | None:
    if options.policy is None:
        return None
    repository.check_newest()
    planned = plan_for(repository, options.policy, progress)
    return build_expire_result(repository, planned, dry_run=True, progress=progress)


def _plan_garbage(
    repository: Repository, options: ReportOptions, progress: Progress
) -> GcResult | None:
    if options.gc_cutoff is None:
        return None
    planned = plan_run(repository.storage, GcOptions(cutoff=options.gc_cutoff), progress)
    return summarize(planned, frozenset(ObjectKind), options.now, None)


def _validate(
    repository: Repository, options: ReportOptions, progress: Progress
) -> ValidateResult | None:
    if options.level is None:
        return None
    checks = ValidateOptions(level=options.level, now=options.now, state=options.state)
    return validate(repository.storage, checks, progress)[0]
