"""Remove from a plan what snapshots need that turn out to stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import replace

from icectl.checks.manifest import ManifestClaim
from icectl.errors import FormatError, UnsupportedError
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.repo import RepoInfo
from icectl.ops.gc.plan import GcPlan, snapshot_ids
from icectl.ops.gc.reachability import read_snapshots
from icectl.pipeline.id_columns import id_set
from icectl.pipeline.objects import GarbageSet, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.references import merge_claims, read_references


def protect_snapshots(
    plan: GcPlan, info: RepoInfo, snapshots: Iterable[SnapshotId], progress: Progress
) -> GcPlan:
    """The plan without what these snapshots need in the state `info`."""
    protected = frozenset(snapshots)
    claims: dict[ManifestId, ManifestClaim] = {}
    for snapshot in read_snapshots(plan.repository.storage, protected, progress):
        merge_claims(claims, snapshot.all_manifest_files, snapshot.id)
    logs = {id_ for one in info.snapshots for id_ in one.pruned_ancestor_tx_logs or ()}
    return without(plan, protected, protected | logs, claims, progress)


def protect_usable(plan: GcPlan, deleted: Set[SnapshotId], progress: Progress) -> GcPlan:
    """The plan without what garbage snapshots need whose files are not among the deleted.

    In spec version 1 a snapshot is only its file: a branch can be set to it by its id. One that
    cannot be read is of no use to anybody.
    """
    usable = snapshot_ids(plan.garbage[ObjectKind.SNAPSHOT]) - deleted
    if not usable:
        return plan
    parts = plan.garbage[ObjectKind.MANIFEST].parts()
    there = {id_ for part in parts for id_ in part.ids.to_bytes()}
    claims: dict[ManifestId, ManifestClaim] = {}
    for snapshot_id in usable:
        try:
            (snapshot,) = read_snapshots(plan.repository.storage, [snapshot_id], progress)
        except (FormatError, UnsupportedError):
            continue
        needed = (file for file in snapshot.all_manifest_files if file.id in there)
        merge_claims(claims, needed, snapshot.id)
    return without(plan, usable, usable, claims, progress)


def without(
    plan: GcPlan,
    snapshots: Iterable[SnapshotId],
    logs: Iterable[SnapshotId],
    claims: Mapping[ManifestId, ManifestClaim],
    progress: Progress,
) -> GcPlan:
    """The plan without these objects and the chunks of these manifests."""
    manifests = id_set(claims)
    unread = {
        ManifestId(id_) for id_ in manifests[~plan.kept_manifests.contains(manifests)].to_bytes()
    }
    garbage = plan.garbage
    needed_by = [claims[id_] for id_ in unread]
    return with_garbage(
        plan,
        {
            ObjectKind.SNAPSHOT: garbage[ObjectKind.SNAPSHOT].without(id_set(snapshots)),
            ObjectKind.TRANSACTION_LOG: garbage[ObjectKind.TRANSACTION_LOG].without(id_set(logs)),
            ObjectKind.MANIFEST: garbage[ObjectKind.MANIFEST].without(manifests),
            ObjectKind.CHUNK: _without_references(
                plan, garbage[ObjectKind.CHUNK], needed_by, progress
            ),
        },
    )


def _without_references(
    plan: GcPlan, chunks: GarbageSet, claims: Collection[ManifestClaim], progress: Progress
) -> GarbageSet:
    """The chunks without those that these manifests refer to."""
    if not claims:
        return chunks
    work = read_references(plan.repository.storage, claims, with_ends=False)
    return plan.engine.exclude(chunks, plan.engine.scan(work, progress), progress)


def with_garbage(plan: GcPlan, garbage: Mapping[ObjectKind, GarbageSet]) -> GcPlan:
    """The plan with less garbage; the rest of it is kept."""
    kept = {
        kind: plan.kept[kind] + len(found) - len(garbage[kind])
        for kind, found in plan.garbage.items()
    }
    return replace(plan, garbage=garbage, kept=kept)
