"""The plan of a garbage collection: what is kept, what goes, and proof that all of it fits.

Anything unreadable, missing or contradictory stops the planning: there is no plan then, and
nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.model.ids import SnapshotId
from icectl.ops.gc.explain import Suspects, check_explained
from icectl.ops.gc.id_sets import IdSet, id_set, union
from icectl.ops.gc.listing import Listing, Listings, read_candidates
from icectl.ops.gc.marking import ManifestClaim, MarkedManifest, mark_manifest
from icectl.ops.gc.objects import Garbage, ObjectKind
from icectl.ops.gc.snapshots import SnapshotPlan, plan_snapshots
from icectl.ops.gc.watch import Watch
from icectl.repository.repository import Repository
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

LOCAL_READERS = 2
REMOTE_READERS = 32
BATCH_BYTES = 2**20
BATCH_MANIFESTS = 64
_LISTING_ORDER = (
    ObjectKind.SNAPSHOT,
    ObjectKind.MANIFEST,
    ObjectKind.TRANSACTION_LOG,
    ObjectKind.CHUNK,
)


@dataclass(frozen=True, slots=True, eq=False)
class GcPlan:
    repository: Repository
    """The state that the plan was made for."""
    cutoff: int
    garbage: Mapping[ObjectKind, Garbage]
    """By kind, in the order of deletion."""
    kept: Mapping[ObjectKind, int]
    kept_snapshots: frozenset[SnapshotId]
    dropped_snapshots: frozenset[SnapshotId]
    kept_manifests: IdSet
    foreign: tuple[str, ...]
    """Names below the known prefixes that are no ids; never touched."""

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
    watch: Watch | None = None,
) -> GcPlan:
    """What objects created before `cutoff` (by the storage's clock) no version needs."""
    watch = watch or Watch()
    storage = repository.storage
    # The state was read before anything is listed, so that what it refers to is in the listings.
    with Listings(storage, _LISTING_ORDER, watch) as listings:
        listed_snapshots = listings.wait_for(ObjectKind.SNAPSHOT)
        snapshots = plan_snapshots(repository, listed_snapshots, cutoff, watch)
        manifests = listings.wait_for(ObjectKind.MANIFEST)
        kept_manifests = _check_manifests_present(snapshots, manifests)
        with_ends = manifests.size is not None
        marked = mark_manifests(storage, snapshots.claims.values(), watch, with_ends=with_ends)
        logs = listings.wait_for(ObjectKind.TRANSACTION_LOG)
        kept_logs = _check_logs_present(snapshots, logs, known_missing)
        kept_chunks = union([manifest.ids for manifest in marked])
        if not with_ends:
            marked.clear()  # only the union is needed
        chunks = listings.wait_for(ObjectKind.CHUNK)
    _check_chunks_present(kept_chunks, marked, chunks, known_missing)
    garbage = {
        ObjectKind.SNAPSHOT: snapshots.garbage,
        ObjectKind.TRANSACTION_LOG: _find_garbage(storage, logs, kept_logs, cutoff, watch),
        ObjectKind.MANIFEST: _find_garbage(storage, manifests, kept_manifests, cutoff, watch),
        ObjectKind.CHUNK: _find_garbage(storage, chunks, kept_chunks, cutoff, watch),
    }
    if repository.info is not None:
        suspects = Suspects(
            _snapshot_ids(snapshots.garbage) | snapshots.dropped,
            _snapshot_ids(garbage[ObjectKind.TRANSACTION_LOG]),
        )
        check_explained(storage, repository.info, suspects, known_missing, watch)
    listings_by_kind = (listed_snapshots, logs, manifests, chunks)
    return GcPlan(
        repository=repository,
        cutoff=cutoff,
        garbage=garbage,
        kept={
            listing.kind: len(listing) - len(garbage[listing.kind]) for listing in listings_by_kind
        },
        kept_snapshots=snapshots.kept,
        dropped_snapshots=snapshots.dropped,
        kept_manifests=kept_manifests,
        foreign=tuple(path for listing in listings_by_kind for path in listing.foreign),
    )


def mark_manifests(
    storage: Storage, claims: Collection[ManifestClaim], watch: Watch, *, with_ends: bool = False
) -> list[MarkedManifest]:
    def read_and_mark(batch: list[ManifestClaim]) -> list[MarkedManifest]:
        return [
            mark_manifest(_read_manifest(storage, claim), claim, with_ends=with_ends)
            for claim in batch
        ]

    marked: list[MarkedManifest] = []
    remote = storage.listing_shards() > 1
    workers = REMOTE_READERS if remote else LOCAL_READERS
    batches = [[claim] for claim in claims] if remote else _batches(claims)
    with watch.phase("reading manifests", len(claims)) as counter:
        for manifests in map_on_threads(read_and_mark, batches, workers=workers, ahead=2 * workers):
            watch.check_time()
            marked += manifests
            counter.advance(len(manifests))
    return marked


def _batches(claims: Iterable[ManifestClaim]) -> Iterator[list[ManifestClaim]]:
    """Small files together: handing one to a thread costs more than reading it from a disk."""
    batch: list[ManifestClaim] = []
    size = 0
    for claim in claims:
        batch.append(claim)
        size += claim.size_bytes
        if size > BATCH_BYTES or len(batch) == BATCH_MANIFESTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read_manifest(storage: Storage, claim: ManifestClaim) -> bytes:
    try:
        return storage.read(claim.path)
    except ObjectNotFoundError:
        raise FormatError("the manifest is missing", path=claim.path) from None


def _check_manifests_present(snapshots: SnapshotPlan, manifests: Listing) -> IdSet:
    kept = id_set(snapshots.claims)
    _check_present(kept, manifests, frozenset(), "a kept snapshot refers to it")
    return kept


def _check_logs_present(
    snapshots: SnapshotPlan, logs: Listing, known_missing: frozenset[str]
) -> IdSet:
    reason = "it is the log of a kept snapshot or of a pruned ancestor"
    _check_present(id_set(snapshots.required_logs), logs, known_missing, reason)
    return id_set(snapshots.logs)


def _check_present(
    kept: IdSet, listing: Listing, known_missing: frozenset[str], reason: str
) -> None:
    absent = ~listing.ids.contains(kept)
    if not absent.any():
        return
    paths = [listing.kind.path(name) for name in kept[absent].to_names()]
    unknown = [path for path in paths if path not in known_missing]
    if unknown:
        more = f" ({len(unknown) - 1} more are missing)" if len(unknown) > 1 else ""
        raise FormatError(
            f"the file is missing, and {reason}{more}",
            path=unknown[0],
            hint="a damaged reference looks so too: `icectl validate` tells more; what is lost "
            "for good and understood can be named with --known-missing FILE",
        )


def _check_chunks_present(
    kept: IdSet, marked: Iterable[MarkedManifest], chunks: Listing, known_missing: frozenset[str]
) -> None:
    _check_present(kept, chunks, known_missing, "a kept manifest refers to it")
    if chunks.size is None:
        return
    for manifest in marked:
        assert manifest.end is not None
        rows = chunks.ids.find(manifest.ids)
        short = (rows >= 0) & (chunks.size[rows] < manifest.end)
        if short.any():
            row = int(np.argmax(short))
            path = chunks.kind.path(manifest.ids[np.array([row])].to_names()[0])
            if path not in known_missing:
                raise FormatError(
                    f"the file has {int(chunks.size[rows[row]])} bytes, and a kept manifest "
                    f"refers to its bytes up to {int(manifest.end[row])}",
                    path=path,
                )


def _find_garbage(
    storage: Storage, listing: Listing, kept: IdSet, cutoff: int, watch: Watch
) -> Garbage:
    rows = np.flatnonzero(~kept.contains(listing.ids))
    candidates = read_candidates(storage, listing, rows, watch)
    return candidates[candidates.created_at < cutoff]


def _snapshot_ids(garbage: Garbage) -> set[SnapshotId]:
    return {SnapshotId(id_) for id_ in garbage.ids.to_bytes()}
