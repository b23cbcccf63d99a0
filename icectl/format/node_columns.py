"""Decode snapshots as columns, with the same checks as `decode_snapshot`.

Every kind of table in the file is read with a few array operations, so a snapshot of ten thousand
arrays takes milliseconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.errors import FormatError
from icectl.format.columns import ColumnReader, Positions, Rows, spread
from icectl.format.envelope import Envelope, FileType, decode_flatbuffers_envelope
from icectl.format.kinds import Span
from icectl.format.reader import Reader, Table
from icectl.format.schema import (
    ARRAY_NODE_DATA,
    DIMENSION_NAME,
    DIMENSION_SHAPE_V2,
    GROUP_NODE_DATA,
    MANIFEST_FILE_INFO_V2,
    MANIFEST_REF,
    NODE_SNAPSHOT,
    SNAPSHOT,
    RawSnapshot,
)
from icectl.format.snapshot import decode_payload
from icectl.model.manifest import Spans
from icectl.model.node_columns import (
    ARRAY,
    GROUP,
    Firsts,
    ManifestFileColumns,
    NodeColumns,
    SnapshotColumns,
    columns_of,
)
from icectl.model.snapshot import NodeSnapshot

SMALL_PAYLOAD = 2**14
"""Smaller snapshots, which have a few dozen nodes at most, are decoded faster as objects."""

_FILE_INFO = np.dtype(
    {
        "names": ["id", "size_bytes", "num_chunk_refs"],
        "formats": ["V12", "<u8", "<u4"],
        "offsets": [0, 16, 24],
        "itemsize": 32,
    }
)
_SPANS = {
    "nodes": Span(),
    "manifest_files": Span(_FILE_INFO.itemsize, 8),
    "manifest_files_v2": Span(optional=True),
}
_ROOT = Table(
    SNAPSHOT.name,
    RawSnapshot,
    [replace(field, kind=_SPANS.get(field.name, field.kind)) for field in SNAPSHOT.fields],
)


def decode_snapshot_columns(data: bytes) -> SnapshotColumns:
    return decode_columns(decode_flatbuffers_envelope(data, FileType.SNAPSHOT))


def decode_columns(envelope: Envelope) -> SnapshotColumns:
    assert envelope.header is not None
    if len(envelope.payload) < SMALL_PAYLOAD:
        return columns_of(decode_payload(envelope))
    reader = Reader(envelope.payload, file_size=envelope.file_size)
    raw: RawSnapshot = reader.read_root(_ROOT)
    files_v2: tuple[int, int] = raw.manifest_files_v2 or (0, 0)
    columns = ColumnReader(reader)
    return SnapshotColumns(
        envelope.header.spec_version,
        raw.id,
        raw.parent_id,
        _decode_nodes(columns, *raw.nodes),
        raw.flushed_at,
        raw.message,
        raw.metadata,
        _decode_files(columns, raw.manifest_files, files_v2),
        raw.manifest_files[1],
        raw.manifest_files_v2 is not None,
        raw.extra,
        reader.unknown_fields,
    )


class _Lists:
    """One vector for each row; empty where none was put."""

    def __init__(self, rows: int) -> None:
        self.start = np.zeros(rows, np.int64)
        self.count = np.zeros(rows, np.int64)
        self.is_present = np.zeros(rows, np.bool_)

    def put(
        self,
        columns: ColumnReader,
        rows: Rows,
        slots: Positions,
        size: int,
        what: str,
        *,
        align: int = 4,
    ) -> None:
        self.start[rows], self.count[rows] = columns.vectors(slots, size, what, align=align)
        self.is_present[rows] = True
        columns.reader.spend_elements(int(self.count[rows].sum()), int(slots[0]))

    def elements(self, size: int) -> Positions:
        return spread(self.start, self.count, size)

    def firsts(self) -> Firsts:
        return _firsts(self.count)


def _firsts(counts: NDArray[np.int64]) -> Firsts:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def _decode_nodes(columns: ColumnReader, start: int, count: int) -> NodeColumns:
    reader = columns.reader
    reader.spend_elements(count, start)
    ids = np.empty((count, 8), np.uint8)
    path, user_data, extra = (_empty_spans(columns, count) for _ in range(3))
    kind = np.empty(count, np.uint8)
    data = np.empty(count, np.int64)
    positions = columns.follow(spread(np.array([start]), np.array([count]), 4))
    for rows, group, plan in columns.tables(NODE_SNAPSHOT, positions):
        id_, path_place, user_data_place, _, extra_place = plan.places
        tag, value = plan.slots[3:5]
        ids[rows] = columns.structs(group + id_, 8)
        path.start[rows], path.length[rows] = columns.strings(group + path_place, "a node path")
        user_data.start[rows], user_data.length[rows] = columns.vectors(
            group + user_data_place, 1, "the metadata of a node"
        )
        if extra_place:
            extra.start[rows], extra.length[rows] = columns.vectors(
                group + extra_place, 1, "the extra bytes of a node"
            )
        codes = columns.bytes[group + tag] if tag and value else np.zeros(1, np.uint8)
        if not codes.all():
            raise FormatError(
                "NodeSnapshot.node_data has no tag or no value", offset=int(group[codes.argmin()])
            )
        kind[rows] = codes
        data[rows] = columns.follow(group + value)
    for code in set(kind[kind > GROUP].tolist()):
        reader.unknown["NodeSnapshot.node_data member", code] = int((kind == code).sum())
    for _ in columns.tables(GROUP_NODE_DATA, data[kind == GROUP]):
        pass  # a group has no fields, but its table is checked
    arrays = np.flatnonzero(kind == ARRAY)
    shape, shape_v2, names, manifests = _decode_arrays(columns, arrays, data[arrays], count)
    relative = (path.length == 0) | (columns.bytes[path.start] != ord("/"))
    if relative.any():
        raise FormatError(
            f"the node path {path[int(relative.argmax())].decode()!r} is not absolute"
        )

    nodes = Reader(reader.data)
    limits = nodes.budget, nodes.tables, nodes.elements

    def read(row: int) -> NodeSnapshot:
        nodes.budget, nodes.tables, nodes.elements = limits  # each node was checked once
        node: NodeSnapshot = nodes.read_table(NODE_SNAPSHOT, int(positions[row]))
        return node

    return NodeColumns(
        ids,
        path,
        user_data,
        kind,
        *_decode_shapes(columns, shape, shape_v2),
        shape.count > 0,
        shape_v2.is_present,
        names.firsts(),
        _decode_names(columns, names),
        names.is_present,
        manifests.firsts(),
        *_decode_manifest_refs(columns, manifests),
        extra,
        read,
    )


def _decode_arrays(
    columns: ColumnReader, arrays: NDArray[np.intp], positions: Positions, count: int
) -> tuple[_Lists, _Lists, _Lists, _Lists]:
    shape, names, manifests, shape_v2 = (_Lists(count) for _ in range(4))
    for chosen, group, plan in columns.tables(ARRAY_NODE_DATA, positions):
        rows = arrays[chosen]
        shape_place, names_place, manifests_place, shape_v2_place = plan.places
        shape.put(columns, rows, group + shape_place, 16, "a shape", align=8)
        manifests.put(columns, rows, group + manifests_place, 4, "a list of manifests")
        if names_place:
            names.put(columns, rows, group + names_place, 4, "a list of dimension names")
        if shape_v2_place:
            shape_v2.put(columns, rows, group + shape_v2_place, 4, "a shape")
    return shape, shape_v2, names, manifests


def _decode_names(columns: ColumnReader, names: _Lists) -> Spans:
    tables = columns.follow(names.elements(4))
    spans = _empty_spans(columns, len(tables))
    for rows, group, plan in columns.tables(DIMENSION_NAME, tables):
        if plan.places[0]:
            spans.start[rows], spans.length[rows] = columns.strings(
                group + plan.places[0], "a dimension name"
            )
    return spans


def _decode_shapes(
    columns: ColumnReader, shape: _Lists, shape_v2: _Lists
) -> tuple[Firsts, NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return each node's first dimension, and each dimension's length, chunks and chunk length."""
    is_v2 = shape_v2.is_present
    firsts = _firsts(np.where(is_v2, shape_v2.count, shape.count))
    length = np.zeros(int(firsts[-1]), np.uint64)
    num_chunks = np.zeros(len(length), np.uint64)
    of_v2 = np.flatnonzero(np.repeat(is_v2, np.diff(firsts)))
    tables = columns.follow(shape_v2.elements(4))
    for rows, group, plan in columns.tables(DIMENSION_SHAPE_V2, tables):
        length_place, num_chunks_place = plan.places
        if length_place:
            length[of_v2[rows]] = columns.longs(group + length_place)
        if num_chunks_place:
            num_chunks[of_v2[rows]] = columns.words(group + num_chunks_place)
    structs = shape.elements(16)[~np.repeat(is_v2, shape.count)]
    of_v1 = np.flatnonzero(~np.repeat(is_v2, np.diff(firsts)))
    length[of_v1] = columns.longs(structs)
    chunk_length = np.zeros(len(length), np.uint64)
    chunk_length[of_v1] = own = columns.longs(structs + 8)
    whole, rest = np.divmod(length[of_v1], np.maximum(own, 1))
    num_chunks[of_v1] = np.where(own > 0, whole + (rest > 0), 0)
    return firsts, length, num_chunks, chunk_length


def _decode_manifest_refs(
    columns: ColumnReader, manifests: _Lists
) -> tuple[NDArray[np.uint8], Firsts, NDArray[np.uint32]]:
    tables = columns.follow(manifests.elements(4))
    ids = np.empty((len(tables), 12), np.uint8)
    extents = _Lists(len(tables))
    for rows, group, plan in columns.tables(MANIFEST_REF, tables):
        id_, extents_place = plan.places
        ids[rows] = columns.structs(group + id_, 12)
        extents.put(columns, rows, group + extents_place, 8, "a list of extents")
    structs = extents.elements(8)
    pairs = np.stack((columns.words(structs), columns.words(structs + 4)), axis=1)
    return ids, extents.firsts(), pairs


def _decode_files(
    columns: ColumnReader, files: tuple[int, int], files_v2: tuple[int, int]
) -> ManifestFileColumns:
    reader = columns.reader
    (start, count), (start_v2, count_v2) = files, files_v2
    reader.spend_elements(count + count_v2, start)
    ids = np.empty((count + count_v2, 12), np.uint8)
    size_bytes = np.zeros(len(ids), np.uint64)
    num_chunk_refs = np.zeros(len(ids), np.uint32)
    if count:
        structs: NDArray[Any] = np.frombuffer(reader.data, _FILE_INFO, count, start)
        ids[:count] = np.ascontiguousarray(structs["id"]).view(np.uint8).reshape(-1, 12)
        size_bytes[:count] = structs["size_bytes"]
        num_chunk_refs[:count] = structs["num_chunk_refs"]
    slots = spread(np.array([start_v2]), np.array([count_v2]), 4)
    own = slice(count, None)
    for rows, group, plan in columns.tables(MANIFEST_FILE_INFO_V2, columns.follow(slots)):
        id_, size_place, num_place, extra = plan.places
        ids[own][rows] = columns.structs(group + id_, 12)
        if size_place:
            size_bytes[own][rows] = columns.longs(group + size_place)
        if num_place:
            num_chunk_refs[own][rows] = columns.words(group + num_place)
        if extra:
            columns.vectors(group + extra, 1, "the extra bytes of a manifest file")
    return ManifestFileColumns(ids, size_bytes, num_chunk_refs)


def _empty_spans(columns: ColumnReader, count: int) -> Spans:
    return Spans(columns.reader.data, np.zeros(count, np.uint32), np.zeros(count, np.uint32))
