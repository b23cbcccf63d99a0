"""Which chunks of which array the lost chunk files were."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from icectl.checks.problem import UNREADABLE
from icectl.errors import ObjectNotFoundError
from icectl.model.ids import ChunkId, ManifestId, NodeId
from icectl.model.manifest import RefKind
from icectl.ops.validate.findings import Report
from icectl.ops.validate.metadata import Metadata
from icectl.pipeline.id_columns import id_columns, id_set
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.repository import Repository

MOST_MANIFESTS = 1000
"""That are read again to find coordinates."""
MOST_COORDINATES = 100
"""Of one chunk file, which is mostly one chunk; a reindexed array can use it several times."""


def add_coordinates(
    repository: Repository, metadata: Metadata, report: Report, progress: Progress
) -> None:
    """Complete the problems of chunk files, as far as their arrays are known."""
    prefix = ObjectKind.CHUNK.path("")
    lost: dict[ChunkId, list[int]] = {}
    paths: set[str] = set()
    for row, (problem, _) in enumerate(report.problems):
        if problem.object.startswith(prefix) and problem.path is not None:
            try:
                chunk_id = ChunkId.parse(problem.object.removeprefix(prefix))
            except ValueError:
                continue
            lost.setdefault(chunk_id, []).append(row)
            paths.add(problem.path)
    if not lost:
        return
    # Sorted, like the rows of the set.
    ordered = sorted(lost)
    ids = id_set(ordered)
    found: dict[ChunkId, set[tuple[int, ...]]] = defaultdict(set)
    manifests = _manifests_of(metadata, paths)
    with progress.phase("locating lost chunks", len(manifests)) as counter:
        for manifest_id in manifests:
            counter.advance()
            try:
                manifest = repository.read_manifest(manifest_id)
            except (ObjectNotFoundError, *UNREADABLE):
                continue
            for array in manifest.arrays:
                native = (array.refs.kind == RefKind.NATIVE).nonzero()[0]
                places = ids.find(id_columns(array.refs.chunk_id[native]))
                for hit in (places >= 0).nonzero()[0].tolist():
                    row = array.refs.coordinates[native[hit]].tolist()
                    found[ordered[int(places[hit])]].add(tuple(row))
    for chunk_id, rows in lost.items():
        coordinates = tuple(sorted(found[chunk_id])[:MOST_COORDINATES])
        for row in rows:
            problem, snapshots = report.problems[row]
            report.problems[row] = replace(problem, chunks=coordinates), snapshots


def _manifests_of(metadata: Metadata, paths: set[str]) -> list[ManifestId]:
    """Those of the arrays that are, or were, at one of these paths."""
    nodes: set[NodeId] = {
        use.node_id for uses in metadata.uses.values() for use in uses if use.path in paths
    }
    return [
        manifest_id
        for manifest_id, uses in metadata.uses.items()
        if any(use.node_id in nodes for use in uses)
    ][:MOST_MANIFESTS]
