"""What engines make of all references: every chunk object once, with what decides about it.

Rows are native or virtual chunk objects, or groups of them that agree in everything but their
length; then `count` says how many, and `length` is their sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.model.redaction import redact_location
from icectl.ops.stats.distinct import Distinct
from icectl.ops.stats.engine import Wanted, mask_names, mask_words
from icectl.ops.stats.manifest_sums import ArraySums, ManifestSums
from icectl.ops.stats.result import ContainerStats
from icectl.ops.stats.usage import ManifestUse, Usage
from icectl.repository.containers import Containers

Column = NDArray[Any]
Columns = dict[str, Column]


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    native: Columns
    virtual: Columns
    containers: tuple[ContainerStats, ...]
    inline: NDArray[np.int64]
    """By array: number and bytes. The last row is for arrays that no version knows."""
    inline_of: NDArray[np.int64]
    """By manifest: number and bytes."""
    bytes_of: NDArray[np.int64]
    """By manifest: of all its references."""


def gather_sums(
    every: Iterable[ManifestSums], usage: Usage, wanted: Wanted, containers: Containers
) -> Gathered:
    rows = _Rows(usage, wanted, containers)
    for sums in every:
        rows.add(sums)
    native, virtual = rows.native.compact(), rows.virtual.compact()
    return Gathered(
        native,
        virtual,
        _containers(rows.locations, virtual, containers),
        rows.inline,
        rows.inline_of,
        rows.bytes_of,
    )


class _Rows:
    def __init__(self, usage: Usage, wanted: Wanted, containers: Containers) -> None:
        self._usage = usage
        self._wanted = wanted
        self._containers = containers
        self.native = Distinct(("high", "low"), {"length": None, **wanted.reductions})
        self.virtual = Distinct(("location", "offset", "length"), wanted.reductions)
        self.locations: dict[str, int] = {}
        count = len(usage.manifests)
        self.inline = np.zeros((usage.num_arrays + 1, 2), np.int64)
        self.inline_of = np.zeros((count, 2), np.int64)
        self.bytes_of = np.zeros(count, np.int64)

    def add(self, sums: ManifestSums) -> None:
        use = self._usage.manifests[sums.id]
        self.bytes_of[use.number] = min(sum(sums.bytes()), 2**63 - 1)  # damaged lengths
        for array in sums.arrays:
            place = self._usage.places.get(array.node_id, self._usage.num_arrays)
            inline = (array.num_inline, array.inlined_bytes)
            self.inline[place] += inline
            self.inline_of[use.number] += inline
            self.native.add(
                {"high": array.chunk_high, "low": array.chunk_low, "length": array.native_length}
                | self._values(use, place, len(array.native_length))
            )
            self.virtual.add(
                {
                    "location": self._numbers(array),
                    "offset": array.virtual_offset,
                    "length": array.virtual_length,
                }
                | self._values(use, place, len(array.virtual_length))
            )

    def _values(self, use: ManifestUse, place: int, rows: int) -> Columns:
        count = self._wanted.num_masks
        masks = zip(mask_names(count), mask_words(use.mask, count), strict=True)
        values = {"array": np.full(rows, place, np.int32)}
        if self._wanted.by_snapshot:
            values["first"] = np.full(rows, use.first, np.int32)
            values["last"] = np.full(rows, use.last, np.int32)
        return values | {name: np.full(rows, word, np.uint64) for name, word in masks}

    def _numbers(self, array: ArraySums) -> Column:
        """Locations by numbers that hold for all manifests."""
        known = self.locations
        locations = map(self._containers.resolve, array.locations)
        numbers = [known.setdefault(location, len(known)) for location in locations]
        return np.array(numbers, np.uint32)[array.location]


def _containers(
    locations: Iterable[str], virtual: Columns, containers: Containers
) -> tuple[ContainerStats, ...]:
    names = list(locations)
    lengths = sum_groups(virtual["location"], virtual["length"], len(names))
    counts = np.bincount(virtual["location"].astype(np.intp), minlength=len(names)).tolist()
    found: dict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
    for location, length, count in zip(names, lengths, counts, strict=True):
        sums = found[containers.find(location)]
        sums[0] += length
        sums[1] += count
        sums[2] += 1
    return tuple(
        ContainerStats(redact_location(prefix), configured, *sums)
        for (prefix, configured), sums in sorted(found.items())
    )


def sum_groups(groups: Column, lengths: Column, size: int) -> list[int]:
    """Exact sums; floating point would round beyond 2^53."""
    sums = np.zeros(size, np.uint64)
    np.add.at(sums, groups.astype(np.intp), lengths.astype(np.uint64))
    return sums.tolist()
