"""Plan a repair, execute it, and report what is left."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.checks.rules import Level
from icectl.errors import FormatError, RefusedError, RepositoryNotFoundError
from icectl.model.ids import SnapshotId
from icectl.ops.repair.history import (
    plan_branches,
    plan_branches_v1,
    plan_first_snapshot,
    plan_release,
    plan_tags,
    plan_versions,
)
from icectl.ops.repair.logs import plan_logs
from icectl.ops.repair.references import plan_references
from icectl.ops.repair.repo_file import Backup, plan_repo_file, plan_settings
from icectl.ops.repair.steps import LostArray, Step, Survey, key_of
from icectl.ops.validate.refs import check_ops_log, check_refs, read_history
from icectl.ops.validate.report import CheckedCounts, Finding, Report, build_result
from icectl.pipeline.progress import Progress
from icectl.repository.history import History
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class RepairOptions:
    level: Level = Level.CHUNKS
    chosen: frozenset[str] = frozenset()
    """Actions of `NamedStep` that are to be executed."""


@dataclass(frozen=True, slots=True)
class StepResult:
    action: str
    object: str
    summary: str
    loses: tuple[str, ...]
    done: bool
    by_name: bool
    """Whether it has to be asked for by name."""
    chosen: bool
    """Whether it is executed, unless nothing is."""
    arrays: tuple[LostArray, ...] = ()


@dataclass(frozen=True, slots=True)
class RepairResult:
    dry_run: bool
    steps: tuple[StepResult, ...]
    left: tuple[Finding, ...]
    """Errors and warnings that no executed step repairs."""
    backups: tuple[Backup, ...] = ()
    """If the repo file is replaced: the newest backups."""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class RepairPlan:
    options: RepairOptions
    steps: list[Step] = field(default_factory=list)
    left: tuple[Finding, ...] = ()
    backups: tuple[Backup, ...] = ()
    notes: list[str] = field(default_factory=list)

    def is_chosen(self, step: Step) -> bool:
        return not step.by_name or step.action in self.options.chosen

    @property
    def chosen(self) -> list[Step]:
        """The steps that are executed."""
        return [step for step in self.steps if self.is_chosen(step)]

    def result(self, *, dry_run: bool, left: Iterable[Finding]) -> RepairResult:
        return RepairResult(
            dry_run,
            tuple(
                StepResult(
                    step.action,
                    step.object,
                    step.summary,
                    step.loses,
                    not dry_run and self.is_chosen(step),
                    step.by_name,
                    self.is_chosen(step),
                    step.arrays,
                )
                for step in self.steps
            ),
            tuple(left),
            self.backups,
            tuple(self.notes),
        )


def plan_repair(
    storage: Storage, options: RepairOptions, now: int, progress: Progress | None = None
) -> RepairPlan:
    """The steps for what `validate` finds; each planner sees the state after the steps before.

    `now` is the storage's time.
    """
    plan = RepairPlan(options)
    report, repository = _check_refs(storage)
    problems = [problem for problem, _ in report.problems]
    of_repo = plan_repo_file(storage, repository, problems, options.chosen)
    plan.steps += of_repo.steps
    plan.backups = of_repo.backups
    state = of_repo.repository
    affected: dict[Problem, Collection[SnapshotId]] = dict(report.problems)
    if state is not None:
        state.check_writable()
        with suppress(FormatError):  # a damaged configuration is one of the findings
            state = _take(plan, plan_settings(state, now), state)
        survey = Survey.of(state, options.level, progress or Progress())
        affected |= dict(survey.problems)
        state = _plan_files(plan, state, survey)
    plan.left = _find_left(plan, affected, state)
    return plan


def _check_refs(storage: Storage) -> tuple[Report, Repository | None]:
    report = Report(2**63 - 1)
    try:
        repository = check_refs(storage, report)
    except RepositoryNotFoundError as error:
        if not error.has_remains:
            raise
        report.add(Problem(rules.REPO_UNREADABLE, REPO_PATH, "the file does not exist"))
        return report, None
    if repository is not None and repository.info is not None:
        check_ops_log(storage, repository.info, report)
    return report, repository


def _plan_files(plan: RepairPlan, state: Repository, survey: Survey) -> Repository:
    if state.info is not None:
        for planner in (plan_first_snapshot, plan_branches, plan_tags, plan_release):
            state = _take(plan, planner(state, survey), state)
    else:
        state = _take(plan, plan_branches_v1(state, survey, plan.notes), state)
    state = _take(plan, plan_references(state, survey, plan.notes), state)
    state = _take(plan, plan_versions(state, survey, plan.notes), state)
    # Last, because a log leads from the parent that a snapshot then has.
    return _take(plan, plan_logs(state, survey), state)


def _take(plan: RepairPlan, steps: Iterable[Step], state: Repository) -> Repository:
    """Add the steps to the plan; returns the state after those that will be executed."""
    for step in steps:
        if plan.is_chosen(step):
            try:
                state = step.simulate(state)
            except RefusedError as error:
                plan.notes.append(f"{step.object}: {error.message}")
                continue
        plan.steps.append(step)
    return state


def _find_left(
    plan: RepairPlan,
    affected: dict[Problem, Collection[SnapshotId]],
    state: Repository | None,
) -> tuple[Finding, ...]:
    mended = {key for step in plan.chosen for key in step.mends}
    there: Collection[SnapshotId] | None = None
    history: History | None = None
    if state is not None:
        history = read_history(state, ())
        there = history.parents.keys()
    report = Report(2**63 - 1)
    for problem, snapshots in affected.items():
        released = snapshots and there is not None and there.isdisjoint(snapshots)  # type: ignore[attr-defined]
        if key_of(problem) not in mended and not released:
            report.add(problem, snapshots)
    return _findings(report, history, plan.options.level)


def _findings(report: Report, history: History | None, level: Level) -> tuple[Finding, ...]:
    result = build_result(
        report,
        history,
        level=level,
        engine="local",
        fail_on="error",
        checked=CheckedCounts(),
        notes=(),
    )
    return tuple(finding for finding in result.findings if finding.severity != "info")


def execute_repair(
    storage: Storage, plan: RepairPlan, progress: Progress | None = None
) -> RepairResult:
    """Execute the chosen steps in order, and check the repository again."""
    progress = progress or Progress()
    for step in progress.count(plan.chosen, "repairing", len(plan.chosen), "steps"):
        step.apply(storage)
    if not plan.chosen:
        return plan.result(dry_run=False, left=plan.left)
    report, repository = _check_refs(storage)
    history = None
    if repository is not None:
        survey = Survey.of(repository, plan.options.level, progress)
        history = survey.history
        for problem, snapshots in survey.problems:
            report.add(problem, snapshots)
    return plan.result(dry_run=False, left=_findings(report, history, plan.options.level))
