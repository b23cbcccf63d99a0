"""What a garbage collection refuses to do before it looks at anything, or once it knows."""

from __future__ import annotations

from icectl.errors import RefusedError, UnsupportedError, UsageError
from icectl.ops.gc.plan import GcPlan
from icectl.records import dataclass
from icectl.repository.repository import Repository
from icectl.repository.update import check_online

YOUNGEST_CUTOFF = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class MaxDelete:
    """At most so many objects, or so many of a hundred."""

    count: int | None = None
    percent: float | None = None

    @classmethod
    def parse(cls, text: str) -> MaxDelete:
        number = text.removesuffix("%")
        try:
            value = float(number) if number != text else int(number)
        except ValueError:
            value = -1
        if not 0 <= value <= (100 if number != text else 2**63):
            raise UsageError(
                f"{text!r} is no limit for --max-delete", hint="write 20% or a number of objects"
            )
        return cls(percent=value) if number != text else cls(count=int(value))


def check_cutoff(cutoff: int, now: int, *, allow_recent: bool) -> None:
    if cutoff > now:
        raise UsageError("--older-than lies in the future", hint="write an age such as 7d")
    if now - cutoff < YOUNGEST_CUTOFF and not allow_recent:
        raise RefusedError(
            "objects younger than 24 hours may belong to a writer that has not committed yet",
            hint="give --older-than at least 1d, or add --allow-recent when nobody is writing",
        )


def check_repository(repository: Repository) -> None:
    if not repository.is_writable:
        raise UnsupportedError(
            f"repositories of the generation {repository.generation} cannot be collected",
            hint="open and migrate it with the official package of its time",
        )
    if repository.info is not None:
        check_online(repository.info.status)


def check_max_delete(plan: GcPlan, limit: MaxDelete | None) -> None:
    if limit is None:
        return
    if limit.count is not None:
        allowed, shown = limit.count, f"{limit.count:,}"
    else:
        percent = limit.percent or 0
        allowed = int(plan.num_listed * percent / 100)
        shown = f"{percent:g}% of {plan.num_listed:,}"
    if plan.num_objects > allowed:
        raise RefusedError(
            f"{plan.num_objects:,} objects would be deleted, and --max-delete allows {shown}",
            hint="look at the plan with --dry-run; nothing was changed",
        )
