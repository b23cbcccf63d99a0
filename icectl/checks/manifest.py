"""A manifest file compared with the specification and with what snapshots claim. Pure.

`check_manifest` checks all of it. gc decodes only the ids of native chunks; it checks the size,
the id and the count with the same functions (see `pipeline.references`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icectl.checks import rules
from icectl.checks.order import first_disorder, first_row_in_disorder
from icectl.checks.problem import UNREADABLE, Found, Problem, unreadable, wrong_id
from icectl.checks.rules import Rule
from icectl.errors import FormatError
from icectl.format.columns import ColumnReader
from icectl.format.envelope import FileType, decode_flatbuffers_envelope
from icectl.format.manifest import decode_manifest
from icectl.format.reader import Reader
from icectl.format.schema import CHUNK_REF, MANIFEST
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind
from icectl.model.snapshot import ChunkIndexRange, ManifestFileInfo
from icectl.pipeline.id_columns import id_columns, sort_order
from icectl.pipeline.locations import number_locations
from icectl.repository.layout import STANDARD

_KINDS = ("inline", "chunk_id", "location", "compressed_location")
_KIND_PLACES = [place for place, field in enumerate(CHUNK_REF.fields) if field.name in _KINDS]

Extents = tuple[ChunkIndexRange, ...]


@dataclass(frozen=True, slots=True)
class ManifestClaim:
    """What the snapshots say about a manifest file."""

    id: ManifestId
    size_bytes: int
    num_chunk_refs: int

    @classmethod
    def of(cls, file: ManifestFileInfo) -> ManifestClaim:
        return cls(file.id, file.size_bytes, file.num_chunk_refs)

    @property
    def path(self) -> str:
        return STANDARD.manifest(self.id)


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """A manifest as one array refers to it."""

    node_id: NodeId
    path: str
    extents: Extents
    zarr_jsons: tuple[bytes, ...] = ()
    """Empty unless the array's inline chunks are to be decoded."""


def check_same_claim(
    claim: ManifestClaim,
    known: ManifestClaim,
    snapshot_id: SnapshotId,
    known_from: object = "another snapshot",
) -> Iterator[Problem]:
    """All snapshots that refer to a manifest agree on its size and count."""
    if claim != known:
        yield Problem(
            rules.MANIFEST_CLAIMS,
            STANDARD.snapshot(snapshot_id),
            f"the size or count of the manifest {claim.id} is not the one in {known_from}",
        )


def check_manifest_size(claim: ManifestClaim, size: int) -> Iterator[Problem]:
    if size != claim.size_bytes:
        detail = f"the file has {size} bytes, its snapshots say {claim.size_bytes}"
        yield Problem(rules.MANIFEST_SIZE, claim.path, detail)


def check_manifest_id(claim: ManifestClaim, found: ManifestId) -> Iterator[Problem]:
    if found != claim.id:
        yield wrong_id(rules.MANIFEST_ID, claim.path, found)


def check_manifest_count(claim: ManifestClaim, count: int) -> Iterator[Problem]:
    if count != claim.num_chunk_refs:
        detail = f"the file has {count} references, its snapshots say {claim.num_chunk_refs}"
        yield Problem(rules.MANIFEST_COUNT, claim.path, detail)


def check_manifest(
    data: bytes, claim: ManifestClaim, uses: Collection[ArrayUse]
) -> tuple[Manifest | None, list[Problem]]:
    """The manifest, if it can be used, and all its problems."""
    try:
        manifest = decode_manifest(data)
    except UNREADABLE as error:
        return None, [unreadable(_diagnose(data), claim.path, error)]
    problems = [*check_manifest_id(claim, manifest.id)]
    if problems:
        return None, problems
    problems += check_manifest_count(claim, manifest.num_chunk_refs)
    if first_disorder([array.node_id for array in manifest.arrays]) is not None:
        problems.append(Problem(rules.MANIFEST_ARRAYS, claim.path, "the node ids are not sorted"))
    problems += (
        Problem(rule, claim.path, detail, path)
        for rule, detail, path in _check_arrays(manifest, uses)
    )
    return manifest, problems


def _diagnose(data: bytes) -> Rule:
    """The rule that made the decoder fail."""
    try:
        envelope = decode_flatbuffers_envelope(data, FileType.MANIFEST)
        reader = Reader(envelope.payload, file_size=envelope.file_size)
        columns = ColumnReader(reader)
        for array in reader.read_root(MANIFEST).arrays:
            for _, _, places in columns.groups(CHUNK_REF, *array.refs):
                if sum(1 for place in _KIND_PLACES if places[place]) != 1:
                    return rules.REFERENCE_KIND
    except UNREADABLE:
        pass
    return rules.MANIFEST_UNREADABLE


def _check_arrays(manifest: Manifest, uses: Collection[ArrayUse]) -> Iterator[Found]:
    by_node: dict[bytes, list[ArrayUse]] = {}
    for use in sorted(uses, key=lambda use: use.path):
        by_node.setdefault(use.node_id, []).append(use)
    for node_id in by_node.keys() - {array.node_id for array in manifest.arrays}:
        yield (
            rules.ARRAY_UNREFERENCED,
            "it has no references in the manifest",
            by_node[node_id][0].path,
        )
    for array in manifest.arrays:
        mine = by_node.get(array.node_id, [])
        path = mine[0].path if mine else None
        for rule, detail in (
            *_check_order(array.refs.coordinates),
            *(found for use in mine for found in _check_extents(array, use)),
            *_check_references(array.refs),
            *_check_native(array.refs),
            *_check_locations(manifest, array.refs),
        ):
            yield rule, detail, path


def _check_order(coordinates: NDArray[np.uint32]) -> Iterator[tuple[Rule, str]]:
    row = first_row_in_disorder(coordinates)
    if row is None:
        return
    if (coordinates[row] == coordinates[row - 1]).all():
        yield rules.REFERENCE_TWICE, f"the chunk {coordinates[row].tolist()}"
        return
    shown = f"{coordinates[row].tolist()} after {coordinates[row - 1].tolist()}"
    yield rules.REFERENCE_ORDER, f"the chunk {shown}"
    distinct, counts = np.unique(coordinates, axis=0, return_counts=True)
    if (counts > 1).any():
        yield rules.REFERENCE_TWICE, f"the chunk {distinct[int(np.argmax(counts > 1))].tolist()}"


def _check_extents(array: ArrayManifest, use: ArrayUse) -> Iterator[tuple[Rule, str]]:
    coordinates = array.refs.coordinates
    if not len(coordinates) or not use.extents:
        return
    if coordinates.shape[1] != len(use.extents):
        yield (
            rules.REFERENCE_DIMENSIONS,
            f"{coordinates.shape[1]} dimensions in an array of {len(use.extents)}",
        )
        return
    for dimension, extent in enumerate(use.extents):
        column = coordinates[:, dimension]
        if int(column.min()) >= extent.from_ and int(column.max()) < extent.to:
            continue
        row = int(np.argmax((column < extent.from_) | (column >= extent.to)))
        ranges = ", ".join(f"{one.from_}:{one.to}" for one in use.extents)
        yield (
            rules.REFERENCE_EXTENTS,
            f"the chunk {coordinates[row].tolist()}; the manifest covers [{ranges}]",
        )
        return


def _check_references(refs: ChunkRefs) -> Iterator[tuple[Rule, str]]:
    lengths = np.where(refs.kind == RefKind.INLINE, refs.content.length, refs.length)
    empty = np.flatnonzero(lengths == 0)
    if len(empty):
        shown = refs.coordinates[empty[0]].tolist()
        yield rules.REFERENCE_EMPTY, f"the chunk {shown}, and {len(empty) - 1} more"
    if refs.checksum_etag is not None and refs.checksum_last_modified is not None:
        both = np.flatnonzero((refs.checksum_etag.start > 0) & (refs.checksum_last_modified > 0))
        if len(both):
            yield rules.REFERENCE_CHECKSUMS, f"the chunk {refs.coordinates[both[0]].tolist()}"


def _check_native(refs: ChunkRefs) -> Iterator[tuple[Rule, str]]:
    """Finds two references to the same bytes of one file."""
    rows = np.flatnonzero(refs.kind == RefKind.NATIVE)
    if len(rows) < 2 or refs.chunk_id.shape[1] != 12:
        return
    columns = id_columns(refs.chunk_id if len(rows) == len(refs) else refs.chunk_id[rows])
    high = np.sort(columns.high)
    # Random ids with equal first 8 bytes are the same id.
    if not (high[1:] == high[:-1]).any():
        return
    order = rows[sort_order(columns)]
    first, second = order[:-1], order[1:]
    same = (refs.chunk_id[first] == refs.chunk_id[second]).all(axis=1)
    apart = (refs.offset[first] + refs.length[first] <= refs.offset[second]) | (
        refs.offset[second] + refs.length[second] <= refs.offset[first]
    )
    shared = np.flatnonzero(same & ~apart)
    if len(shared):
        chunks = [refs.coordinates[side[shared[0]]].tolist() for side in (first, second)]
        yield rules.REFERENCE_SHARED, f"the chunks {chunks[0]} and {chunks[1]}"


def _check_locations(manifest: Manifest, refs: ChunkRefs) -> Iterator[tuple[Rule, str]]:
    try:
        numbered = number_locations(manifest, refs)
    except FormatError as error:
        yield rules.REFERENCE_LOCATION, error.reason
        return
    for number, location in enumerate(numbered.locations):
        if "://" not in location:
            row = numbered.rows[int(np.argmax(numbered.numbers == number))]
            chunk = refs.coordinates[row].tolist()
            yield rules.REFERENCE_LOCATION, f"{location!r} of the chunk {chunk} is not a URL"
            return
