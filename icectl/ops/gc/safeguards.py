"""Safeguards that the user controls: the cutoff, `--max-delete` and `--known-missing`."""

from __future__ import annotations

import json
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from icectl.errors import RefusedError, Remedy, UnsupportedError, UsageError
from icectl.ops.gc.backups import BackupPlan
from icectl.ops.gc.plan import GcPlan
from icectl.pipeline.id_columns import decode_names
from icectl.pipeline.objects import ObjectKind
from icectl.repository.ops_log import BACKUPS
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

YOUNGEST_CUTOFF = 24 * 3600 * 1_000_000
LONGEST_SHOWN = 100
NAMED_BY_IDS = (ObjectKind.CHUNK.directory, ObjectKind.TRANSACTION_LOG.directory)


@dataclass(frozen=True, slots=True)
class MaxDelete:
    """The largest number of objects, or the largest percentage, that may be deleted."""

    count: int | None = None
    percent: float | None = None

    @classmethod
    def parse(cls, text: str) -> MaxDelete:
        """`ValueError` unless the text is a number of objects or a percentage."""
        number = text.removesuffix("%")
        value = float(number) if number != text else int(number)
        if not 0 <= value <= (100 if number != text else 2**63):
            raise ValueError(text)
        return cls(percent=value) if number != text else cls(count=int(value))


def check_cutoff(cutoff: int, now: int, *, allow_recent: bool) -> None:
    if cutoff > now:
        raise UsageError("the cutoff is in the future", hint="write an age such as 7d")
    if now - cutoff < YOUNGEST_CUTOFF and not allow_recent:
        raise RefusedError(
            "objects younger than 24 hours may belong to a writer that has not committed yet",
            hint=Remedy("allow-recent"),
        )


def check_repository(repository: Repository) -> None:
    if not repository.is_writable:
        raise UnsupportedError(
            f"repositories of the generation {repository.generation} cannot be collected",
            hint=Remedy("upgrade-to-target"),
        )
    repository.check_online()


def check_backups_cutoff(storage: Storage, backups_older_than: int, cutoff: int) -> None:
    """`RefusedError` for a cutoff within the last 24 hours.

    A writer copies `repo` before its change names the copy: until then the copy looks unneeded.
    `cutoff` was checked already, so its age is allowed here as well.
    """
    if backups_older_than > max(cutoff, storage.read_clock() - YOUNGEST_CUTOFF):
        raise RefusedError(
            "copies of the repo file younger than 24 hours may belong to a change in progress",
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
            f"{count:,} objects would be deleted, but the limit allows {shown}",
            hint=Remedy("show-plan-without-limit"),
        )


def read_known_missing(path: Path) -> frozenset[str]:
    """The objects whose loss is known and understood.

    Either a path on each line, or JSON Lines with the path as `object`, as `validate` writes its
    findings. Only lost chunks, transaction logs and backups can be excused: without a manifest or
    a snapshot nobody knows what else is needed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file") from None
    found: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        name = _object(line.strip())
        if name is None:
            continue
        if not _is_excusable(name):
            raise UsageError(
                f"{path}, line {number}: {_short(name)!r} is not the path of a chunk, a "
                "transaction log or a backup",
                hint="chunks/ID, transactions/ID or overwritten/NAME; what else is lost makes "
                "a collection unsafe",
            )
        found.add(name)
    return frozenset(found)


def _is_excusable(path: str) -> bool:
    directory, _, name = path.partition("/")
    if directory in NAMED_BY_IDS:
        return bool(decode_names([name])[1].all())
    return directory == BACKUPS and bool(name)


def _object(line: str) -> str | None:
    if not line or line.startswith("#"):
        return None
    if not line.startswith("{"):
        return line
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if document.get("severity") == "info":
        return None  # such as garbage, which is there
    name = document.get("object")
    return name if isinstance(name, str) else line


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"
