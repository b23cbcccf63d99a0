"""What a validation tells: the findings, what they spoil, and what was looked at."""

from __future__ import annotations

from icectl.model.ids import SnapshotId
from icectl.ops.validate.history import History
from icectl.ops.validate.problem import Problem, Report
from icectl.ops.validate.rule import SEVERITIES, Level, Severity
from icectl.records import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    severity: Severity
    object: str
    detail: str
    title: str
    path: str | None
    branches: tuple[str, ...]
    """That lead to it."""
    tags: tuple[str, ...]
    last_sound_version: SnapshotId | None
    """The newest version behind these refs without an error."""
    known: bool
    """Whether a baseline excuses it."""


@dataclass(frozen=True, slots=True)
class CheckedCounts:
    snapshots: int = 0
    transaction_logs: int = 0
    manifests: int = 0
    chunk_refs: int = 0
    chunks: int = 0
    chunks_read: int = 0
    virtual_sources: int = 0


@dataclass(frozen=True, slots=True)
class ValidateResult:
    ok: bool
    level: str
    engine: str
    findings: tuple[Finding, ...]
    checked: CheckedCounts
    errors: int
    warnings: int
    infos: int
    known: int
    """Findings that a baseline excuses."""
    findings_left_out: int
    """Counted, and not listed: there were more than --max-findings."""
    notes: tuple[str, ...]
    """What was not looked at, and why."""


def build_result(
    report: Report,
    history: History | None,
    *,
    level: Level,
    engine: str,
    fail_on: Severity,
    checked: CheckedCounts,
    notes: tuple[str, ...],
) -> ValidateResult:
    failing = SEVERITIES[SEVERITIES.index(fail_on) :]
    unsound = {
        snapshot_id
        for problem, snapshots in report.problems
        if problem.rule.severity == "error"
        for snapshot_id in snapshots
    }

    def finding(problem: Problem, snapshots: tuple[SnapshotId, ...]) -> Finding:
        branches, tags = history.refs_to(snapshots) if history and snapshots else ((), ())
        sound = history.last_sound(branches, tags, unsound) if history else None
        return Finding(
            problem.rule.code,
            problem.rule.severity,
            problem.object,
            problem.detail,
            problem.rule.title,
            problem.path,
            branches,
            tags,
            sound,
            problem.key in report.known,
        )

    found = [finding(problem, tuple(snapshots)) for problem, snapshots in report.problems]
    # Threads and executors find them in any order.
    found.sort(
        key=lambda one: (
            -SEVERITIES.index(one.severity),
            one.code,
            one.object,
            one.path or "",
            one.detail,
        )
    )
    return ValidateResult(
        ok=not any(report.counts[severity] for severity in failing),
        level=level.name.lower(),
        engine=engine,
        findings=tuple(found),
        checked=checked,
        errors=report.counts["error"],
        warnings=report.counts["warning"],
        infos=report.counts["info"],
        known=report.num_known,
        findings_left_out=sum(report.counts.values()) + report.num_known - len(found),
        notes=notes,
    )
