"""The result of a garbage collection: the document of `--json`, for a plan and for a real run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from icectl.ops.gc.execute import Deleted
from icectl.ops.gc.run import PlannedRun
from icectl.pipeline.deletion import DeleteFailure
from icectl.pipeline.objects import GarbageSet, ObjectKind
from icectl.repository.ops_log import BACKUPS

DAY = 24 * 3600 * 1_000_000
AGES = (("1 week", 7 * DAY), ("1 month", 30 * DAY), ("1 year", 365 * DAY))
LARGEST = 10


@dataclass(frozen=True, slots=True)
class Counts:
    snapshots: int
    transaction_logs: int
    manifests: int
    chunks: int


@dataclass(frozen=True, slots=True)
class KindSummary:
    kind: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class AgeSummary:
    age: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LargeObject:
    object: str
    size: int
    created_at: int


@dataclass(frozen=True, slots=True)
class GcResult:
    dry_run: bool
    engine: str
    snapshots_deleted: int
    transaction_logs_deleted: int
    manifests_deleted: int
    chunks_deleted: int
    bytes_deleted: int
    kept: Counts
    cutoff_at: int
    backups_deleted: int
    backup_bytes_deleted: int
    garbage: tuple[KindSummary, ...]
    by_age: tuple[AgeSummary, ...]
    largest: tuple[LargeObject, ...]
    num_spared: int
    """Objects of the applied plan that are now in use or already deleted."""
    ops_log_uncut: bool
    """--truncate-ops-log could not cut it where it was asked to."""
    foreign: tuple[str, ...]
    """Names below the known prefixes that are not ids; they were left alone."""
    failures: tuple[DeleteFailure, ...]
    is_complete: bool
    """Whether all that was planned is done."""
    abandoned_backups: tuple[str, ...] = ()
    """Backups of the lost timelines that --abandon-history abandons."""
    skipped_phases: tuple[str, ...] = ()
    """Kinds of objects that were not touched, because earlier deletions failed or time ran out."""

    @property
    def num_objects(self) -> int:
        """The deleted objects, without backups of `repo`."""
        return (
            self.snapshots_deleted
            + self.transaction_logs_deleted
            + self.manifests_deleted
            + self.chunks_deleted
        )


def summarize(
    run: PlannedRun, only: frozenset[ObjectKind], now: int, deleted: Deleted | None
) -> GcResult:
    """The result of a real run; without `deleted`, of a dry run."""
    plan, backups = run.plan, run.backups
    chosen = [garbage for kind, garbage in plan.garbage.items() if kind in only]
    count = {kind: len(plan.garbage[kind]) if kind in only else 0 for kind in ObjectKind}
    counts: dict[str, Any] = _counts(count)
    planned = GcResult(
        **counts,
        dry_run=True,
        engine=plan.engine.name,
        bytes_deleted=sum(garbage.bytes for garbage in chosen),
        kept=Counts(
            **{
                kind.plural: plan.kept[kind] + (0 if kind in only else len(garbage))
                for kind, garbage in plan.garbage.items()
            }
        ),
        cutoff_at=plan.cutoff,
        backups_deleted=len(backups.garbage) if backups else 0,
        backup_bytes_deleted=backups.num_bytes if backups else 0,
        garbage=tuple(
            KindSummary(garbage.kind.plural, len(garbage), garbage.bytes) for garbage in chosen
        ),
        by_age=_by_age(chosen, now),
        largest=_largest(chosen),
        num_spared=run.num_spared,
        ops_log_uncut=backups is not None and backups.is_uncut,
        foreign=plan.foreign + (backups.foreign if backups else ()),
        failures=(),
        is_complete=True,
        abandoned_backups=tuple(
            path.removeprefix(f"{BACKUPS}/") for path in plan.abandoned_backups
        ),
    )
    return planned if deleted is None else finished(planned, deleted)


def finished(planned: GcResult, deleted: Deleted) -> GcResult:
    """The same plan after its execution."""
    changed: dict[str, Any] = _counts(deleted.count)
    return replace(
        planned,
        **changed,
        dry_run=False,
        bytes_deleted=deleted.bytes,
        backups_deleted=deleted.backups,
        backup_bytes_deleted=deleted.backup_bytes,
        failures=tuple(deleted.failures),
        is_complete=deleted.is_complete and not deleted.failures,
        skipped_phases=tuple(deleted.skipped_phases),
    )


def _counts(count: Mapping[ObjectKind, int]) -> dict[str, int]:
    return {f"{kind.plural}_deleted": number for kind, number in count.items()}


def _by_age(chosen: list[GarbageSet], now: int) -> tuple[AgeSummary, ...]:
    bounds = [bound for _, bound in AGES]
    total = np.zeros((len(AGES) + 1, 2), np.int64)
    for garbage in chosen:
        total += garbage.count_ages(now, bounds)
    labels = (*(f"under {name}" for name, _ in AGES), "older")
    return tuple(
        AgeSummary(label, count, size)
        for label, (count, size) in zip(labels, total.tolist(), strict=True)
    )


def _largest(chosen: list[GarbageSet]) -> tuple[LargeObject, ...]:
    found: list[LargeObject] = []
    for garbage in chosen:
        part = garbage.largest(LARGEST)
        columns = (part.ids.to_names(), part.size.tolist(), part.created_at.tolist())
        found += (
            LargeObject(garbage.kind.path(name), size, created_at)
            for name, size, created_at in zip(*columns, strict=True)
        )
    return tuple(sorted(found, key=lambda item: (-item.size, item.object))[:LARGEST])
