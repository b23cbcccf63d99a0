"""A snapshot as columns: one row for each node, and no object for any of them.

Lists of a node (manifests, dimensions) are stored one after the other in node order; `first` has
the row at which each node's list begins, and one more for the end of the last.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from operator import sub
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from icectl.model.ids import ManifestId, NodeId, ObjectId, SnapshotId
from icectl.model.manifest import Spans
from icectl.model.snapshot import (
    ArrayNodeData,
    GroupNodeData,
    ManifestFileInfo,
    NodeSnapshot,
    Snapshot,
    is_parent_lost,
)
from icectl.model.values import MetadataItem, UnknownField

_CLAIM = struct.Struct("<QI")

ARRAY, GROUP = 1, 2
"""`kind` of a node. Other numbers are kinds that this version of icectl does not know."""

Id = TypeVar("Id", bound=ObjectId)
Slices = TypeVar("Slices", bytes, list[tuple[bool, bytes]])
Firsts = NDArray[np.int64]
Ids = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class NodeColumns:
    id: Ids
    """(n, 8)"""
    path: Spans
    user_data: Spans
    """The `zarr.json` of each node."""
    kind: NDArray[np.uint8]
    first_dimension: Firsts
    """(n + 1)"""
    array_length: NDArray[np.uint64]
    num_chunks: NDArray[np.uint64]
    """As in `ArrayNodeData`: of `shape_v2`, or else of `shape`."""
    chunk_length: NDArray[np.uint64]
    """Of `shape`; 0 in version 2."""
    uses_shape_v1: NDArray[np.bool_]
    has_shape_v2: NDArray[np.bool_]
    first_name: Firsts
    """(n + 1)"""
    dimension_name: Spans
    """The span of a dimension without a name starts at 0."""
    has_names: NDArray[np.bool_]
    first_manifest: Firsts
    """(n + 1)"""
    manifest_id: Ids
    """(manifests, 12), one row for each reference of a node to a manifest."""
    first_extent: Firsts
    """(manifests + 1)"""
    extents: NDArray[np.uint32]
    """(extents, 2): from (inclusive) and to (exclusive)."""
    extra: Spans
    """The span of a node without extra bytes starts at 0."""
    read: Callable[[int], NodeSnapshot]
    """Return the node of a row as an object."""

    def __len__(self) -> int:
        return len(self.kind)

    def ids(self) -> list[NodeId]:
        return id_rows(NodeId, self.id)

    def paths(self) -> list[str]:
        return [path.decode() for path in self.path.to_list()]

    def is_array(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.kind == ARRAY
        return found

    def names(self) -> Hashable:
        """Return a value that is equal if and only if the nodes have the same ids, paths, kinds."""
        return self.id.tobytes(), self.kind.tobytes(), tuple(self.path.to_list())

    def new_references(self, seen: set[bytes]) -> Iterator[tuple[NodeId, ManifestId, int]]:
        """Yield the references of arrays to manifests that are not in `seen`, and add them to it.

        The number is that of the chunks in the extents.
        """
        nodes = np.repeat(np.arange(len(self)), np.diff(self.first_manifest))
        dimensions = np.diff(self.first_extent)
        for count in set(dimensions.tolist()):
            rows = np.flatnonzero(dimensions == count)
            extents = self.extents[self.first_extent[rows][:, None] + np.arange(count)]
            parts = (self.id[nodes[rows]], self.manifest_id[rows])
            matrices = (*parts, extents.view(np.uint8).reshape(len(rows), 8 * count))
            records = byte_rows(np.concatenate(matrices, axis=1))
            new = set(records) - seen
            seen |= new
            at = parts[0].shape[1]
            end = at + parts[1].shape[1]
            for record in new:
                bounds = struct.unpack_from(f"<{2 * count}I", record, end)
                lengths = map(sub, bounds[1::2], bounds[::2])
                yield NodeId(record[:at]), ManifestId(record[at:end]), prod(lengths)

    def manifest_lists(self) -> list[tuple[bytes, ...]]:
        """Return a value for each node, equal if and only if its list of manifests is."""
        extents = self.first_extent[self.first_manifest]
        ids = cut(self.manifest_id.tobytes(), self.first_manifest * self.manifest_id.shape[1])
        counts = cut(np.diff(self.first_extent).tobytes(), self.first_manifest * 8)
        return list(zip(ids, counts, cut(self.extents.tobytes(), extents * 8), strict=True))

    def contents(self) -> list[tuple[Hashable, ...]]:
        """Return a value for each node, equal if and only if the nodes are."""
        shapes = np.array((self.array_length, self.num_chunks, self.chunk_length)).T
        flags = (self.has_shape_v2, self.has_names, self.extra.start > 0, self.uses_shape_v1)
        names = list(
            zip(
                (self.dimension_name.start > 0).tolist(), self.dimension_name.to_list(), strict=True
            )
        )
        # The columns do not have all of a damaged array with both shapes: it is equal to none.
        strange = (self.has_shape_v2 & self.uses_shape_v1).tolist()
        return list(
            zip(
                byte_rows(self.id),
                self.path.to_list(),
                self.user_data.to_list(),
                self.kind.tolist(),
                zip(*(flag.tolist() for flag in flags), strict=True),
                cut(shapes.tobytes(), self.first_dimension * 24),
                map(tuple, cut(names, self.first_name)),
                self.manifest_lists(),
                self.extra.to_list(),
                [object() if is_strange else None for is_strange in strange],
                strict=True,
            )
        )


@dataclass(frozen=True, slots=True, eq=False)
class ManifestFileColumns:
    """What a snapshot claims about its manifest files."""

    id: Ids
    """(n, 12)"""
    size_bytes: NDArray[np.uint64]
    num_chunk_refs: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.id)

    def ids(self) -> list[ManifestId]:
        return id_rows(ManifestId, self.id)

    def claims(self) -> list[bytes]:
        """Return one record for each file: its id, then 12 bytes with the size and the count."""
        return byte_rows(
            np.concatenate(
                (
                    self.id,
                    self.size_bytes.astype("<u8").view(np.uint8).reshape(-1, 8),
                    self.num_chunk_refs.astype("<u4").view(np.uint8).reshape(-1, 4),
                ),
                axis=1,
            )
        )

    def infos(self) -> list[ManifestFileInfo]:
        return [
            ManifestFileInfo(id_, size, count)
            for id_, size, count in zip(
                self.ids(), self.size_bytes.tolist(), self.num_chunk_refs.tolist(), strict=True
            )
        ]

    def new_infos(self, seen: set[bytes]) -> list[ManifestFileInfo]:
        """Return the claims that are not in `seen`, and add them to it.

        Neighbouring snapshots have most of their manifests in common.
        """
        records = self.claims()
        new = set(records) - seen
        seen |= new
        return [
            claimed_info(record)
            for record in (dict.fromkeys(records) if new else ())
            if record in new
        ]


def claimed_info(record: bytes) -> ManifestFileInfo:
    """Return the info of one record of `claims`."""
    return ManifestFileInfo(ManifestId(record[:-12]), *_CLAIM.unpack(record[-12:]))


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotColumns:
    spec_version: int
    """From the file's header."""
    id: SnapshotId
    parent_id: SnapshotId | None
    nodes: NodeColumns
    flushed_at: int
    message: str
    metadata: tuple[MetadataItem, ...]
    manifest_files: ManifestFileColumns
    """Those of version 1, then those of version 2."""
    num_manifest_files_v1: int
    has_manifest_files_v2: bool
    extra: bytes | None = None
    unknown_fields: tuple[UnknownField, ...] = ()

    @property
    def all_manifest_files(self) -> tuple[ManifestFileInfo, ...]:
        return tuple(self.manifest_files.infos())

    @property
    def has_lost_parent(self) -> bool:
        return is_parent_lost(self.id, self.parent_id, len(self.nodes))


def cut(values: Slices, places: Firsts) -> list[Slices]:
    """Return the values between each place and the next."""
    return [values[first:last] for first, last in pairwise(places.tolist())]


def byte_rows(rows: Ids) -> list[bytes]:
    """Return each row of a matrix of bytes."""
    if not rows.size:
        return [b""] * len(rows)
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return found


def id_rows(id_type: type[Id], rows: Ids) -> list[Id]:
    """Return each row as an id, with one check of the size for all."""
    if len(rows):
        id_type(rows[0].tobytes())
    new = bytes.__new__
    return [new(id_type, row) for row in byte_rows(rows)]


def columns_of(snapshot: Snapshot) -> SnapshotColumns:
    """Return a decoded snapshot as columns: small ones, and those of early generations."""
    nodes, files = snapshot.nodes, snapshot.all_manifest_files
    arrays = [
        node.node_data if isinstance(node.node_data, ArrayNodeData) else None for node in nodes
    ]
    manifests = [() if array is None else array.manifests for array in arrays]
    names = [() if array is None else array.dimension_names or () for array in arrays]
    shapes = [() if array is None else array.array_shape for array in arrays]
    refs = [ref for of_node in manifests for ref in of_node]
    return SnapshotColumns(
        snapshot.spec_version,
        snapshot.id,
        snapshot.parent_id,
        NodeColumns(
            _matrix([node.id for node in nodes], 8),
            _spans([node.path.encode() for node in nodes]),
            _spans([node.user_data for node in nodes]),
            np.array([_kind(node) for node in nodes], np.uint8),
            _firsts(shapes),
            np.array([length for shape in shapes for length in shape], np.uint64),
            np.array([n for array in arrays if array for n in array.num_chunks], np.uint64),
            np.array([n for array in arrays if array for n in _chunk_lengths(array)], np.uint64),
            np.array([bool(array and array.shape) for array in arrays], np.bool_),
            np.array([bool(array and array.shape_v2 is not None) for array in arrays], np.bool_),
            _firsts(names),
            _spans([None if name is None else name.encode() for one in names for name in one]),
            np.array(
                [bool(array and array.dimension_names is not None) for array in arrays], np.bool_
            ),
            _firsts(manifests),
            _matrix([ref.object_id for ref in refs], 12),
            _firsts([ref.extents for ref in refs]),
            np.array(
                [(extent.from_, extent.to) for ref in refs for extent in ref.extents], np.uint32
            ).reshape(-1, 2),
            _spans([node.extra for node in nodes]),
            nodes.__getitem__,
        ),
        snapshot.flushed_at,
        snapshot.message,
        snapshot.metadata,
        ManifestFileColumns(
            _matrix([file.id for file in files], 12),
            np.array([file.size_bytes for file in files], np.uint64),
            np.array([file.num_chunk_refs for file in files], np.uint32),
        ),
        len(snapshot.manifest_files),
        snapshot.manifest_files_v2 is not None,
        snapshot.extra,
        snapshot.unknown_fields,
    )


def _kind(node: NodeSnapshot) -> int:
    if isinstance(node.node_data, ArrayNodeData):
        return ARRAY
    return GROUP if isinstance(node.node_data, GroupNodeData) else node.node_data.type_code


def _matrix(rows: list[Any], size: int) -> Ids:
    width = len(rows[0]) if rows else size
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, width)


def _chunk_lengths(array: ArrayNodeData) -> list[int]:
    if array.shape_v2 is not None:
        return [0] * len(array.shape_v2)
    return [dimension.chunk_length for dimension in array.shape]


def _spans(texts: Sequence[bytes | None]) -> Spans:
    """Where there is no text, the span starts at 0, which is before the first text."""
    lengths = [len(text or b"") for text in texts]
    places = zip(accumulate(lengths, initial=1), texts, strict=False)
    starts = [0 if text is None else start for start, text in places]
    data = b"\0" + b"".join(filter(None, texts))
    return Spans(data, np.array(starts, np.uint32), np.array(lengths, np.uint32))


def _firsts(lists: list[Any]) -> Firsts:
    return np.array([0, *accumulate(map(len, lists))], np.int64)
