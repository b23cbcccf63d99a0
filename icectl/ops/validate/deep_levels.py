"""The levels `manifests`, `chunks` and `data`, which can be huge and therefore run on an engine."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.checks.rules import Level
from icectl.errors import Hint
from icectl.model.ids import SnapshotId
from icectl.ops.validate.chunks import check_chunks, find_decidable
from icectl.ops.validate.findings import Report
from icectl.ops.validate.manifests import (
    CheckManifests,
    FilesInOrder,
    ManifestItem,
    ManifestNote,
    manifest_items,
    ordered_batches,
    report_notes,
    weigh_batch,
)
from icectl.ops.validate.metadata import Metadata
from icectl.ops.validate.result import CheckedCounts
from icectl.ops.validate.virtual import Sources, Trust, check_virtual
from icectl.pipeline.chunk_data import REFERENCED_CHUNKS, ReadData
from icectl.pipeline.engine import REFERENCES, Engine, Scan, Work
from icectl.pipeline.listings import Listings
from icectl.pipeline.local_engine import LARGE_MANIFEST, LocalEngine
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.sampling import Sample
from icectl.repository.containers import Containers, read_containers
from icectl.repository.history import History
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

CHUNK_READS_PER_TASK = 1000


@dataclass(frozen=True, slots=True)
class DeepCheck:
    """What to check, as the metadata level found it."""

    repository: Repository
    history: History
    metadata: Metadata
    level: Level
    decode: bool
    sample: Sample | None
    now: int
    open_source: Callable[[str], Storage] | None
    allowed_sources: tuple[str, ...]
    notes: list[Hint]
    """Receives what was not checked."""


def check_deep_levels(
    engine: Engine, check: DeepCheck, report: Report, progress: Progress
) -> CheckedCounts:
    """Check manifests and, as deep as the level says, chunks; return how many were checked."""
    try:
        return _check(engine, check, report, progress)
    finally:
        engine.release()


def _check(engine: Engine, check: DeepCheck, report: Report, progress: Progress) -> CheckedCounts:
    metadata, storage = check.metadata, check.repository.storage
    containers = read_containers(check.repository)
    manifests = manifest_items(metadata)
    with Listings(storage, progress) as listings:
        if check.level >= Level.CHUNKS:
            num_expected = sum(claim.num_chunk_refs for claim in metadata.claims.values())
            listed = engine.list_objects(storage, ObjectKind.CHUNK, listings, num_expected)
        in_order = _is_read_in_order(engine, check)
        work = _work(check, manifests, containers, in_order=in_order)
        scan = engine.scan(work, progress, is_reused=True)
        notes = scan.notes()
        checked = report_notes(notes, metadata, check.repository.layout, report)
        found = [note for note in notes if isinstance(note, ManifestNote)]
        if check.level >= Level.CHUNKS:
            if any(note.has_long_ids for note in found):
                check.notes.append("the chunk files of this early generation were not looked for")
            else:
                lost_manifests = sum(note.num_chunk_refs is None for note in found)
                orphans_of, why_not = find_decidable(
                    check.repository, check.history, metadata, lost_manifests, report
                )
                if why_not is not None and check.history.whole:
                    check.notes.append(why_not)
                count = check_chunks(
                    engine,
                    scan,
                    listed,
                    check.repository,
                    check.history,
                    metadata,
                    manifests,
                    report,
                    progress,
                    orphans_of=orphans_of,
                )
                checked = replace(checked, chunks=count)
    if check.level >= Level.DATA:
        checked = replace(checked, chunks_read=_check_data(scan, check, report))
    if check.open_source is not None:
        sources = Sources(containers)
        for note in found:
            sources.add(manifests[note.number].claim.id, note.sources)
        trust = Trust(containers, check.allowed_sources)
        count = check_virtual(
            metadata, sources, check.open_source, trust, report, progress, check.notes
        )
        checked = replace(
            checked,
            virtual_sources=count,
            virtual_sources_skipped=trust.num_uncovered + trust.num_local,
        )
    return checked


def _work(
    check: DeepCheck, manifests: list[ManifestItem], containers: Containers, *, in_order: bool
) -> Work:
    metadata, storage = check.metadata, check.repository.storage
    batches = ordered_batches(metadata, manifests)
    files = None
    if in_order:
        paths = [item.claim.path for batch in batches for item in batch.manifests]
        files = FilesInOrder(storage, paths)
    function = CheckManifests(
        check.repository.without_history(),
        {node_id: number for number, node_id in enumerate(metadata.arrays)},
        with_references=check.level >= Level.CHUNKS,
        containers=None if check.open_source is None else containers,
        files=files,
    )
    if storage.is_object_store and files is None:
        # Every batch begins after those that it needs; on a disk, reading again is faster.
        function.cache.expect(metadata.claims)
    return Work(
        "reading manifests",
        storage,
        batches,
        function,
        weigh_batch,
        {REFERENCES: REFERENCED_CHUNKS},
        references_at_once=1 if in_order else 1_000_000,
    )


def _is_read_in_order(engine: Engine, check: DeepCheck) -> bool:
    """Whether one thread decodes all manifests: for small ones, several only wait for each other.

    On object storage other threads read them ahead; a disk is as fast without.
    """
    claims, storage = check.metadata.claims.values(), check.repository.storage
    is_remote = engine.name == LocalEngine.name and storage.is_object_store
    return (
        is_remote
        and check.repository.is_writable
        and all(claim.num_chunk_refs < LARGE_MANIFEST for claim in claims)
    )


def _check_data(scan: Scan, check: DeepCheck, report: Report) -> int:
    """Read the chunks of the sample; return their number."""
    metadata, sample = check.metadata, check.sample
    if sample is not None and sample.share is None:
        sample = Sample(share=sample.share_of(scan.total(REFERENCES, "length")))
    arrays = [*map(metadata.decodable, metadata.arrays)] if check.decode else None
    read = ReadData(check.repository.storage, arrays, sample, check.now)
    manifests = [*metadata.claims]
    num_read = 0
    for note in scan.map_rows("reading chunks", REFERENCES, read, CHUNK_READS_PER_TASK):
        num_read += note.num_read
        for manifest, problem in note.problems:
            report.add(problem, _affected(problem, metadata.users[manifests[manifest]]))
    return num_read


def _affected(problem: Problem, users: Collection[SnapshotId]) -> Collection[SnapshotId]:
    """The versions that the problem affects: none if icectl could not decode the chunk."""
    return () if problem.rule in (rules.CODECS_UNKNOWN, rules.CHUNK_TOO_LARGE) else users
