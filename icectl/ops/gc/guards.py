"""What a garbage collection refuses to do before it looks at anything, or once it knows."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from icectl.errors import RefusedError, Remedy, UnsupportedError, UsageError
from icectl.ops.gc.backups import BackupPlan
from icectl.ops.gc.objects import ObjectKind
from icectl.ops.gc.plan import GcPlan
from icectl.repository.repository import Repository
from icectl.repository.update import check_online
from icectl.storage.contract import Storage

YOUNGEST_CUTOFF = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class MaxDelete:
    """At most so many objects, or so many of a hundred."""

    count: int | None = None
    percent: float | None = None

    @classmethod
    def parse(cls, text: str) -> MaxDelete:
        """`ValueError` for anything but a number of objects or a percentage."""
        number = text.removesuffix("%")
        value = float(number) if number != text else int(number)
        if not 0 <= value <= (100 if number != text else 2**63):
            raise ValueError(text)
        return cls(percent=value) if number != text else cls(count=int(value))


def check_cutoff(cutoff: int, now: int, *, allow_recent: bool) -> None:
    if cutoff > now:
        raise UsageError("the cutoff lies in the future", hint="write an age such as 7d")
    if now - cutoff < YOUNGEST_CUTOFF and not allow_recent:
        raise RefusedError(
            "objects younger than 24 hours may belong to a writer that has not committed yet",
            hint=Remedy("allow-recent"),
        )


def check_repository(repository: Repository) -> None:
    if not repository.is_writable:
        raise UnsupportedError(
            f"repositories of the generation {repository.generation} cannot be collected",
            hint="open and migrate it with the official package of its time",
        )
    if repository.info is not None:
        check_online(repository.info.status)


def check_backups_cutoff(storage: Storage, backups_older_than: int, cutoff: int) -> None:
    """A writer copies `repo` before its change names the copy: until then it looks unneeded.

    `cutoff` was checked already, so that what it allows is allowed here as well.
    """
    if backups_older_than > max(cutoff, storage.read_clock() - YOUNGEST_CUTOFF):
        raise RefusedError(
            "copies of the repo file younger than 24 hours may belong to a change under way",
            hint=Remedy("allow-recent-backups"),
        )


def check_max_delete(
    plan: GcPlan, only: Set[ObjectKind], backups: BackupPlan | None, limit: MaxDelete | None
) -> None:
    if limit is None:
        return
    count = sum(len(garbage) for kind, garbage in plan.garbage.items() if kind in only)
    listed = plan.num_listed
    if backups is not None:
        count += len(backups.garbage)
        listed += len(backups.garbage) + backups.kept
    if limit.count is not None:
        allowed, shown = limit.count, f"{limit.count:,}"
    else:
        percent = limit.percent or 0
        allowed = int(listed * percent / 100)
        shown = f"{percent:g}% of {listed:,}"
    if count > allowed:
        raise RefusedError(
            f"{count:,} objects would be deleted, and the limit allows {shown}",
            hint=Remedy("show-plan-without-limit"),
        )
