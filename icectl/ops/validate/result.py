"""The result of a validation: the findings, the refs they affect, and what was checked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

from icectl.checks.problem import Problem
from icectl.checks.rules import SEVERITIES, Level, Severity
from icectl.errors import Hint
from icectl.model.ids import SnapshotId
from icectl.ops.validate.findings import Report
from icectl.ops.validate.summary import RuleSummary, summarize
from icectl.repository.history import History


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    severity: Severity
    object: str
    detail: str
    title: str
    path: str | None
    branches: tuple[str, ...]
    """The branches that reach the object."""
    tags: tuple[str, ...]
    last_sound_version: SnapshotId | None
    """The newest version that these refs reach without an error."""
    known: bool
    """Whether the baseline contains it."""
    chunks: tuple[tuple[int, ...], ...] = ()
    """The coordinates of the chunks of `path` that are affected, for a chunk file."""


@dataclass(frozen=True, slots=True)
class CheckedCounts:
    snapshots: int = 0
    transaction_logs: int = 0
    manifests: int = 0
    chunk_refs: int = 0
    chunks: int = 0
    chunks_read: int = 0
    virtual_sources: int = 0
    virtual_sources_skipped: int = 0
    """Not contacted, because they are not trusted."""


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
    by_code: dict[str, int]
    """The number of findings of each broken rule, listed or not; without the known ones."""
    known: int
    """The number of findings that the baseline contains."""
    findings_left_out: int
    """Counted but not listed, because there were more than --max-findings."""
    notes: tuple[Hint, ...]
    """What was not checked, and why."""
    summary: tuple[RuleSummary, ...]
    """By rule; without the known ones."""


def build_result(
    report: Report,
    history: History | None,
    *,
    level: Level,
    engine: str,
    fail_on: Severity,
    checked: CheckedCounts,
    notes: tuple[Hint, ...],
) -> ValidateResult:
    failing = SEVERITIES[SEVERITIES.index(fail_on) :]

    @cache
    def last_sound(branches: tuple[str, ...], tags: tuple[str, ...]) -> SnapshotId | None:
        return history.last_sound(branches, tags, report.unsound) if history else None

    def finding(problem: Problem, snapshots: tuple[SnapshotId, ...]) -> Finding:
        branches, tags = history.refs_to(snapshots) if history and snapshots else ((), ())
        return Finding(
            problem.rule.code,
            problem.rule.severity,
            problem.object,
            problem.detail,
            problem.rule.title,
            problem.path,
            branches,
            tags,
            last_sound(branches, tags),
            problem.key in report.known,
            problem.chunks,
        )

    found = [finding(problem, tuple(snapshots)) for problem, snapshots in report.problems]
    found.sort(key=_order)
    return ValidateResult(
        ok=not any(map(report.count, failing)),
        level=level.name.lower(),
        engine=engine,
        findings=tuple(found),
        checked=checked,
        errors=report.count("error"),
        warnings=report.count("warning"),
        infos=report.count("info"),
        by_code=_count_codes(report),
        known=report.num_known,
        findings_left_out=report.counts.total() + report.num_known - len(found),
        notes=notes,
        summary=summarize(report),
    )


def _count_codes(report: Report) -> dict[str, int]:
    by_code: Counter[str] = Counter()
    for rule, count in report.counts.items():
        by_code[rule.code] += count  # a code may occur with two severities
    return dict(+by_code)


def limit_findings(result: ValidateResult, limit: int) -> ValidateResult:
    """At most `limit` findings that the baseline contains, and as many others."""
    found = [
        one
        for known in (False, True)
        for one in islice((one for one in result.findings if one.known is known), limit)
    ]
    found.sort(key=_order)
    left_out = result.findings_left_out + len(result.findings) - len(found)
    return replace(result, findings=tuple(found), findings_left_out=left_out)


def _order(finding: Finding) -> tuple[int, str, str, str, str]:
    """A stable order: threads and executors report findings in any order."""
    return (
        -SEVERITIES.index(finding.severity),
        finding.code,
        finding.object,
        finding.path or "",
        finding.detail,
    )
