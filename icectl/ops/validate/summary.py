"""Findings by rule with their likely cause: a dozen findings may have the same cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from icectl.checks.rules import SEVERITIES, Severity
from icectl.ops.validate.findings import Report

CAUSES: dict[str, tuple[str, ...]] = {
    "files were deleted, or a copy of the repository is incomplete": (
        "ICE0014", "ICE0101", "ICE0201", "ICE0301", "ICE0401",
    ),
    "files were truncated or overwritten by an interrupted copy or a damaged disk": (
        "ICE0001", "ICE0015", "ICE0102", "ICE0202", "ICE0302", "ICE0303", "ICE0402", "ICE0501",
    ),
    "files were copied or renamed to the wrong place": ("ICE0103", "ICE0203", "ICE0304"),
    "a newer version of Icechunk wrote the repository": ("ICE0012", "ICE0121"),
    "official clients rebased or amended commits, or reindexed arrays": (
        "ICE0110", "ICE0205", "ICE0212", "ICE0315",
    ),
    "expired versions or abandoned sessions have not been garbage collected yet": ("ICE0404",),
    "the source files were moved or replaced after the references were created": (
        "ICE0601", "ICE0602", "ICE0603",
    ),
    "the configuration lacks a virtual chunk container": ("ICE0604",),
    "the storage of the source files is unknown, or the credentials do not grant access": (
        "ICE0605",
    ),
}  # fmt: skip
_CAUSE_OF = {code: cause for cause, codes in CAUSES.items() for code in codes}


@dataclass(frozen=True, slots=True)
class RuleSummary:
    code: str
    severity: Severity
    count: int
    """Without the findings that the baseline contains."""
    title: str
    common: str | None
    """The object or directory that all listed findings have in common."""
    likely_cause: str | None


def summarize(report: Report) -> tuple[RuleSummary, ...]:
    """One entry for each broken rule, most severe first."""
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
