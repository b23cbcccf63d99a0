"""Where references and chunks are looked at: the levels that can be huge.

Refs, snapshots and transaction logs are the same code for every engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from icectl.checks.rules import Level
from icectl.errors import Hint
from icectl.model.manifest import Manifest
from icectl.ops.validate.chunks import NeededChunks, check_chunks
from icectl.ops.validate.data import check_data
from icectl.ops.validate.findings import Report
from icectl.ops.validate.manifests import check_manifests
from icectl.ops.validate.metadata import Metadata
from icectl.ops.validate.result import CheckedCounts
from icectl.ops.validate.sampling import Sample
from icectl.ops.validate.virtual import Sources, Trust, check_virtual
from icectl.pipeline.progress import Progress
from icectl.repository.containers import read_containers
from icectl.repository.history import History
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Depths:
    """What is to be looked at, as the metadata level found it."""

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


class Engine(Protocol):
    @property
    def name(self) -> str: ...

    def check(self, depths: Depths, report: Report, progress: Progress) -> CheckedCounts:
        """Manifests and, as deep as the level goes, chunks; how many were looked at."""


class LocalEngine:
    name = "local"

    def check(self, depths: Depths, report: Report, progress: Progress) -> CheckedCounts:
        repository, metadata = depths.repository, depths.metadata
        needed = NeededChunks(repository, metadata)
        sources = Sources(read_containers(repository))

        def visit(manifest: Manifest) -> None:
            if depths.level >= Level.CHUNKS:
                needed.add(manifest)
            if depths.open_source is not None:
                sources.add(manifest)

        manifests = check_manifests(repository, metadata, report, progress, visit)
        checked = CheckedCounts(
            manifests=manifests.num_manifests, chunk_refs=manifests.num_chunk_refs
        )
        if depths.level >= Level.CHUNKS:
            if needed.has_long_ids:
                depths.notes.append("the chunk files of this early generation were not looked for")
            else:
                count = check_chunks(repository, depths.history, needed, report, progress)
                checked = replace(checked, chunks=count)
        if depths.level >= Level.DATA:
            count = check_data(
                repository.storage,
                needed,
                depths.sample,
                depths.now,
                report,
                progress,
                decode=depths.decode,
            )
            checked = replace(checked, chunks_read=count)
        if depths.open_source is not None:
            trust = Trust(sources.containers, depths.allowed_sources)
            count = check_virtual(
                metadata, sources, depths.open_source, trust, report, progress, depths.notes
            )
            checked = replace(
                checked,
                virtual_sources=count,
                virtual_sources_skipped=trust.num_uncovered + trust.num_local,
            )
        return checked
