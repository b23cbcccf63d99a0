"""Adds up manifests: every chunk object once, by array, ref, version and container."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.ops.stats.containers import find_container
from icectl.ops.stats.distinct import Distinct
from icectl.ops.stats.manifest_sums import ArraySums, ManifestSums
from icectl.ops.stats.result import (
    ArrayStats,
    ContainerStats,
    FreedStats,
    RefStats,
    SnapshotStats,
)
from icectl.ops.stats.usage import ManifestUse, Usage, array_order

Column = NDArray[Any]
BITS = 64
"""Of one column of masks."""


class Totals:
    def __init__(self, usage: Usage, *, by_mask: bool, by_snapshot: bool) -> None:
        self._usage = usage
        self._paths = array_order(usage.paths)
        self._places = {path: place for place, path in enumerate(self._paths)}
        num_bits = len(usage.refs) + 1
        words = range(-(-num_bits // BITS)) if by_mask else ()
        self._words = [f"mask_{word}" for word in words]
        values: dict[str, np.ufunc | None] = {"array": np.minimum}
        values |= dict.fromkeys(self._words, np.bitwise_or)
        if by_snapshot:
            values |= {"first": np.minimum, "last": np.maximum}
        self._native = Distinct(("high", "low"), {"length": None, **values})
        self._virtual = Distinct(("location", "offset", "length"), values)
        self._locations: dict[str, int] = {}
        count = len(usage.manifests)
        self._inline = np.zeros((len(self._paths) + 1, 2), np.int64)
        """By array: number and bytes. The last row is for arrays that no version knows."""
        self._inline_of = np.zeros((count, 2), np.int64)
        self._bytes_of = np.zeros(count, np.int64)

    def add(self, sums: ManifestSums) -> None:
        use = self._usage.manifests[sums.id]
        self._bytes_of[use.number] = sum(sums.bytes())
        for array in sums.arrays:
            path = self._usage.paths.get(array.node_id)
            place = len(self._paths) if path is None else self._places[path]
            inline = (array.num_inline, array.inlined_bytes)
            self._inline[place] += inline
            self._inline_of[use.number] += inline
            self._native.add(
                {"high": array.chunk_high, "low": array.chunk_low, "length": array.native_length}
                | self._values(use, place, len(array.native_length))
            )
            self._virtual.add(
                {
                    "location": self._numbers(array),
                    "offset": array.virtual_offset,
                    "length": array.virtual_length,
                }
                | self._values(use, place, len(array.virtual_length))
            )

    def _values(self, use: ManifestUse, place: int, rows: int) -> dict[str, Column]:
        masks = {
            name: np.full(rows, use.mask >> (BITS * word) & (2**BITS - 1), np.uint64)
            for word, name in enumerate(self._words)
        }
        return {
            "array": np.full(rows, place, np.int32),
            "first": np.full(rows, use.first, np.int32),
            "last": np.full(rows, use.last, np.int32),
        } | masks

    def _numbers(self, array: ArraySums) -> Column:
        """Locations by numbers that hold for all manifests."""
        known = self._locations
        numbers = [known.setdefault(location, len(known)) for location in array.locations]
        return np.array(numbers, np.uint32)[array.location]

    def bytes(self) -> tuple[int, int, int]:
        return (
            _total(self._native.compact()["length"]),
            _total(self._virtual.compact()["length"]),
            int(self._inline[:, 1].sum()),
        )

    def num_chunks(self) -> int:
        rows = sum(len(part.compact()["length"]) for part in (self._native, self._virtual))
        return rows + int(self._inline[:, 0].sum())

    def arrays(self) -> tuple[ArrayStats, ...]:
        size = len(self._inline)
        native, virtual = self._native.compact(), self._virtual.compact()
        native_bytes = _grouped(native["array"], native["length"], size)
        virtual_bytes = _grouped(virtual["array"], virtual["length"], size)
        counts = self._inline[:, 0].copy()
        for part in (native, virtual):
            counts += np.bincount(part["array"].astype(np.intp), minlength=size)
        columns = (native_bytes, virtual_bytes, self._inline[:, 1].tolist(), counts.tolist())
        rows = zip([*self._paths, ""], *columns, strict=True)
        # What no version names any more is a row only when there is something in it.
        return tuple(ArrayStats(*row) for row in rows if row[0] or row[-1])

    def containers(self, prefixes: tuple[str, ...]) -> tuple[ContainerStats, ...]:
        virtual = self._virtual.compact()
        size = len(self._locations)
        lengths = _grouped(virtual["location"], virtual["length"], size)
        counts = np.bincount(virtual["location"].astype(np.intp), minlength=size).tolist()
        found: dict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
        for location, length, count in zip(self._locations, lengths, counts, strict=False):
            sums = found[find_container(location, prefixes)]
            sums[0] += length
            sums[1] += count
            sums[2] += 1
        return tuple(ContainerStats(*key, *sums) for key, sums in sorted(found.items()))

    def refs(self, kind: str) -> tuple[RefStats, ...]:
        masks = self._masks()
        return tuple(
            RefStats(name, *self._ref(masks, bit))
            for bit, (of, name) in enumerate(self._usage.refs)
            if of == kind
        )

    def _masks(self) -> list[tuple[NDArray[np.uint64], Column, Column]]:
        """Of native chunks, of virtual ones and of manifests' inline ones: mask, bytes, count."""
        found = []
        for part in (self._native.compact(), self._virtual.compact()):
            mask = np.array([part[name] for name in self._words], np.uint64)
            found.append((mask, part["length"], np.ones(len(part["length"]), np.int64)))
        uses = self._usage.manifests.values()
        masks = [
            [use.mask >> (BITS * word) & (2**BITS - 1) for use in uses]
            for word in range(len(self._words))
        ]
        inline = np.array(masks, np.uint64).reshape(len(self._words), len(self._inline_of))
        return [*found, (inline, self._inline_of[:, 1], self._inline_of[:, 0])]

    def _ref(
        self, masks: list[tuple[NDArray[np.uint64], Column, Column]], bit: int
    ) -> tuple[int, int, int]:
        """Bytes, own bytes and chunks behind one bit; the bit behind the refs does not count."""
        word, value = bit // BITS, np.uint64(1 << bit % BITS)
        own = np.zeros((len(self._words), 1), np.uint64)
        own[word] = value
        all_refs = (1 << len(self._usage.refs)) - 1
        of_refs = np.array(
            [[all_refs >> (BITS * n) & (2**BITS - 1)] for n in range(len(self._words))], np.uint64
        )
        total = alone = count = 0
        for mask, lengths, counts in masks:
            reached = (mask[word] & value) != 0
            total += _total(lengths[reached])
            count += int(counts[reached].sum())
            alone += _total(lengths[((mask & of_refs) == own).all(axis=0)])
        return total, alone, count

    def snapshots(self) -> tuple[SnapshotStats, ...]:
        """Newest first."""
        size = len(self._usage.snapshots)
        own, new = np.zeros(size, np.int64), np.zeros(size, np.int64)
        uses = self._usage.manifests.values()
        inline = {
            "first": np.array([use.first for use in uses], np.intp),
            "last": np.array([use.last for use in uses], np.intp),
            "length": self._inline_of[:, 1],
        }
        for part in (self._native.compact(), self._virtual.compact(), inline):
            alone = part["first"] == part["last"]
            own += np.array(_grouped(part["first"][alone], part["length"][alone], size))
            new += np.array(_grouped(part["first"], part["length"], size))
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

    def freed(self, num_snapshots: int) -> FreedStats:
        """What lacks the bit behind those of the refs: no version that stays needs it."""
        bit = len(self._usage.refs)
        word, value = bit // BITS, np.uint64(1 << bit % BITS)
        native = self._native.compact()
        gone = (native[f"mask_{word}"] & value) == 0
        manifests = [
            use.size_bytes for use in self._usage.manifests.values() if not use.mask >> bit & 1
        ]
        return FreedStats(
            num_snapshots,
            len(manifests),
            int(gone.sum()),
            _total(native["length"][gone]) + sum(manifests),
        )


def _total(lengths: Column) -> int:
    return int(lengths.sum(dtype=np.uint64)) if len(lengths) else 0


def _grouped(groups: Column, lengths: Column, size: int) -> list[int]:
    """Exact sums; floating point would round beyond 2^53."""
    sums = np.zeros(size, np.uint64)
    np.add.at(sums, groups.astype(np.intp), lengths.astype(np.uint64))
    return sums.tolist()
