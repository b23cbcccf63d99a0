"""Findings by rule, with what most likely caused them: a dozen findings may have one cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from icectl.ops.validate.problem import Report
from icectl.ops.validate.rule import SEVERITIES, Severity

CAUSES: dict[str, tuple[str, ...]] = {
    "files were deleted, or a copy of the repository left them out": (
        "ICE0014", "ICE0101", "ICE0201", "ICE0301", "ICE0401",
    ),
    "files were cut off or overwritten by an interrupted copy or a damaged disk": (
        "ICE0001", "ICE0015", "ICE0102", "ICE0202", "ICE0302", "ICE0303", "ICE0402", "ICE0501",
    ),
    "files were copied or renamed to the wrong place": ("ICE0103", "ICE0203", "ICE0304"),
    "a newer version of the format was written": ("ICE0012", "ICE0121"),
    "official clients rebased or amended commits, or reindexed arrays": (
        "ICE0110", "ICE0205", "ICE0212", "ICE0315",
    ),
    "expired versions or abandoned sessions await garbage collection": ("ICE0404",),
    "the source files were moved or replaced after the references were made": (
        "ICE0601", "ICE0602", "ICE0603",
    ),
    "the configuration lacks a virtual chunk container": ("ICE0604",),
    "the storage of the source files is unknown, or these credentials do not reach it": (
        "ICE0605",
    ),
}  # fmt: skip
_CAUSE_OF = {code: cause for cause, codes in CAUSES.items() for code in codes}


@dataclass(frozen=True, slots=True)
class RuleSummary:
    code: str
    severity: Severity
    count: int
    """Without those that a baseline excuses."""
    title: str
    common: str | None
    """The object, or the directory, that all listed findings share."""
    likely_cause: str | None


def summarize(report: Report) -> tuple[RuleSummary, ...]:
    """One entry for each broken rule, the worst first."""
    objects: defaultdict[str, set[str]] = defaultdict(set)
    for problem, _ in report.problems:
        if problem.key not in report.known:
            objects[problem.rule.code].add(problem.object)
    rules = [rule for rule, count in report.counts.items() if count]
    rules.sort(key=lambda rule: (-SEVERITIES.index(rule.severity), rule.code))
    return tuple(
        RuleSummary(
            rule.code,
            rule.severity,
            report.counts[rule],
            rule.title,
            _common(objects[rule.code]),
            _CAUSE_OF.get(rule.code),
        )
        for rule in rules
    )


def _common(objects: Collection[str]) -> str | None:
    if len(objects) == 1:
        return next(iter(objects))
    directories = {name.rpartition("/")[0] for name in objects}
    return f"{directories.pop()}/" if len(directories) == 1 and "" not in directories else None
