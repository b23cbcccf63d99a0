"""The engine of one process: threads, and sorted id columns in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from icectl.checks.manifest import ManifestClaim
from icectl.errors import FormatError, ObjectNotFoundError
from icectl.ops.gc.engine import Sweep, SweptChunks
from icectl.pipeline.comparison import MISSING_CHUNK, check_present, find_garbage, short_error
from icectl.pipeline.id_columns import IdSet, union
from icectl.pipeline.listings import Listing, Listings
from icectl.pipeline.objects import GarbageSet, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.readers import count_readers
from icectl.pipeline.references import MarkedManifest, mark_manifest
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

LOCAL_READERS = 2
REMOTE_READERS = 32
REFERENCES_AT_ONCE = 4_000_000
BATCH_BYTES = 2**20
BATCH_MANIFESTS = 64


class LocalEngine:
    name = "local"

    def sweep_chunks(self, sweep: Sweep, listings: Listings, progress: Progress) -> SweptChunks:
        storage = sweep.storage
        listings.begin(ObjectKind.CHUNK)
        marked = mark_manifests(storage, sweep.claims, progress, with_ends=sweep.with_ends)
        kept = union([manifest.ids for manifest in marked])
        if not sweep.with_ends:
            marked.clear()  # only the union is needed
        chunks = listings.wait_for(ObjectKind.CHUNK)
        _check_chunks_present(kept, marked, chunks, sweep.known_missing)
        garbage = find_garbage(storage, chunks, kept, sweep.cutoff, progress)
        return SweptChunks(garbage, len(chunks), chunks.foreign)

    def spare_chunks(
        self,
        garbage: GarbageSet,
        storage: Storage,
        claims: Collection[ManifestClaim],
        progress: Progress,
    ) -> GarbageSet:
        marked = mark_manifests(storage, claims, progress)
        return garbage.without(union([manifest.ids for manifest in marked]))


def mark_manifests(
    storage: Storage,
    claims: Collection[ManifestClaim],
    progress: Progress,
    *,
    with_ends: bool = False,
) -> list[MarkedManifest]:
    def read_and_mark(batch: list[ManifestClaim]) -> list[MarkedManifest]:
        return [
            mark_manifest(_read_manifest(storage, claim), claim, with_ends=with_ends)
            for claim in batch
        ]

    marked: list[MarkedManifest] = []
    remote = storage.is_object_store
    workers = count_readers(
        storage,
        (claim.num_chunk_refs for claim in claims),
        local=LOCAL_READERS,
        remote=REMOTE_READERS,
        at_once=REFERENCES_AT_ONCE,
    )
    batches = (
        [[claim] for claim in claims] if remote else in_groups(claims, BATCH_BYTES, BATCH_MANIFESTS)
    )
    with progress.phase("reading manifests", len(claims)) as counter:
        for manifests in map_on_threads(read_and_mark, batches, workers=workers, ahead=2 * workers):
            progress.check_time()
            marked += manifests
            counter.advance(len(manifests))
    return marked


def in_groups(
    claims: Iterable[ManifestClaim], most_bytes: int, most_manifests: int
) -> Iterator[list[ManifestClaim]]:
    """Small files together: handing one to a thread costs more than reading it from a disk."""
    batch: list[ManifestClaim] = []
    size = 0
    for claim in claims:
        batch.append(claim)
        size += claim.size_bytes
        if size > most_bytes or len(batch) == most_manifests:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read_manifest(storage: Storage, claim: ManifestClaim) -> bytes:
    try:
        return storage.read(claim.path)
    except ObjectNotFoundError:
        raise FormatError("the manifest is missing", path=claim.path) from None


def _check_chunks_present(
    kept: IdSet, marked: Iterable[MarkedManifest], chunks: Listing, known_missing: frozenset[str]
) -> None:
    check_present(kept, chunks, known_missing, MISSING_CHUNK)
    if chunks.size is None:
        return
    for manifest in marked:
        assert manifest.end is not None
        rows = chunks.ids.find(manifest.ids)
        there = rows >= 0
        size, end = chunks.size[rows[there]], manifest.end[there]
        short = np.flatnonzero(size < end)
        for row, name in zip(short, manifest.ids[there][short].to_names(), strict=True):
            path = chunks.kind.path(name)
            if path not in known_missing:
                raise short_error(path, int(size[row]), int(end[row]))
