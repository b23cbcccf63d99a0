"""What a validation reports: its problems, counted and limited, and the result made of them.

A baseline is a file of known findings. The summary has the findings by rule with their likely
cause: a dozen findings may have the same cause.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from threading import Lock

from icectl import limits
from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.checks.rules import SEVERITIES, Level, Rule, Severity
from icectl.errors import Hint, Remedy, UsageError
from icectl.model.ids import SnapshotId
from icectl.repository.history import History

LOST_FILE = frozenset(
    {
        *(rules.BACKUP_MISSING, rules.BACKUP_UNREADABLE),
        *(rules.SNAPSHOT_MISSING, rules.SNAPSHOT_UNREADABLE, rules.SNAPSHOT_ID),
        *(rules.LOG_MISSING, rules.LOG_UNREADABLE, rules.LOG_ID),
        *(rules.MANIFEST_MISSING, rules.MANIFEST_SIZE, rules.MANIFEST_UNREADABLE),
        *(rules.MANIFEST_ID, rules.CHUNK_MISSING, rules.CHUNK_SHORT),
    }
)
"""The rules that a file breaks if it is missing or damaged as a whole."""


@dataclass(slots=True)
class Report:
    """Collects problems and the snapshots that they affect.

    Keeps at most `limit` problems, plus as many that the baseline contains: known problems must
    not hide new ones.
    """

    limit: int
    known: frozenset[tuple[str, str, str | None]] = frozenset()
    """The keys of the baseline."""
    problems: list[tuple[Problem, Collection[SnapshotId]]] = field(default_factory=list)
    counts: Counter[Rule] = field(default_factory=Counter)
    """Of all problems that are not in the baseline, kept or not."""
    unsound: set[SnapshotId] = field(default_factory=set)
    """The snapshots with an error, kept or not."""
    num_known: int = 0
    missing: list[str] = field(default_factory=list)
    """Objects that do not exist, for gc's `--known-missing`."""
    lost_files: dict[str, None] = field(default_factory=dict)
    """Files that are missing or damaged, and that a mirror may still have."""
    _rows: dict[Problem, int] = field(default_factory=dict)
    _num_known_kept: int = 0
    _lock: Lock = field(default_factory=Lock)
    """The ops log is checked on a thread of its own."""

    def count(self, severity: Severity) -> int:
        return sum(count for rule, count in self.counts.items() if rule.severity == severity)

    def add(self, problem: Problem, snapshots: Collection[SnapshotId] = ()) -> None:
        if len(problem.detail) > limits.MESSAGE_CHARACTERS:
            problem = replace(problem, detail=limits.shorten(problem.detail))
        with self._lock:
            if problem.rule.severity == "error":
                self.unsound.update(snapshots)
            if problem.rule in LOST_FILE:
                self.lost_files[problem.object] = None
            row = self._rows.get(problem)
            if row is not None:
                self.problems[row] = problem, (*self.problems[row][1], *snapshots)
                return
            if problem.key in self.known:
                self.num_known += 1
                is_kept = self._num_known_kept < self.limit
                self._num_known_kept += is_kept
            else:
                self.counts[problem.rule] += 1
                is_kept = len(self.problems) - self._num_known_kept < self.limit
            if is_kept:
                self._rows[problem] = len(self.problems)
                self.problems.append((problem, snapshots))

    def extend(self, problems: Iterable[Problem], snapshots: Collection[SnapshotId] = ()) -> None:
        for problem in problems:
            self.add(problem, snapshots)

    def remove(self, is_irrelevant: Callable[[Collection[SnapshotId]], bool]) -> None:
        """Drop the problems of snapshots that are no longer relevant."""
        kept = []
        for problem, snapshots in self.problems:
            if not is_irrelevant(snapshots):
                kept.append((problem, snapshots))
            elif problem.key in self.known:
                self.num_known -= 1
            else:
                self.counts[problem.rule] -= 1
        self.problems = kept


Key = tuple[str, str, str | None]
WRITE_BASELINE = Remedy("write-baseline")


def read_baseline(path: Path) -> frozenset[Key]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=WRITE_BASELINE) from error
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file", hint=WRITE_BASELINE) from None
    found: set[Key] = set()
    for number, line in enumerate(lines, 1):
        if line.strip():
            found.add(_key(line, f"{path}, line {number}"))
    return frozenset(found)


def _key(line: str, where: str) -> Key:
    try:
        document = json.loads(line)
        code, name, path = document["code"], document["object"], document.get("path")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        code = name = path = None
    if not isinstance(code, str) or not isinstance(name, str) or not isinstance(path, str | None):
        raise UsageError(f"{where} is not a finding", hint=WRITE_BASELINE)
    return code, name, path


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
