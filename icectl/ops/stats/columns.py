"""The part of `stats` that needs numpy: rows of chunk objects, and the tables of the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.format.manifest import FewRefs
from icectl.model.manifest import ArrayManifest, Manifest, RefKind
from icectl.model.redaction import redact_location
from icectl.ops.stats.reading import (
    BITS,
    FILES,
    NATIVE,
    VIRTUAL,
    ManifestNote,
    ManifestUse,
    SumManifests,
    Usage,
    mask_names,
    mask_words,
)
from icectl.ops.stats.result import (
    ArrayStats,
    ContainerStats,
    FreedStats,
    GrowthStats,
    RefStats,
    SnapshotStats,
)
from icectl.pipeline.engine import Columns, Rows
from icectl.pipeline.id_columns import BLOCK, id_columns
from icectl.pipeline.sums import exact_sum, sum_type

Values = NDArray[Any]
_LOCATION = np.dtype([("high", "<u8"), ("low", "<u8"), ("container", "<u8")])
_MIXER = np.uint64(0x9E3779B97F4A7C15)
NAMED_ARRAYS = 9
"""The growth names the largest arrays; a chart can tell this many and the others apart."""


def rows_of_few(
    plan: SumManifests, few: Sequence[tuple[ManifestUse, FewRefs]]
) -> Iterator[Rows | ManifestNote]:
    """One block of rows for many small manifests."""
    ids: list[bytes] = []
    lengths: list[int] = []
    uses: list[tuple[ManifestUse, int, int]] = []
    for use, refs in few:
        inline = []
        total = 0
        for array in refs.arrays:
            place = plan.place(array.node_id)
            if array.num_inline:
                inline.append((place, array.num_inline, array.inlined_bytes))
            if array.chunk_ids:
                ids += array.chunk_ids
                lengths += array.lengths
                uses.append((use, place, len(array.lengths)))
            total += sum(array.lengths) + array.inlined_bytes
        yield ManifestNote(use.number, total, inline, {})
    if ids:
        yield _native_rows(
            plan,
            np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 12),
            np.array(lengths, np.uint64),
            uses,
        )


def manifest_rows(
    plan: SumManifests, use: ManifestUse, manifest: Manifest
) -> Iterator[Rows | ManifestNote]:
    inline = []
    containers: dict[int, tuple[str, bool]] = {}
    total = 0
    for array in manifest.arrays:
        place = plan.place(array.node_id)
        refs = array.refs
        is_inline = refs.kind == RefKind.INLINE
        if is_inline.any():
            size = int(refs.content.length[is_inline].sum(dtype=np.uint64))
            inline.append((place, int(is_inline.sum()), size))
            total += size
        native = refs.kind == RefKind.NATIVE
        chosen = slice(None) if native.all() else native
        lengths = refs.length[chosen]
        total += exact_sum(lengths)
        if len(lengths):
            yield _native_rows(plan, refs.chunk_id[chosen], lengths, [(use, place, len(lengths))])
        for rows in _virtual_rows(plan, use, place, manifest, array):
            if rows.table == VIRTUAL:
                total += exact_sum(rows.columns["length"])
            else:
                keys = set(rows.columns["container"].tolist())
                containers |= {key: plan.locations.containers[key] for key in keys}
            yield rows
    yield ManifestNote(use.number, total, inline, containers)


def _native_rows(
    plan: SumManifests,
    ids: NDArray[np.uint8],
    lengths: NDArray[np.uint64],
    uses: Sequence[tuple[ManifestUse, int, int]],
) -> Rows:
    high, low = _id_parts(ids)
    return Rows(NATIVE, {"high": high, "low": low, "length": lengths, **_values(plan, uses)})


def _id_parts(
    ids: NDArray[np.uint8],
) -> tuple[NDArray[np.uint64], NDArray[np.unsignedinteger[Any]]]:
    if ids.shape[1] == 12:
        columns = id_columns(ids)
        return columns.high, columns.low
    # Early generations had ids of 16 bytes.
    parts = np.ascontiguousarray(ids).view(">u8").reshape(-1, 2).astype(np.uint64)
    return parts[:, 0], parts[:, 1]


def _virtual_rows(
    plan: SumManifests, use: ManifestUse, place: int, manifest: Manifest, array: ArrayManifest
) -> Iterator[Rows]:
    """The files of an array, then the ranges in them."""
    if (array.refs.kind < RefKind.VIRTUAL).all():
        return
    from icectl.pipeline.locations import number_locations

    found = number_locations(manifest, array.refs)
    keys = b"".join([plan.locations.find(one, plan.containers) for one in found.locations])
    files = np.frombuffer(keys, _LOCATION)
    yield Rows(FILES, {name: files[name].astype(np.uint64) for name in _LOCATION.fields or ()})
    offset, length = (column[found.rows] for column in (array.refs.offset, array.refs.length))
    columns: Columns = {
        "high": _mix(files["high"][found.numbers], offset, length),
        "low": _mix(files["low"][found.numbers], length, offset),
        "length": length,
        "container": files["container"][found.numbers],
    }
    yield Rows(VIRTUAL, columns | _values(plan, [(use, place, len(length))]))


def _mix(
    location: NDArray[np.uint64], offset: NDArray[np.uint64], length: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """A key of 8 bytes; for one location, different offsets of a length have different keys.

    Overwrites `location`, block by block: temporary arrays of a million rows would determine the
    peak memory, and the time.
    """
    for first in range(0, len(location), BLOCK):
        rows = slice(first, first + BLOCK)
        key = location[rows]
        key ^= offset[rows]
        key *= _MIXER
        key ^= key >> np.uint64(32)
        key ^= length[rows]
        key *= _MIXER
        key ^= key >> np.uint64(29)
    return location


def _values(plan: SumManifests, uses: Sequence[tuple[ManifestUse, int, int]]) -> Columns:
    """The columns of the breakdown, for an array's number of rows in each manifest."""
    counts = np.array([count for _, _, count in uses], np.intp)

    def column(values: list[int], type_: type[np.generic]) -> NDArray[Any]:
        return np.repeat(np.array(values, type_), counts)

    values: Columns = {"array": column([place for _, place, _ in uses], np.int32)}
    if plan.breakdown.by_snapshot:
        values["first"] = column([use.first for use, _, _ in uses], np.int32)
        values["last"] = column([use.last for use, _, _ in uses], np.int32)
    names = mask_names(plan.breakdown.num_masks)
    words = [mask_words(use.mask, len(names)) for use, _, _ in uses]
    for number, name in enumerate(names):
        values[name] = column([of_use[number] for of_use in words], np.uint64)
    return values


class Totals:
    """Rows are chunk objects, or groups of them, which have a `count` and the sum of `length`."""

    def __init__(
        self,
        usage: Usage,
        notes: Iterable[ManifestNote],
        tables: Mapping[str, Columns],
        refs: Sequence[tuple[str, str]],
        num_masks: int,
    ) -> None:
        """`refs` has kind and name of the ref behind each bit of a mask."""
        self._usage = usage
        self._refs = refs
        self._files = tables[FILES]
        self._words = mask_names(num_masks)
        num_manifests = len(usage.manifests)
        # Number and bytes of inline chunks, by array and by manifest. The last row of the former
        # is for arrays that no version has.
        self._inline = np.zeros((usage.num_arrays + 1, 2), np.int64)
        self._inline_of = np.zeros((num_manifests, 2), np.int64)
        bytes_of = [0] * num_manifests
        self._containers: dict[int, tuple[str, bool]] = {}
        # By manifest and array: number and bytes of inline chunks.
        self._inline_rows = np.zeros((0, 4), np.int64)
        inline: list[tuple[int, int, int, int]] = []
        for note in notes:
            bytes_of[note.number] = note.bytes
            self._containers |= note.containers
            inline += [(note.number, *sums) for sums in note.inline]
        if inline:
            rows = self._inline_rows = np.array(inline, np.int64)
            np.add.at(self._inline_of, rows[:, 0], rows[:, 2:])
            np.add.at(self._inline, rows[:, 1], rows[:, 2:])
        lengths = [tables[name]["length"] for name in (NATIVE, VIRTUAL)]
        self._type = sum_type(*lengths, self._inline[:, 1], np.array(bytes_of, np.float64))
        self._bytes_of = np.array(bytes_of, self._type)
        self._native, self._virtual = (
            {**tables[name], "length": tables[name]["length"].astype(self._type, copy=False)}
            for name in (NATIVE, VIRTUAL)
        )

    def bytes(self) -> tuple[int, int, int]:
        return (
            int(self._native["length"].sum()),
            int(self._virtual["length"].sum()),
            int(self._inline[:, 1].sum()),
        )

    def num_chunks(self) -> int:
        rows = sum(_count(part) for part in (self._native, self._virtual))
        return rows + int(self._inline[:, 0].sum())

    def containers(self) -> tuple[ContainerStats, ...]:
        keys = np.sort(np.array([*self._containers], np.uint64))
        virtual = np.searchsorted(keys, self._virtual["container"])
        files = np.searchsorted(keys, self._files["container"])
        columns = (
            _sum_groups(virtual, self._virtual["length"], len(keys)),
            _count_groups(virtual, self._virtual, len(keys)),
            _count_groups(files, self._files, len(keys)),
        )
        rows = zip(*(column.tolist() for column in columns), strict=True)
        sums = dict(zip(keys.tolist(), rows, strict=True))
        return tuple(
            ContainerStats(redact_location(prefix), is_configured, *sums[key])
            for key, (prefix, is_configured) in sorted(
                self._containers.items(), key=lambda item: item[1]
            )
        )

    def arrays(self) -> tuple[ArrayStats, ...]:
        size = len(self._inline)
        native, virtual = self._native, self._virtual
        native_bytes = _sum_groups(native["array"], native["length"], size)
        virtual_bytes = _sum_groups(virtual["array"], virtual["length"], size)
        counts = self._inline[:, 0].copy()
        for part in (native, virtual):
            counts += _count_groups(part["array"], part, size)
        columns = (native_bytes, virtual_bytes, self._inline[:, 1], counts)
        paths = [*self._usage.array_paths, ""]
        rows = zip(paths, *(column.tolist() for column in columns), strict=True)
        # Arrays that no version has are a row only if they have chunks.
        return tuple(ArrayStats(*row) for row in rows if row[0] or row[-1])

    def refs(self, kind: str) -> tuple[RefStats, ...]:
        masks = self._masks()
        return tuple(
            RefStats(name, *self._ref(masks, bit))
            for bit, (of, name) in enumerate(self._refs)
            if of == kind
        )

    def _masks(self) -> list[tuple[NDArray[np.uint64], Values, Values]]:
        """Of native chunks, of virtual ones and of manifests' inline ones: mask, bytes, count."""
        found = []
        for part in (self._native, self._virtual):
            mask = np.array([part[name] for name in self._words], np.uint64)
            found.append((mask, part["length"], _counts(part)))
        uses = self._usage.manifests
        words = [mask_words(use.mask, len(self._words)) for use in uses]
        inline = np.array(words, np.uint64).reshape(len(self._inline_of), len(self._words)).T
        return [*found, (inline, self._inline_of[:, 1], self._inline_of[:, 0])]

    def _ref(
        self, masks: list[tuple[NDArray[np.uint64], Values, Values]], bit: int
    ) -> tuple[int, int, int]:
        """Bytes, own bytes and chunks behind one bit; the bit behind the refs does not count."""
        word, value = bit // BITS, np.uint64(1 << bit % BITS)
        own = np.zeros((len(self._words), 1), np.uint64)
        own[word] = value
        all_refs = (1 << len(self._refs)) - 1
        of_refs = np.array([mask_words(all_refs, len(self._words))], np.uint64).T
        total = alone = count = 0
        for mask, lengths, counts in masks:
            reached = (mask[word] & value) != 0
            total += int(lengths[reached].sum())
            count += int(counts[reached].sum())
            alone += int(lengths[((mask & of_refs) == own).all(axis=0)].sum())
        return total, alone, count

    def snapshots(self) -> tuple[SnapshotStats, ...]:
        """Newest first."""
        size = len(self._usage.snapshots)
        own, new = np.zeros(size, self._type), np.zeros(size, self._type)
        uses = self._usage.manifests
        inline = {
            "first": np.array([use.first for use in uses], np.intp),
            "last": np.array([use.last for use in uses], np.intp),
            "length": self._inline_of[:, 1].astype(self._type),
        }
        for part in (self._native, self._virtual, inline):
            alone = part["first"] == part["last"]
            own += _sum_groups(part["first"][alone], part["length"][alone], size)
            new += _sum_groups(part["first"], part["length"], size)
        found = []
        for place, info in enumerate(self._usage.snapshots):
            total = int(self._bytes_of[self._usage.manifests_of[place]].sum())
            mine = int(own[place])
            found.append(
                SnapshotStats(
                    info.id,
                    info.flushed_at,
                    info.message,
                    total,
                    mine,
                    total - mine,
                    int(new[place]),
                )
            )
        return tuple(reversed(found))

    def growth(self) -> tuple[GrowthStats, ...]:
        """Newest first, and of each version the largest arrays first, then the others."""
        first = np.array([use.first for use in self._usage.manifests], np.int64)
        inline = {
            "first": first[self._inline_rows[:, 0]],
            "array": self._inline_rows[:, 1],
            "length": self._inline_rows[:, 3].astype(self._type),
        }
        arrays = self.arrays()
        largest = sorted(range(len(arrays)), key=lambda place: -arrays[place].total_bytes)
        paths = [arrays[place].path for place in largest[:NAMED_ARRAYS]]
        column_of = np.full(len(self._inline), len(paths), np.int64)
        column_of[largest[: len(paths)]] = range(len(paths))
        shape = (len(self._usage.snapshots), len(paths) + 1)
        sums = np.zeros(shape, self._type)
        for part in (self._native, self._virtual, inline):
            cells = part["first"].astype(np.int64) * shape[1] + column_of[part["array"]]
            sums += _sum_groups(cells, part["length"], sums.size).reshape(shape)
        names = [*paths, None]
        return tuple(
            GrowthStats(info.id, names[column], size)
            for info, row in zip(reversed(self._usage.snapshots), sums[::-1].tolist(), strict=True)
            for column, size in enumerate(row)
            if size
        )

    def freed(self, num_snapshots: int) -> FreedStats:
        """What lacks the bit behind those of the refs: no version that stays needs it."""
        bit = len(self._refs)
        word, value = bit // BITS, np.uint64(1 << bit % BITS)
        native = self._native
        gone = (native[f"mask_{word}"] & value) == 0
        manifests = [use.size_bytes for use in self._usage.manifests if not use.mask >> bit & 1]
        return FreedStats(
            num_snapshots,
            len(manifests),
            int(_counts(native)[gone].sum()),
            int(native["length"][gone].sum()) + sum(manifests),
        )


def _counts(part: Columns) -> Values:
    """The number of chunk objects in each row."""
    counts = part.get("count")
    return np.ones(len(part["length"]), np.int64) if counts is None else counts


def _count(part: Columns) -> int:
    counts = part.get("count")
    return len(part["length"]) if counts is None else int(counts.sum())


def _count_groups(groups: Values, part: Columns, size: int) -> Values:
    """The number of chunk objects in each group; a row without a count is one."""
    counts = part.get("count")
    if counts is None:
        return np.bincount(groups.astype(np.intp, copy=False), minlength=size)
    return _sum_groups(groups, counts, size)


def _sum_groups(groups: Values, lengths: Values, size: int) -> Values:
    """Exact sums; floating point would round beyond 2^53."""
    sums = np.zeros(size, lengths.dtype)
    np.add.at(sums, groups.astype(np.intp), lengths)
    return sums
