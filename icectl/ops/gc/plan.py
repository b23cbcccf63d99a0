"""The plan of a garbage collection: which objects are deleted, which are kept.

Anything unreadable, missing or contradictory stops the planning, and nothing is deleted. The
functions at the end remove from a plan what snapshots need that turn out to stay.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from icectl.checks.manifest import ManifestClaim
from icectl.errors import FormatError, IcectlError, UnsupportedError
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.repo import RepoInfo
from icectl.ops.gc.reachability import (
    KeptSnapshots,
    check_log_ids,
    find_kept_snapshots,
    read_snapshots,
)
from icectl.pipeline.comparison import check_chunks, check_present, find_garbage
from icectl.pipeline.engine import ChooseEngine, Engine
from icectl.pipeline.id_columns import IdSet, decode_names, id_set, union
from icectl.pipeline.listings import Listing, Listings
from icectl.pipeline.local_engine import local_engine
from icectl.pipeline.objects import GarbageSet, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.references import merge_claims, read_references
from icectl.repository.provenance import read_provenance
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class GcPlan:
    repository: Repository
    """The state that the plan was made for."""
    cutoff: int
    garbage: Mapping[ObjectKind, GarbageSet]
    """By kind, in the order of deletion."""
    kept: Mapping[ObjectKind, int]
    kept_snapshots: frozenset[SnapshotId]
    dropped_snapshots: frozenset[SnapshotId]
    kept_manifests: IdSet
    foreign: tuple[str, ...]
    """Names below the known prefixes that are not ids; never touched."""
    engine: Engine
    abandoned_backups: tuple[str, ...] = ()
    """The objects of lost timelines that are abandoned, in the order of deletion."""

    @property
    def num_objects(self) -> int:
        return sum(map(len, self.garbage.values()))

    @property
    def num_bytes(self) -> int:
        return sum(garbage.bytes for garbage in self.garbage.values())

    @property
    def num_listed(self) -> int:
        return self.num_objects + sum(self.kept.values())


def plan_gc(
    repository: Repository,
    cutoff: int,
    *,
    known_missing: frozenset[str] = frozenset(),
    abandon_history: Collection[str] = (),
    choose_engine: ChooseEngine = local_engine,
    lists_chunks_early: bool = True,
    progress: Progress | None = None,
) -> GcPlan:
    """Plan to delete objects created before `cutoff` (storage's clock) that no version needs."""
    progress = progress or Progress()
    storage = repository.storage
    # The state was read before anything is listed, so that what it refers to is in the listings.
    with Listings(storage, progress) as listings, _in_background() as background:
        for kind in (ObjectKind.SNAPSHOT, ObjectKind.MANIFEST, ObjectKind.TRANSACTION_LOG):
            listings.begin(kind)
        if lists_chunks_early:
            listings.begin(ObjectKind.CHUNK)
        reading = background.submit(read_provenance, repository, known_missing, abandon_history)
        try:
            snapshots = find_kept_snapshots(repository, listings, cutoff, progress)
        except IcectlError:
            reading.result()  # an old `repo` refers to files that are gone
            raise
        provenance = reading.result()
        listed_snapshots = listings.wait_for(ObjectKind.SNAPSHOT)
        unkept = listed_snapshots.ids[~id_set(snapshots.kept).contains(listed_snapshots.ids)]
        provenance.check_unkept(snapshots.kept, {*map(SnapshotId, unkept.to_bytes())})
        manifests = listings.wait_for(ObjectKind.MANIFEST)
        kept_manifests = _check_manifests_present(snapshots, manifests)
        logs = listings.wait_for(ObjectKind.TRANSACTION_LOG)
        kept_logs = _check_logs_present(snapshots, logs, known_missing)
        check_log_ids(storage, logs, kept_logs, known_missing, progress)
        log_garbage = find_garbage(storage, logs, kept_logs, cutoff, progress)
        checking = background.submit(
            provenance.check_released,
            snapshot_ids(snapshots.garbage) | snapshots.dropped,
            snapshot_ids(log_garbage),
            progress.check_time,
        )
        claims = snapshots.claims.values()
        num_chunk_refs = sum(claim.num_chunk_refs for claim in claims)
        engine = choose_engine(num_chunk_refs)
        logger.info("engine: %s, for %s chunk references", engine.name, f"{num_chunk_refs:,}")
        chunks = _find_chunk_garbage(
            engine,
            storage,
            claims,
            listings,
            cutoff,
            known_missing,
            progress,
            with_sizes=manifests.size is not None,
        )
        checking.result()
    garbage: dict[ObjectKind, GarbageSet] = {
        ObjectKind.SNAPSHOT: snapshots.garbage,
        ObjectKind.TRANSACTION_LOG: log_garbage,
        ObjectKind.MANIFEST: find_garbage(storage, manifests, kept_manifests, cutoff, progress),
        ObjectKind.CHUNK: chunks.garbage,
    }
    num_listed = {
        ObjectKind.SNAPSHOT: len(listed_snapshots),
        ObjectKind.TRANSACTION_LOG: len(logs),
        ObjectKind.MANIFEST: len(manifests),
        ObjectKind.CHUNK: chunks.num_listed,
    }
    for kind, found in garbage.items():
        logger.info("plan: delete %d of %d %s", len(found), num_listed[kind], kind.directory)
    return GcPlan(
        repository=repository,
        cutoff=cutoff,
        garbage=garbage,
        kept={kind: count - len(garbage[kind]) for kind, count in num_listed.items()},
        kept_snapshots=snapshots.kept,
        dropped_snapshots=snapshots.dropped,
        kept_manifests=kept_manifests,
        foreign=listed_snapshots.foreign + logs.foreign + manifests.foreign + chunks.foreign,
        engine=engine,
        abandoned_backups=provenance.abandoned_backups,
    )


@contextmanager
def _in_background() -> Iterator[ThreadPoolExecutor]:
    """A thread for the requests of the provenance, which few other requests wait for."""
    pool = ThreadPoolExecutor(1, "icectl-provenance")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Chunks:
    garbage: GarbageSet
    num_listed: int
    foreign: tuple[str, ...]


def _find_chunk_garbage(
    engine: Engine,
    storage: Storage,
    claims: Collection[ManifestClaim],
    listings: Listings,
    cutoff: int,
    known_missing: Collection[str],
    progress: Progress,
    *,
    with_sizes: bool,
) -> _Chunks:
    """The chunks that no kept manifest refers to; `FormatError` if a needed one is damaged.

    `with_sizes`: the storage lists sizes, so that chunks that are too short are found as well.
    """
    engine.release()  # an earlier plan of this run
    kind = ObjectKind.CHUNK
    num_expected = sum(claim.num_chunk_refs for claim in claims)
    listed = engine.list_objects(storage, kind, listings, num_expected)
    references = engine.scan(read_references(storage, claims, with_sizes=with_sizes), progress)
    comparison = engine.compare(references, listed, progress, cutoff=cutoff)
    directory = f"{kind.directory}/"
    names = [path.removeprefix(directory) for path in known_missing if path.startswith(directory)]
    check_chunks(comparison, kind, union([decode_names(names)[0]]))
    return _Chunks(comparison.unreferenced, comparison.num_listed, comparison.foreign)


def _check_manifests_present(snapshots: KeptSnapshots, manifests: Listing) -> IdSet:
    kept = id_set(snapshots.claims)
    check_present(kept, manifests, frozenset(), "a kept snapshot refers to it")
    return kept


def _check_logs_present(
    snapshots: KeptSnapshots, logs: Listing, known_missing: frozenset[str]
) -> IdSet:
    reason = "it is the log of a kept snapshot or of a pruned ancestor"
    check_present(id_set(snapshots.required_logs), logs, known_missing, reason)
    return id_set(snapshots.logs)


def snapshot_ids(garbage: GarbageSet) -> set[SnapshotId]:
    return {SnapshotId(id_) for part in garbage.parts() for id_ in part.ids.to_bytes()}


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
    work = read_references(plan.repository.storage, claims, with_sizes=False)
    return plan.engine.exclude(chunks, plan.engine.scan(work, progress), progress)


def with_garbage(plan: GcPlan, garbage: Mapping[ObjectKind, GarbageSet]) -> GcPlan:
    """The plan with less garbage; the rest of it is kept."""
    kept = {
        kind: plan.kept[kind] + len(found) - len(garbage[kind])
        for kind, found in plan.garbage.items()
    }
    return replace(plan, garbage=garbage, kept=kept)
