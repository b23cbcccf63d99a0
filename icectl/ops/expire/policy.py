"""Retention policies: the rules, and the snapshots of one branch that they keep.

The rules are restic's: the newest snapshot of each hour, day, week, month or year that has
one, for the last so many of them, and all within a time of the newest. Buckets are UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

from icectl.errors import RefusedError, Remedy, UsageError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3600 * 1_000_000

BUCKETS: dict[str, Callable[[datetime], str]] = {
    "hourly": lambda moment: moment.strftime("%Y-%m-%d %H:00"),
    "daily": lambda moment: moment.strftime("%Y-%m-%d"),
    "weekly": lambda moment: moment.strftime("%G-W%V"),
    "monthly": lambda moment: moment.strftime("%Y-%m"),
    "yearly": lambda moment: moment.strftime("%Y"),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """Times are microseconds; counts are positive."""

    older_than: int | None = None
    """Release only snapshots flushed before this; alone, it is the official expiration."""
    keep_last: int | None = None
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    keep_monthly: int | None = None
    keep_yearly: int | None = None
    keep_within: int | None = None
    """All not older than this, counted back from the branch's newest snapshot."""
    keep_tagged: tuple[str, ...] = ()
    branch: tuple[str, ...] = ()
    """Globs of branches that the rules apply to; all others are kept whole. Empty: every branch."""
    protect: tuple[str, ...] = ()
    """Globs of branches that stay whole and of tags that stay."""
    delete_expired_branches: bool = False
    delete_expired_tags: bool = False

    @property
    def has_keep_rules(self) -> bool:
        return any(
            getattr(self, field.name) for field in fields(self) if field.name.startswith("keep_")
        )

    @property
    def is_official(self) -> bool:
        """Whether the official expiration would do exactly this."""
        return not (self.has_keep_rules or self.branch or self.protect)

    def check(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.startswith("keep_") and isinstance(value, int) and value < 1:
                name = field.name.replace("_", "-")
                raise UsageError(f"{name} {value} keeps nothing", hint="give a number above 0")
        if self.older_than is None and not self.has_keep_rules:
            raise RefusedError(
                "the policy is empty: it does not say what to keep",
                hint=Remedy("give-expire-policy"),
            )

    def covers(self, branch: str) -> bool:
        """Whether the rules apply to the branch; the history of others stays whole."""
        if matches(branch, self.protect):
            return False
        return not self.branch or matches(branch, self.branch)


def matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def find_idle_globs(
    policy: Policy, branches: Iterable[str], tags: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """The rule and the glob for each glob that matches no name: most likely a misspelled one."""
    names = {"branch": [*branches], "keep_tagged": [*tags]}
    names["protect"] = names["branch"] + names["keep_tagged"]
    for rule, known in names.items():
        for glob in getattr(policy, rule):
            if not any(matches(name, (glob,)) for name in known):
                yield rule, glob


def apply_rules(policy: Policy, times: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The number of each snapshot of a branch that a rule keeps, with the rule in words.

    `times` says when the snapshots were flushed, newest first.
    """
    if policy.keep_last is not None:
        for number in range(min(policy.keep_last, len(times))):
            yield number, f"last {number + 1} of {policy.keep_last}"
    for name, bucket_of in BUCKETS.items():
        count: int | None = getattr(policy, f"keep_{name}")
        seen: set[str] = set()
        if count is None:
            continue
        # Most snapshots are of the same hour or day as the one before, and so of the same bucket.
        unit = _HOUR if name == "hourly" else 24 * _HOUR
        previous = None
        for number, flushed_at in enumerate(times):
            if flushed_at // unit == previous:
                continue
            previous = flushed_at // unit
            bucket = bucket_of(_moment(flushed_at))
            if bucket in seen:
                continue
            if len(seen) == count:
                break
            seen.add(bucket)
            yield number, f"{name} {bucket}"
    if policy.keep_within is not None and times:
        oldest = max(times) - policy.keep_within
        for number, flushed_at in enumerate(times):
            if flushed_at >= oldest:
                yield number, "within the time to keep"


def _moment(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
