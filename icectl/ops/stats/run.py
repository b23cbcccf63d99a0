"""`stats`: read the snapshots, then each manifest once, and add up by columns."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.ops.stats.reading import (
    BITS,
    Breakdown,
    Usage,
    read_usage,
    ref_masks,
    sum_manifests,
)
from icectl.ops.stats.result import BackupStats, ManifestStats, StatsResult
from icectl.pipeline.engine import ChooseEngine
from icectl.pipeline.local_engine import local_engine
from icectl.pipeline.progress import Progress
from icectl.repository.containers import read_containers
from icectl.repository.history import find_reachable
from icectl.repository.ops_log import BACKUPS
from icectl.repository.repository import Repository

if TYPE_CHECKING:
    from icectl.ops.expire.policy import Policy

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StatsOptions:
    ref: str | None = None
    by_branch: bool = False
    by_tag: bool = False
    by_snapshot: bool = False
    by_growth: bool = False
    policy: Policy | None = None
    """Also report what expire under this policy, and then gc, would free."""
    choose_engine: ChooseEngine = local_engine


def measure(
    repository: Repository, options: StatsOptions, progress: Progress | None = None
) -> StatsResult:
    Thread(target=import_module, args=["icectl.ops.stats.columns"], daemon=True).start()
    progress = progress or Progress()
    chosen = _choose(repository, options.ref)
    masks: dict[SnapshotId, int] = {}
    refs: list[tuple[str, str]] = []
    # What is a branch's own is so beside the tags, and the other way round: both are marked.
    by_ref = options.by_branch or options.by_tag
    if by_ref:
        masks, refs = ref_masks(repository)
    kept: frozenset[SnapshotId] | None = None
    if options.policy is not None:
        kept = _kept_by(repository, options.policy)
        # One more bit: needed by a version that stays.
        masks = {info.id: masks.get(info.id, 0) | (info.id in kept) << len(refs) for info in chosen}
    usage = read_usage(repository, chosen, progress)
    by_mask = by_ref or kept is not None
    by_snapshot = options.by_snapshot or options.by_growth
    if by_mask or by_snapshot:
        usage.mark(masks)
    num_masks = -(-(len(refs) + 1) // BITS) if by_mask else 0
    num_chunk_refs = sum(use.num_chunk_refs for use in usage.manifests)
    engine = options.choose_engine(num_chunk_refs)
    logger.info("engine: %s, for %s chunk references", engine.name, f"{num_chunk_refs:,}")
    breakdown = Breakdown(num_masks, by_snapshot)
    work = sum_manifests(repository, usage, breakdown, read_containers(repository))
    by = [*breakdown.columns, "container"]
    notes, tables = engine.scan(work, progress).totals("length", by)
    from icectl.ops.stats.columns import Totals

    totals = Totals(usage, notes, tables, refs, num_masks)
    native, virtual, inlined = totals.bytes()
    return StatsResult(
        ref=options.ref,
        engine=engine.name,
        native_bytes=native,
        virtual_bytes=virtual,
        inlined_bytes=inlined,
        num_chunks=totals.num_chunks(),
        num_snapshots=len(usage.snapshots),
        arrays=totals.arrays(),
        containers=totals.containers(),
        manifests=_manifest_stats(usage),
        overwritten=measure_backups(repository),
        branches=totals.refs("branch") if options.by_branch else None,
        tags=totals.refs("tag") if options.by_tag else None,
        snapshots=totals.snapshots() if options.by_snapshot else None,
        growth=totals.growth() if options.by_growth else None,
        could_free=None if kept is None else totals.freed(len(chosen) - len(kept)),
        num_unreachable=_count_unreachable(repository, chosen) if options.ref is None else 0,
    )


def _choose(repository: Repository, ref: str | None) -> list[SnapshotInfo]:
    """The versions that a branch or tag leads to, as the official count has it, or just one."""
    if ref is None:
        return list(repository.reachable_snapshots())
    return [repository.snapshot_info(repository.resolve(ref).snapshot_id)]


def _count_unreachable(repository: Repository, reachable: Collection[SnapshotInfo]) -> int:
    return 0 if repository.info is None else len(repository.info.snapshots) - len(reachable)


def _kept_by(repository: Repository, policy: Policy) -> frozenset[SnapshotId]:
    """The versions that are left after expire under the policy, and gc."""
    from icectl.ops.expire.plan import plan_for

    expiration = plan_for(repository, policy)
    plan, history = expiration.plan, expiration.history
    tips: Iterable[SnapshotId] = [
        tip
        for refs, deleted in (
            (history.branches, plan.deleted_branches),
            (history.tags, plan.deleted_tags),
        )
        for name, tip in refs.items()
        if name not in deleted
    ]
    return frozenset(find_reachable(tips, lambda id_: plan.parents.get(id_, history.parents[id_])))


def _manifest_stats(usage: Usage) -> ManifestStats:
    counts = [use.num_chunk_refs for use in usage.manifests]
    return ManifestStats(
        len(counts),
        sum(use.size_bytes for use in usage.manifests),
        sum(counts),
        min(counts, default=0),
        max(counts, default=0),
        sum(counts) / usage.capacity if usage.capacity else None,
    )


def measure_backups(repository: Repository) -> BackupStats:
    sizes = [info.size or 0 for info in repository.storage.list(BACKUPS)]
    return BackupStats(len(sizes), sum(sizes))
