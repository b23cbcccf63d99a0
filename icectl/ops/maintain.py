"""Maintain one repository: delete old branches, expire, collect garbage, validate.

Each step is the operation of the command with that name and has its safeguards. After a failed step
the later ones that change the repository are skipped. Validation still runs, unless the storage
itself failed: it may show what is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from icectl.errors import (
    ConflictError,
    FormatError,
    ObjectNotFoundError,
    RefNotFoundError,
    RefusedError,
    Remedy,
    UnsupportedError,
)
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    Availability,
    BranchCreatedUpdate,
    BranchResetUpdate,
    RepoInitializedUpdate,
    RepoMigratedUpdate,
)
from icectl.ops.expire.execute import execute_expiration
from icectl.ops.expire.plan import check_tips, plan_for
from icectl.ops.expire.policy import Policy, find_idle_globs, matches
from icectl.ops.expire.report import ExpireResult, build_result
from icectl.ops.gc.report import GcResult, summarize
from icectl.ops.gc.run import GcOptions, collect_garbage, plan_run
from icectl.ops.metrics import FindingMetrics, MaintenanceMetrics
from icectl.ops.validate.report import ValidateResult
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.repository.clock import local_time
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.open import open_repository
from icectl.repository.ops_log import OpsLogBeyondReach, walk_updates
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

Step = Literal["open", "delete_branches", "expire", "gc", "validate"]
LEAVES_VALIDATION = (
    *(FormatError, ObjectNotFoundError, RefusedError),
    *(UnsupportedError, ConflictError),
)
"""Failures after which the repository can still be read."""


class _GcFailedError(Exception):
    """gc, planned before the first change of another step, failed because of `__cause__`."""


@dataclass(frozen=True, slots=True)
class BranchRule:
    match: tuple[str, ...]
    """Globs."""
    older_than: int
    """Delete the branch if its tip was flushed before this; microseconds by the storage's clock."""


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """What to do at one time; a step without options is not part of the maintenance."""

    delete_branches: tuple[BranchRule, ...] = ()
    protect_branches: tuple[str, ...] = ()
    """Globs of branches that no rule deletes."""
    expire: Policy | None = None
    gc: GcOptions | None = None
    validate: ValidateOptions | None = None

    @property
    def changes(self) -> list[Step]:
        """The steps that change the repository, in their order."""
        steps: tuple[tuple[Step, object], ...] = (
            ("delete_branches", self.delete_branches),
            ("expire", self.expire),
            ("gc", self.gc),
        )
        return [step for step, wanted in steps if wanted]


PolicyAt = Callable[[int], MaintenancePolicy]
"""The policy at a time, because ages are relative to the storage's clock."""


@dataclass(frozen=True, slots=True)
class OldBranch:
    name: str
    snapshot_id: SnapshotId
    flushed_at: int


@dataclass(frozen=True, slots=True)
class SkippedStep:
    step: Step
    reason: str


@dataclass(slots=True)
class MaintenanceResult:
    dry_run: bool
    started_at: int = field(default_factory=local_time)
    availability: Availability | int | None = None
    """None if the repository could not be opened, or has no status (spec version 1)."""
    deleted_branches: tuple[OldBranch, ...] = ()
    branches_of_unknown_age: tuple[str, ...] = ()
    """Kept, because the ops log no longer shows whether they were created or reset recently."""
    expire: ExpireResult | None = None
    gc: GcResult | None = None
    validate: ValidateResult | None = None
    validate_level: str | None = None
    skipped_steps: list[SkippedStep] = field(default_factory=list)
    seconds: dict[Step, float] = field(default_factory=dict)
    """The duration of each step that was begun."""
    idle_globs: tuple[tuple[str, str], ...] = ()
    """The key and the glob of each protection that matches nothing, most likely misspelled."""
    failed_step: Step | None = None
    failure: Exception | None = None
    """The first one."""

    is_checked: bool = False
    """Whether gc could plan before the first change."""

    @property
    def is_out_of_time(self) -> bool:
        """Whether something was left to do when the time was over."""
        is_partial = self.failure is None and self.gc is not None and not self.gc.is_complete
        return is_partial or isinstance(self.failure, OutOfTimeError)

    @property
    def is_readable(self) -> bool:
        """Whether nothing failed that would keep other operations from reading the repository."""
        return self.failure is None or isinstance(self.failure, LEAVES_VALIDATION)


@dataclass(frozen=True, slots=True)
class RepositoryMaintenance:
    """What `--json` prints for one repository."""

    name: str
    location: str
    exit_code: int
    """0 if everything that the policy asks for was done, and nothing wrong was found."""
    expire: ExpireResult | None
    gc: GcResult | None
    validate: ValidateResult | None
    error: Mapping[str, Any] | None
    """The first failure as every command reports it, and the `step` that failed."""
    dry_run: bool
    started_at: int
    availability: Availability | int | None
    """None if it is unknown, or the repository has none (spec version 1)."""
    deleted_branches: tuple[OldBranch, ...]
    skipped_steps: tuple[SkippedStep, ...]
    seconds: Mapping[Step, float]
    validate_level: str | None
    """What the policy asks for; a dry run does not validate."""


def report_result(
    name: str, location: str, result: MaintenanceResult, error: Mapping[str, Any] | None
) -> RepositoryMaintenance:
    """The result with its failure as an object."""
    is_incomplete = result.gc is not None and not result.gc.is_complete
    has_findings = result.validate is not None and not result.validate.ok
    return RepositoryMaintenance(
        name=name,
        location=location,
        exit_code=error["exit_code"] if error else 3 if is_incomplete or has_findings else 0,
        expire=result.expire,
        gc=result.gc,
        validate=result.validate,
        error=None if error is None else {"step": result.failed_step, **error},
        dry_run=result.dry_run,
        started_at=result.started_at,
        availability=result.availability,
        deleted_branches=result.deleted_branches,
        skipped_steps=tuple(result.skipped_steps),
        seconds={step: round(seconds, 3) for step, seconds in result.seconds.items()},
        validate_level=result.validate_level,
    )


def summarize_metrics(done: RepositoryMaintenance) -> MaintenanceMetrics:
    """The run in numbers for a monitoring system."""
    gc, found = done.gc, done.validate
    counts = ("snapshots", "transaction_logs", "manifests", "chunks", "backups")
    return MaintenanceMetrics(
        exit_code=done.exit_code,
        last_run_at=done.started_at,
        duration_seconds=dict(done.seconds.items()),
        deleted_objects=(
            None if gc is None else {kind: getattr(gc, f"{kind}_deleted") for kind in counts}
        ),
        deleted_bytes=None if gc is None else gc.bytes_deleted + gc.backup_bytes_deleted,
        failed_objects=None if gc is None else len(gc.failures),
        findings=tuple(
            FindingMetrics(one.code, one.severity, one.count)
            for one in (found.summary if found is not None else ())
        ),
    )


def maintain(
    storage: Storage, policy_at: PolicyAt, progress: Progress, result: MaintenanceResult
) -> None:
    """Do what the policy says, or plan it without validating; failures are part of the result."""
    result.started_at = local_time()
    # The steps do not depend on the time, which is unknown if the storage does not answer.
    policy = policy_at(local_time())
    if policy.validate is not None:
        result.validate_level = policy.validate.level.name.lower()
    closed = ""

    def open_first() -> None:
        nonlocal policy, closed
        repository = open_repository(storage, with_clock=True)
        policy = policy_at(storage.read_clock())
        if repository.info is not None:
            result.availability = _availability(repository.info.status.availability)
            try:
                repository.check_online()
            except RefusedError as error:
                closed = error.message

    _try(result, "open", open_first, progress)
    # What fails in gc must be known before the other steps, which `_check` ensures in a real run.
    steps = policy.changes
    for step in sorted(steps, key=lambda step: step != "gc") if result.dry_run else steps:
        if closed or result.failure is not None:
            if step != result.failed_step:
                result.skipped_steps.append(SkippedStep(step, closed or _after(result)))
        else:
            work = partial(CHANGES[step], storage, policy, result, progress)
            _try(result, step, work, progress)
    if policy.validate is not None and not result.is_readable:
        result.skipped_steps.append(SkippedStep("validate", _after(result)))
    elif policy.validate is not None and not result.dry_run:
        work = partial(_validate, storage, policy.validate, result, progress)
        _try(result, "validate", work, progress)


def _try(
    result: MaintenanceResult, step: Step, work: Callable[[], None], progress: Progress
) -> None:
    began = time.monotonic()
    try:
        if progress.is_over:
            raise OutOfTimeError(
                f"the time limit expired before the step {step}", hint=Remedy("continue-later")
            )
        work()
    except _GcFailedError as error:
        assert isinstance(error.__cause__, Exception)
        result.failed_step, result.failure = "gc", error.__cause__
        result.skipped_steps.append(SkippedStep(step, _after(result)))
    except Exception as error:
        if result.failure is None:
            result.failed_step, result.failure = step, error
    result.seconds[step] = time.monotonic() - began


def _after(result: MaintenanceResult) -> str:
    return f"the step {result.failed_step} failed"


def _availability(number: int) -> Availability | int:
    return Availability(number) if number in set(Availability) else number


def _delete_branches(
    storage: Storage, policy: MaintenancePolicy, result: MaintenanceResult, progress: Progress
) -> None:
    repository = open_repository(storage)
    names = repository.branches()
    result.idle_globs += tuple(
        ("protect_branches", glob)
        for glob in policy.protect_branches
        if not any(matches(name, (glob,)) for name in names)
    )
    found, result.branches_of_unknown_age = find_old_branches(repository, policy)
    if found:
        # What they lead to may be all that is left of the data, as for an expiration.
        check_tips(repository, [branch.name for branch in found], (), progress)
        _check(storage, policy, result, progress)
    if result.dry_run:
        result.deleted_branches = tuple(found)
        return
    for branch in progress.count(found, "deleting branches", len(found), "branches"):
        if progress.is_over:
            raise OutOfTimeError(
                "the time limit expired while branches were being deleted",
                hint=Remedy("continue-later"),
            )
        # A branch that has moved or was deleted meanwhile is no longer old.
        with suppress(ConflictError, RefNotFoundError):
            repository.refs.delete_branch(branch.name, expect=branch.snapshot_id)
            result.deleted_branches += (branch,)


def _check(
    storage: Storage, policy: MaintenancePolicy, result: MaintenanceResult, progress: Progress
) -> None:
    """Plan gc before the first change: what cannot be read must stop all steps, not only gc.

    The versions that `expire` releases may be the last ones that are whole.
    """
    if policy.gc is not None and not result.is_checked and not result.dry_run:
        options = replace(policy.gc, max_delete=None, backups_older_than=None)
        try:
            plan_run(storage, options, progress)
        except Exception as error:
            raise _GcFailedError from error
        result.is_checked = True


def find_old_branches(
    repository: Repository, policy: MaintenancePolicy
) -> tuple[list[OldBranch], tuple[str, ...]]:
    """The branches that a rule deletes: those whose tip is old, and that were not set recently.

    A branch that somebody has just created at an old commit is in use. Spec version 1 does not
    record when a branch was created, so there the tip alone decides. Also returns the names of
    branches that are kept because the ops log does not show when they were set: it was cut, or the
    repository was upgraded recently.
    """
    cutoffs: dict[str, int] = {}
    found = []
    for name, tip in sorted(repository.branches().items()):
        rules = [rule for rule in policy.delete_branches if matches(name, rule.match)]
        if not rules or name == DEFAULT_BRANCH or matches(name, policy.protect_branches):
            continue
        cutoffs[name] = max(rule.older_than for rule in rules)
        flushed_at = repository.snapshot_info(tip).flushed_at
        if flushed_at < cutoffs[name]:
            found.append(OldBranch(name, tip, flushed_at))
    if not found:
        return [], ()
    set_at, known_since = _times_set(repository, min(cutoffs[branch.name] for branch in found))
    old = [
        branch for branch in found if set_at.get(branch.name, known_since) < cutoffs[branch.name]
    ]
    unknown = {branch.name for branch in found if branch not in old} - set_at.keys()
    return old, tuple(sorted(unknown))


def _times_set(repository: Repository, since: int) -> tuple[Mapping[str, int], int]:
    """When branches were last created or reset, and the time after which all of that is known.

    The log is read back to `since`, and may end before it.
    """
    times: dict[str, int] = {}
    if repository.info is None:
        return times, 0
    known_since = sys.maxsize
    for update in walk_updates(repository.storage, repository.info):
        if isinstance(update, OpsLogBeyondReach):
            break
        known_since = update.updated_at
        change = update.update_type
        if known_since < since:
            break
        if isinstance(change, RepoInitializedUpdate):
            return times, 0
        if isinstance(change, RepoMigratedUpdate):
            break  # spec version 1 did not record when a branch was created
        if isinstance(change, BranchCreatedUpdate | BranchResetUpdate):
            times.setdefault(change.name, known_since)
    return times, known_since


def _expire(
    storage: Storage, policy: MaintenancePolicy, result: MaintenanceResult, progress: Progress
) -> None:
    assert policy.expire is not None
    repository = open_repository(storage, for_update=not result.dry_run)
    if result.dry_run:
        repository = _without(repository, result.deleted_branches)
    planned = plan_for(repository, policy.expire, progress)
    result.idle_globs += tuple(
        find_idle_globs(policy.expire, planned.history.branches, planned.history.tags)
    )
    if not planned.plan.is_empty:
        _check(storage, policy, result, progress)
    if result.dry_run or planned.plan.is_empty:
        repository.check_newest()
    else:
        planned = execute_expiration(repository, policy.expire, planned, progress)
    result.expire = build_result(repository, planned, dry_run=result.dry_run, progress=progress)


def _without(repository: Repository, branches: Iterable[OldBranch]) -> Repository:
    """The repository as if the branches were deleted, to plan what happens then."""
    deleted = {branch.name for branch in branches}
    tips = {name: tip for name, tip in repository.branches().items() if name not in deleted}
    return replace(repository, branch_tips=tips)


def _collect(
    storage: Storage, policy: MaintenancePolicy, result: MaintenanceResult, progress: Progress
) -> None:
    assert policy.gc is not None
    deleted = None
    if result.dry_run:
        run = plan_run(storage, policy.gc, progress)
    else:
        run, deleted = collect_garbage(storage, policy.gc, lambda _run: None, progress)
    result.gc = summarize(run, policy.gc.only, storage.read_clock(), deleted)


def _validate(
    storage: Storage, options: ValidateOptions, result: MaintenanceResult, progress: Progress
) -> None:
    try:
        result.validate, _ = validate(storage, options, progress)
    except OutOfTimeError:
        raise OutOfTimeError(
            "the time limit expired before the validation was finished",
            hint=Remedy("continue-later"),
        ) from None


CHANGES: Mapping[
    Step, Callable[[Storage, MaintenancePolicy, MaintenanceResult, Progress], None]
] = {"delete_branches": _delete_branches, "expire": _expire, "gc": _collect}
