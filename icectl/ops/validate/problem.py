"""A broken rule, and the collection of all that were found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from icectl import limits
from icectl.errors import FormatError, IcectlError, ObjectTooLargeError, UnsupportedError
from icectl.model.ids import SnapshotId
from icectl.ops.validate.rule import Rule, Severity


@dataclass(frozen=True, slots=True)
class Problem:
    rule: Rule
    object: str
    """The file it is about."""
    detail: str
    path: str | None = None
    """The node it is about."""

    @property
    def key(self) -> tuple[str, str, str | None]:
        """What a baseline remembers of it."""
        return self.rule.code, self.object, self.path


UNREADABLE = (FormatError, UnsupportedError, ObjectTooLargeError)
"""What decoders raise; a damaged header looks like a version that nobody knows yet."""


def unreadable(rule: Rule, object_: str, error: IcectlError) -> Problem:
    if not isinstance(error, FormatError):
        return Problem(rule, object_, error.message)
    byte = "" if error.offset is None else f" (at byte {error.offset})"
    return Problem(rule, object_, f"{error.reason}{byte}")


@dataclass(slots=True)
class Report:
    """Collects problems with the snapshots that they spoil.

    Keeps no more than `limit`, and as many more of those that a baseline excuses: these must
    not hide the others.
    """

    limit: int
    known: frozenset[tuple[str, str, str | None]] = frozenset()
    """What a baseline excuses."""
    problems: list[tuple[Problem, Collection[SnapshotId]]] = field(default_factory=list)
    counts: Counter[Rule] = field(default_factory=Counter)
    """Of all, kept or not, that no baseline excuses."""
    unsound: set[SnapshotId] = field(default_factory=set)
    """The snapshots that an error spoils, kept or not."""
    num_known: int = 0
    missing: list[str] = field(default_factory=list)
    """Objects that are gone, for gc's `--known-missing`."""
    _places: dict[Problem, int] = field(default_factory=dict)
    _num_known_kept: int = 0

    def count(self, severity: Severity) -> int:
        return sum(count for rule, count in self.counts.items() if rule.severity == severity)

    def add(self, problem: Problem, snapshots: Collection[SnapshotId] = ()) -> None:
        if len(problem.detail) > limits.MESSAGE_CHARACTERS:
            problem = replace(problem, detail=limits.shorten(problem.detail))
        if problem.rule.severity == "error":
            self.unsound.update(snapshots)
        place = self._places.get(problem)
        if place is not None:
            self.problems[place] = problem, (*self.problems[place][1], *snapshots)
            return
        if problem.key in self.known:
            self.num_known += 1
            is_kept = self._num_known_kept < self.limit
            self._num_known_kept += is_kept
        else:
            self.counts[problem.rule] += 1
            is_kept = len(self.problems) - self._num_known_kept < self.limit
        if is_kept:
            self._places[problem] = len(self.problems)
            self.problems.append((problem, snapshots))

    def extend(self, problems: Iterable[Problem], snapshots: Collection[SnapshotId] = ()) -> None:
        for problem in problems:
            self.add(problem, snapshots)

    def remove(self, is_void: Callable[[Collection[SnapshotId]], bool]) -> None:
        """Take back the problems of snapshots that do not matter any more."""
        kept = []
        for problem, snapshots in self.problems:
            if not is_void(snapshots):
                kept.append((problem, snapshots))
            elif problem.key in self.known:
                self.num_known -= 1
            else:
                self.counts[problem.rule] -= 1
        self.problems = kept
