"""The problems of one validation, counted and limited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from threading import Lock

from icectl import limits
from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.checks.rules import Rule, Severity
from icectl.model.ids import SnapshotId

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
