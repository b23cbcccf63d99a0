"""Chunk references of two versions compared by columns.

Two references are the same when a reader gets the same bytes by them: the same native chunk
and range, the same inline bytes, or the same range of the same location with the same checksum.
How a location is compressed is the manifest's own affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icectl.format.manifest import OpenManifest, decode_locations
from icectl.model.ids import NodeId
from icectl.model.manifest import ChunkRefs, Manifest, RefKind, Spans
from icectl.pipeline.coordinates import coordinate_keys

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]
BLOCK = 16384
"""Rows that are compared at once: their temporary arrays stay in the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """References of one array, from as many manifests as they are in."""

    parts: tuple[tuple[Manifest, ChunkRefs], ...]

    def coordinates(self) -> NDArray[np.uint32]:
        blocks = [refs.coordinates for _, refs in self.parts if len(refs)]
        return np.concatenate(blocks) if blocks else np.empty((0, 0), np.uint32)

    def sizes(self) -> NDArray[np.uint64]:
        blocks = [
            np.where(refs.kind == RefKind.INLINE, refs.content.length, refs.length)
            for _, refs in self.parts
        ]
        return np.concatenate(blocks).astype(np.uint64) if blocks else np.empty(0, np.uint64)

    def starts(self) -> list[int]:
        return np.cumsum([0, *(len(refs) for _, refs in self.parts)]).tolist()


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceChanges:
    added: NDArray[np.uint32]
    overwritten: NDArray[np.uint32]
    deleted: NDArray[np.uint32]
    bytes_added: int = 0
    bytes_removed: int = 0

    @property
    def is_empty(self) -> bool:
        return not (len(self.added) or len(self.overwritten) or len(self.deleted))


def compare_references(
    before: Side, after: Side, only: NDArray[np.uint32] | None = None
) -> ReferenceChanges:
    """What differs; with `only`, among these coordinates."""
    old, new = before.coordinates(), after.coordinates()
    if len(old) and len(new) and old.shape[1] != new.shape[1]:
        common_old = common_new = np.empty(0, np.intp)
        old_rows, new_rows = np.arange(len(old)), np.arange(len(new))
    else:
        blocks = (old, new) if only is None else (old, new, only)
        old_keys, new_keys, *only_keys = coordinate_keys(*blocks)
        old_rows = _rows_among(old_keys, only_keys)
        new_rows = _rows_among(new_keys, only_keys)
        in_old, in_new = _common(old_keys[old_rows], new_keys[new_rows])
        common_old, common_new = old_rows[in_old], new_rows[in_new]
        old_rows, new_rows = np.delete(old_rows, in_old), np.delete(new_rows, in_new)
    differs = ~_same_references(before, common_old, after, common_new)
    old_changed, new_changed = common_old[differs], common_new[differs]
    old_sizes, new_sizes = before.sizes(), after.sizes()
    return ReferenceChanges(
        added=_take_sorted(new, new_rows),
        overwritten=_take_sorted(new, new_changed),
        deleted=_take_sorted(old, old_rows),
        bytes_added=_total(new_sizes, new_rows, new_changed),
        bytes_removed=_total(old_sizes, old_rows, old_changed),
    )


def compare_in_order(before: OrderedRefs, after: OrderedRefs) -> Iterator[ReferenceChanges]:
    """What differs, block by block, so that memory does not follow the number of references."""
    while before.block is not None and after.block is not None:
        old, new = before.block, after.block
        if old.coordinates.shape[1] != new.coordinates.shape[1]:
            break
        old_keys, new_keys = coordinate_keys(old.coordinates, new.coordinates)
        # What is behind the end of the shorter block is compared with the next one.
        end = min(old_keys[-1], new_keys[-1])
        num_old, num_new = (
            int(np.searchsorted(keys, end, "right")) for keys in (old_keys, new_keys)
        )
        yield compare_references(before.take(num_old), after.take(num_new))
    nothing = Side(())
    while before.block is not None:
        yield compare_references(before.take(len(before.block)), nothing)
    while after.block is not None:
        yield compare_references(nothing, after.take(len(after.block)))


class NotInOrderError(Exception):
    """References are not in the order of their coordinates, an array is there twice, or the
    coordinates have another number of dimensions."""


class OrderedRefs:
    """The references of one array in one manifest, decoded in blocks."""

    def __init__(self, opened: OpenManifest, node_id: NodeId) -> None:
        spans = opened.spans(node_id)
        if len(spans) > 1:
            raise NotInOrderError
        self._opened = opened
        self._span = spans[0] if spans else (0, 0)
        self._decoded = 0
        self._last: NDArray[np.uint32] | None = None
        self.block: ChunkRefs | None = None
        """The next references; None at the end."""
        self._decode()

    def take(self, rows: int) -> Side:
        assert self.block is not None
        taken = self.block.take(slice(rows))
        if rows < len(self.block):
            self.block = self.block.take(slice(rows, None))
        else:
            self._decode()
        return Side(((self._opened.manifest, taken),))

    def _decode(self) -> None:
        count = min(BLOCK, self._span[1] - self._decoded)
        if not count:
            self.block = None
            return
        self.block = self._opened.rows(self._span, self._decoded, count)
        self._decoded += count
        coordinates = self.block.coordinates
        if self._last is not None:
            coordinates = np.concatenate((self._last, coordinates))
        (keys,) = coordinate_keys(coordinates)
        if not (keys[1:] > keys[:-1]).all():
            raise NotInOrderError
        self._last = coordinates[-1:]


def _common(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> tuple[Rows, Rows]:
    """The places of the keys that are in both."""
    if np.array_equal(old, new) and (old[1:] > old[:-1]).all():  # no chunk was added or deleted
        return np.arange(len(old)), np.arange(len(old))
    _, in_old, in_new = np.intersect1d(old, new, return_indices=True)
    return in_old, in_new


def _rows_among(keys: NDArray[np.uint64], only: Sequence[NDArray[np.uint64]]) -> Rows:
    return np.flatnonzero(np.isin(keys, only[0])) if only else np.arange(len(keys))


def _take_sorted(coordinates: NDArray[np.uint32], rows: Rows) -> NDArray[np.uint32]:
    taken = coordinates[rows]
    (keys,) = coordinate_keys(taken)
    return taken[np.argsort(keys, kind="stable")]


def _total(sizes: NDArray[np.uint64], *rows: Rows) -> int:
    return sum(int(sizes[chosen].sum()) for chosen in rows)


def _same_references(before: Side, old_rows: Rows, after: Side, new_rows: Rows) -> Flags:
    same = np.zeros(len(old_rows), np.bool_)
    old_starts, new_starts = before.starts(), after.starts()
    for (old_manifest, old_refs), old_first in zip(before.parts, old_starts, strict=False):
        of_old = (old_rows >= old_first) & (old_rows < old_first + len(old_refs))
        for (new_manifest, new_refs), new_first in zip(after.parts, new_starts, strict=False):
            of_new = (new_rows >= new_first) & (new_rows < new_first + len(new_refs))
            chosen = np.flatnonzero(of_old & of_new)
            for first in range(0, len(chosen), BLOCK):
                block = chosen[first : first + BLOCK]
                same[block] = _same_in_parts(
                    old_manifest,
                    old_refs,
                    old_rows[block] - old_first,
                    new_manifest,
                    new_refs,
                    new_rows[block] - new_first,
                )
    return same


def _same_in_parts(
    old_manifest: Manifest,
    old: ChunkRefs,
    old_rows: Rows,
    new_manifest: Manifest,
    new: ChunkRefs,
    new_rows: Rows,
) -> Flags:
    old_kind = np.minimum(old.kind[old_rows], RefKind.VIRTUAL)
    same: Flags = old_kind == np.minimum(new.kind[new_rows], RefKind.VIRTUAL)
    native = old_kind == RefKind.NATIVE
    if native.any():
        same &= ~native | _same_chunk_ids(old, old_rows, new, new_rows)
    inline = old_kind == RefKind.INLINE
    for column in ("offset", "length"):
        # An inline reference has its bytes; what these fields say of it means nothing.
        same &= inline | (getattr(old, column)[old_rows] == getattr(new, column)[new_rows])
    same &= _last_modified(old, old_rows) == _last_modified(new, new_rows)
    same &= same_spans(old.checksum_etag, old_rows, new.checksum_etag, new_rows)

    compressed = (old.kind[old_rows] == RefKind.VIRTUAL_COMPRESSED) | (
        new.kind[new_rows] == RefKind.VIRTUAL_COMPRESSED
    )
    plain = np.flatnonzero(same & ~compressed)
    same[plain] = same_spans(old.content, old_rows[plain], new.content, new_rows[plain])
    packed = np.flatnonzero(same & compressed)
    if not len(packed):
        return same
    if old_manifest.location_dictionary == new_manifest.location_dictionary:
        # Equal frames of one dictionary are equal locations; only the others need unfolding.
        equal = same_spans(old.content, old_rows[packed], new.content, new_rows[packed])
        equal &= old.kind[old_rows[packed]] == new.kind[new_rows[packed]]
        packed = packed[~equal]
    if not len(packed):
        return same
    starts = _run_starts(old, old_rows[packed]) | _run_starts(new, new_rows[packed])
    heads = packed[starts]
    old_locations = decode_locations(old_manifest, take_references(old, old_rows[heads]))
    new_locations = decode_locations(new_manifest, take_references(new, new_rows[heads]))
    equal_heads = [a == b for a, b in zip(old_locations, new_locations, strict=True)]
    same[packed] = np.array(equal_heads, np.bool_)[np.cumsum(starts) - 1]
    return same


def _run_starts(refs: ChunkRefs, rows: Rows) -> Flags:
    """Where a location is not the same as in the row before: neighbours often share a file."""
    starts = np.ones(len(rows), np.bool_)
    starts[1:] = refs.kind[rows[1:]] != refs.kind[rows[:-1]]
    starts[1:] |= ~same_spans(refs.content, rows[1:], refs.content, rows[:-1])
    return starts


def take_references(refs: ChunkRefs, rows: Rows) -> ChunkRefs:
    """These rows, with what a location needs."""
    content = Spans(refs.content.data, refs.content.start[rows], refs.content.length[rows])
    return ChunkRefs(
        refs.coordinates[rows],
        refs.kind[rows],
        refs.chunk_id[rows],
        refs.offset[rows],
        refs.length[rows],
        content,
        None,
        None,
        None,
    )


def _same_chunk_ids(old: ChunkRefs, old_rows: Rows, new: ChunkRefs, new_rows: Rows) -> Flags:
    if old.chunk_id.shape[1] != new.chunk_id.shape[1]:
        return np.zeros(len(old_rows), np.bool_)  # early generations had ids of 16 bytes
    return _same_rows(old.chunk_id[old_rows], new.chunk_id[new_rows])


def _same_rows(old: NDArray[np.uint8], new: NDArray[np.uint8]) -> Flags:
    """Whether each row is the same; few differ, and short rows are reduced slowly."""
    same = np.ones(len(old), np.bool_)
    different = np.flatnonzero((old != new).reshape(-1))
    same[different // max(old.shape[1], 1)] = False
    return same


def _last_modified(refs: ChunkRefs, rows: Rows) -> NDArray[np.uint32]:
    column = refs.checksum_last_modified
    return np.zeros(len(rows), np.uint32) if column is None else column[rows]


def same_spans(old: Spans | None, old_rows: Rows, new: Spans | None, new_rows: Rows) -> Flags:
    none = np.zeros(len(old_rows), np.uint32)
    old_lengths = none if old is None else old.length[old_rows]
    new_lengths = none if new is None else new.length[new_rows]
    same: Flags = old_lengths == new_lengths
    if old is None or new is None:
        return same
    for length in _distinct_lengths(old_lengths[same]):
        rows = np.flatnonzero(same & (old_lengths == length))
        step = max(1, BLOCK * 64 // max(length, 1))
        for first in range(0, len(rows), step):
            block = rows[first : first + step]
            same[block] = _same_rows(
                _gather(old, old_rows[block], length), _gather(new, new_rows[block], length)
            )
    return same


def _distinct_lengths(lengths: NDArray[np.uint32]) -> list[int]:
    """The lengths but 0; counting is faster than sorting while they are short."""
    if not len(lengths):
        return []
    if int(lengths.max()) >= BLOCK:
        return sorted(set(lengths.tolist()) - {0})
    found: list[int] = np.flatnonzero(np.bincount(lengths)).tolist()
    return [length for length in found if length]


def _gather(spans: Spans, rows: Rows, length: int) -> NDArray[np.uint8]:
    """(rows, length) bytes, without an index for each of them."""
    if not length:
        return np.empty((len(rows), 0), np.uint8)
    data = np.frombuffer(spans.data, np.uint8)
    windows = np.ndarray((len(data) - length + 1,), f"V{length}", data, strides=(1,))
    return windows[spans.start[rows]].view(np.uint8).reshape(len(rows), length)
