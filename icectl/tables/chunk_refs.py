"""The table `chunk_refs`: one row for each chunk reference of the chosen snapshots.

A manifest is read once, however many snapshots share it; manifests of arrays that cannot
match are not read at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icectl.errors import FormatError
from icectl.format.manifest import decode_locations
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import ChunkRefs, Manifest, RefKind, Spans
from icectl.model.snapshot import ArrayNodeData
from icectl.pipeline.read_ahead import read_ahead
from icectl.pipeline.units import Unit, split
from icectl.repository.repository import Repository
from icectl.tables.arrow import (
    ROWS_IN_BATCH,
    coordinate_lists,
    id_texts,
    integers,
    masked,
    repeated,
    spans_binary,
    spans_texts,
    times_of_seconds,
)
from icectl.tables.schemas import TEXT, TIME
from icectl.tables.scope import Conditions, Scope, admits, select_versions

KINDS = ("native", "inline", "virtual", "virtual")
"""By `RefKind`: how a location is compressed is the manifest's own affair."""
BYTES_PER_REFERENCE = 16
MANIFESTS_AHEAD = 2


@dataclass(frozen=True, slots=True)
class ManifestUse:
    """A manifest, and the arrays of each snapshot that refer to it."""

    id: ManifestId
    uses: tuple[tuple[SnapshotId, tuple[tuple[NodeId, str], ...]], ...]


def plan(repository: Repository, scope: Scope, conditions: Conditions) -> list[Unit]:
    uses: dict[ManifestId, dict[SnapshotId, list[tuple[NodeId, str]]]] = {}
    sizes: dict[ManifestId, tuple[int, int]] = {}
    ids = [info.id for info in select_versions(repository, scope, conditions)]
    for snapshot_id, snapshot in read_ahead(repository.read_snapshot, ids):
        for info in snapshot.all_manifest_files:
            sizes[info.id] = (info.size_bytes, info.num_chunk_refs)
        for node in snapshot.nodes:
            if not isinstance(node.node_data, ArrayNodeData):
                continue
            if not admits(conditions, "path", node.path):
                continue
            for manifest_id in dict.fromkeys(ref.object_id for ref in node.node_data.manifests):
                of_manifest = uses.setdefault(manifest_id, {})
                of_manifest.setdefault(snapshot_id, []).append((node.id, node.path))

    def weigh(use: ManifestUse) -> tuple[int, int]:
        size, references = sizes.get(use.id, (0, 0))
        rows = references * len(use.uses)
        return max(size, rows * BYTES_PER_REFERENCE), rows

    return split(
        (
            ManifestUse(manifest_id, tuple((id_, tuple(nodes)) for id_, nodes in of.items()))
            for manifest_id, of in uses.items()
            if admits(conditions, "manifest_id", manifest_id)
        ),
        weigh,
    )


def read(
    repository: Repository,
    items: Sequence[ManifestUse],
    columns: Sequence[str],
    conditions: Conditions,
) -> Iterator[Any]:
    kinds = [admits(conditions, "kind", kind) for kind in KINDS]
    ids = (use.id for use in items)
    manifests = read_ahead(repository.read_manifest, ids, ahead=MANIFESTS_AHEAD)
    for use, (manifest_id, manifest) in zip(items, manifests, strict=True):
        try:
            for array in manifest.arrays:
                owners = [
                    (snapshot_id, path)
                    for snapshot_id, nodes in use.uses
                    for node_id, path in nodes
                    if node_id == array.node_id
                ]
                if owners:
                    refs = _matching(array.refs, kinds)
                    named = _Named(owners, array.node_id, manifest_id)
                    yield from _batches(manifest, refs, named, columns)
        except FormatError as error:
            raise error.at(repository.layout.manifest(manifest_id)) from None


@dataclass(frozen=True, slots=True)
class _Named:
    owners: list[tuple[SnapshotId, str]]
    node_id: NodeId
    manifest_id: ManifestId


def _matching(refs: ChunkRefs, kinds: list[bool]) -> ChunkRefs:
    if all(kinds):
        return refs
    return refs.take(np.flatnonzero(np.array(kinds)[refs.kind]))


def _batches(
    manifest: Manifest, refs: ChunkRefs, named: _Named, columns: Sequence[str]
) -> Iterator[Any]:
    for start in range(0, len(refs), ROWS_IN_BATCH):
        count = min(ROWS_IN_BATCH, len(refs) - start)
        block = refs.take(np.arange(start, start + count))
        built = {name: _COLUMNS[name](manifest, block) for name in columns if name in _COLUMNS}
        for snapshot_id, path in named.owners:
            texts = {
                "snapshot_id": str(snapshot_id),
                "path": path,
                "node_id": str(named.node_id),
                "manifest_id": str(named.manifest_id),
            }
            arrays = [
                built[name] if name in built else repeated(texts[name], count) for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _kinds(_manifest: Manifest, refs: ChunkRefs) -> Any:
    return pa.array(KINDS, TEXT).take(pa.array(refs.kind))


def _chunk_ids(_manifest: Manifest, refs: ChunkRefs) -> Any:
    return masked(id_texts(refs.chunk_id), refs.kind == RefKind.NATIVE)


def _offsets(_manifest: Manifest, refs: ChunkRefs) -> Any:
    return masked(integers(refs.offset), refs.kind != RefKind.INLINE)


def _lengths(_manifest: Manifest, refs: ChunkRefs) -> Any:
    inline = refs.kind == RefKind.INLINE
    return integers(np.where(inline, refs.content.length, refs.length).astype(np.uint64))


def _etags(_manifest: Manifest, refs: ChunkRefs) -> Any:
    spans = refs.checksum_etag
    if spans is None:
        return pa.nulls(len(refs), TEXT)
    return masked(spans_texts(spans, "the checksum of a reference"), spans.start != 0)


def _last_modified(_manifest: Manifest, refs: ChunkRefs) -> Any:
    if refs.checksum_last_modified is None:
        return pa.nulls(len(refs), TIME)
    return times_of_seconds(refs.checksum_last_modified)


def _locations(manifest: Manifest, refs: ChunkRefs) -> Any:
    """Many chunks lie in one file, so that only distinct locations are unfolded."""
    codes = np.full(len(refs), -1, np.int64)
    texts: list[str | None] = []
    for kind in (RefKind.VIRTUAL, RefKind.VIRTUAL_COMPRESSED):
        rows = np.flatnonzero(refs.kind == kind)
        if not len(rows):
            continue
        found, first = _distinct(refs.content.take(rows))
        codes[rows] = found + len(texts)
        texts += decode_locations(manifest, refs.take(rows[first]))
    if not texts:
        return pa.nulls(len(refs), TEXT)
    return pa.array(texts, TEXT).take(pa.array(codes, mask=codes < 0))


def _distinct(spans: Spans) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """A number for each row, equal for equal bytes, and a row of each number."""
    encoded = spans_binary(spans).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    _, first = np.unique(codes, return_index=True)
    return codes, first


_COLUMNS: dict[str, Callable[[Manifest, ChunkRefs], Any]] = {
    "coordinates": lambda _manifest, refs: coordinate_lists(refs.coordinates),
    "kind": _kinds,
    "chunk_id": _chunk_ids,
    "location": _locations,
    "offset": _offsets,
    "length": _lengths,
    "etag": _etags,
    "last_modified": _last_modified,
}
