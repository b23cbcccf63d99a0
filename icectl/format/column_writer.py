"""Write long vectors of flatbuffers tables from columns.

The layout of a vector: the offsets of the tables, then the tables in order, each directly
followed by its vectors. All positions are multiples of four; tables with 8-byte fields are at
multiples of eight.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icectl.format.schema import SNAPSHOT_INFO
from icectl.format.writer import Writer
from icectl.model.manifest import ChunkRefs, RefKind, Spans
from icectl.model.repo import SnapshotInfoColumns

if TYPE_CHECKING:
    WriteVector = Callable[[Writer, int], None]

Positions = NDArray[np.int64]
BLOCK = 16384
_METADATA, _LOGS = (field.kind for field in SNAPSHOT_INFO.fields[-2:])


def coordinate_tables(coordinates: NDArray[np.uint32]) -> WriteVector:
    """Return a function that writes a vector of ChunkIndices."""

    def write(writer: Writer, position: int) -> None:
        count, dimensions = coordinates.shape
        vtable = _append_vtable(writer, 8, [4])
        slots, base = _begin_vector(writer, position, count, 4)
        stride = 12 + 4 * dimensions
        tables = base + stride * np.arange(count, dtype=np.int64)
        region = _Region(writer, base, stride * count)
        _fill_slots(writer, slots, tables)
        region.words(tables, (tables - vtable).astype(np.uint32))
        region.words(tables + 4, np.full(count, 4, np.uint32))
        _put_coordinates(region, tables + 8, coordinates)
        region.append()

    return write


def chunk_ref_tables(refs: ChunkRefs) -> WriteVector:
    """Return a function that writes a vector of ChunkRef."""

    def write(writer: Writer, position: int) -> None:
        count, dimensions = refs.coordinates.shape
        vectors: list[tuple[int, Spans, NDArray[np.bool_], bool]] = [
            (1, refs.content, refs.kind == RefKind.INLINE, False),
            (5, refs.content, refs.kind == RefKind.VIRTUAL, True),
            (8, refs.content, refs.kind == RefKind.VIRTUAL_COMPRESSED, False),
        ]
        if refs.checksum_etag is not None:
            vectors.append((6, refs.checksum_etag, refs.checksum_etag.start > 0, True))
        if refs.extra is not None:
            vectors.append((9, refs.extra, refs.extra.start > 0, False))
        has_time = (
            np.zeros(count, bool)
            if refs.checksum_last_modified is None
            else refs.checksum_last_modified > 0
        )
        native = refs.kind == RefKind.NATIVE
        # One vtable per combination of optional fields; every table has the same inline layout:
        # vtable, index, offset (8), length (8), then four bytes per optional vector, time, id.
        places = {1: 24, 5: 28, 8: 32, 6: 36, 9: 40, 7: 44, 4: 48}
        size = 60
        present = np.zeros(count, np.int64)
        for slot, _, mask, _ in vectors:
            present |= mask.astype(np.int64) << slot
        present |= has_time.astype(np.int64) << 7
        present |= native.astype(np.int64) << 4
        vtables = np.zeros(count, np.int64)
        for combination in np.unique(present).tolist():
            fields = [0] * 10
            fields[0], fields[2], fields[3] = 4, 8, 16
            for slot, offset in places.items():
                if combination >> slot & 1:
                    fields[slot] = offset
            vtables[present == combination] = _append_vtable(writer, size, fields)
        offsets, base = _begin_vector(writer, position, count, 8)
        tails = 4 + 4 * dimensions + np.zeros(count, np.int64)
        starts = {}
        for slot, spans, mask, terminated in vectors:
            starts[slot] = tails.copy()
            needed = 4 + spans.length.astype(np.int64) + terminated
            tails += np.where(mask, (needed + 3) & ~3, 0)
        strides = (size + tails + 7) & ~7
        tables = base + np.concatenate(([0], np.cumsum(strides)[:-1])) if count else base + strides
        region = _Region(writer, base, int(strides.sum()))
        _fill_slots(writer, offsets, tables)
        region.words(tables, (tables - vtables).astype(np.uint32))
        region.words(tables + 4, np.full(count, size - 4, np.uint32))
        region.longs(tables + 8, refs.offset)
        region.longs(tables + 16, refs.length)
        _put_coordinates(region, tables + size, refs.coordinates)
        for slot, spans, mask, _ in vectors:
            chosen = tables[mask]
            targets = chosen + size + starts[slot][mask]
            fields_at = chosen + places[slot]
            region.words(fields_at, (targets - fields_at).astype(np.uint32))
            region.words(targets, spans.length[mask])
            region.scatter(targets + 4, spans, mask)
        if refs.checksum_last_modified is not None:
            region.words(tables + places[7], refs.checksum_last_modified)
        region.structs(tables[native] + places[4], refs.chunk_id[native])
        region.append()

    return write


def snapshot_info_tables(infos: SnapshotInfoColumns) -> WriteVector:
    """Return a function that writes a vector of SnapshotInfo."""

    def write(writer: Writer, position: int) -> None:
        count = len(infos)
        # Vtable, message, flushed_at (8), parent_offset, metadata, logs, id (12); after them the
        # message, and an empty list of metadata.
        size, metadata_place, logs_place = 40, 20, 24
        num_metadata = np.array(infos.num_metadata, np.int64)
        has_metadata = (num_metadata >= 0).astype(np.int64)
        has_logs = np.zeros(count, np.int64)
        has_logs[infos.with_logs] = 1
        vtables = np.zeros((2, 2), np.int64)
        for metadata, logs in np.ndindex(2, 2):
            fields = [28, 16, 8, 4, metadata * metadata_place, logs * logs_place]
            vtables[metadata, logs] = _append_vtable(writer, size, fields)
        slots, base = _begin_vector(writer, position, count, 8)
        lists = (size + 4 + infos.messages.length.astype(np.int64) + 1 + 3) & ~3
        ends = base + np.cumsum((lists + 4 * (num_metadata == 0) + 7) & ~7)
        tables = np.concatenate(([base], ends[:-1]))
        _fill_slots(writer, slots, tables)
        ids = np.frombuffer(b"".join(infos.ids), np.uint8).reshape(count, -1)
        parents = np.array(infos.parents, np.int32).view(np.uint32)
        flushed_at = np.array(infos.flushed_at, np.uint64)
        for first in range(0, count, BLOCK):
            rows = slice(first, first + BLOCK)
            own, messages = tables[rows], infos.messages.take(rows)
            region = _Region(writer, int(own[0]), int(ends[rows][-1] - own[0]))
            own_vtables = vtables[has_metadata[rows], has_logs[rows]]
            to_lists = has_metadata[rows] * (lists[rows] - metadata_place)
            region.words(own, (own - own_vtables).astype(np.uint32))
            region.words(own + 4, np.full(len(own), size - 4, np.uint32))
            region.longs(own + 8, flushed_at[rows])
            region.words(own + 16, parents[rows])
            region.words(own + metadata_place, to_lists.astype(np.uint32))
            region.structs(own + 28, ids[rows])
            region.words(own + size, messages.length)
            region.scatter(own + size + 4, messages, np.ones(len(own), np.bool_))
            region.append()
        # These overwrite the offset of the empty list.
        for row in np.flatnonzero(num_metadata > 0).tolist():
            place = int(tables[row]) + metadata_place
            _METADATA.write(writer, place, infos[row].metadata)
        for row in infos.with_logs:
            place = int(tables[row]) + logs_place
            _LOGS.write(writer, place, infos[row].pruned_ancestor_tx_logs)

    return write


class _Region:
    """A buffer for the bytes from `base`, filled in any order and then appended."""

    def __init__(self, writer: Writer, base: int, size: int) -> None:
        self._writer = writer
        self._base = base
        self._bytes = np.zeros((size + 7) & ~7, np.uint8)

    def words(self, positions: Positions, values: NDArray[np.uint32]) -> None:
        self._bytes.view("<u4")[(positions - self._base) >> 2] = values

    def longs(self, positions: Positions, values: NDArray[np.uint64]) -> None:
        self._bytes.view("<u8")[(positions - self._base) >> 3] = values

    def structs(self, positions: Positions, values: NDArray[np.uint8]) -> None:
        for byte in range(values.shape[1]):
            self._bytes[positions - self._base + byte] = values[:, byte]

    def scatter(self, positions: Positions, spans: Spans, mask: NDArray[np.bool_]) -> None:
        """Copy each row's bytes to its position."""
        lengths = spans.length[mask].astype(np.int64)
        ends = np.cumsum(lengths)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        source = np.frombuffer(spans.data, np.uint8)
        self._bytes[np.repeat(positions - self._base, lengths) + within] = source[
            np.repeat(spans.start[mask].astype(np.int64), lengths) + within
        ]

    def append(self) -> None:
        self._writer.out += self._bytes.tobytes()


def _append_vtable(writer: Writer, table_size: int, fields: list[int]) -> int:
    writer.align(2)
    position = len(writer.out)
    writer.out += struct.pack(f"<{len(fields) + 2}H", 4 + 2 * len(fields), table_size, *fields)
    return position


def _begin_vector(writer: Writer, position: int, count: int, align: int) -> tuple[range, int]:
    """Append the vector of offsets for `position`; return its slots and the end position."""
    slots = writer.append_slots(position, count)
    writer.align(align)
    return slots, len(writer.out)


def _fill_slots(writer: Writer, slots: range, tables: Positions) -> None:
    offsets = tables - np.arange(slots.start, slots.stop, 4, dtype=np.int64)
    writer.out[slots.start : slots.stop] = offsets.astype("<u4").tobytes()


def _put_coordinates(
    region: _Region, positions: Positions, coordinates: NDArray[np.uint32]
) -> None:
    count, dimensions = coordinates.shape
    region.words(positions, np.full(count, dimensions, np.uint32))
    for dimension in range(dimensions):
        region.words(positions + 4 + 4 * dimension, coordinates[:, dimension])
