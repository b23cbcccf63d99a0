"""What engines make of all references: every chunk object once, with what decides about it.

Rows are native or virtual chunk objects, or groups of them that agree in everything but their
length; then `count` says how many, and `length` is their sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from icectl.model.ids import ManifestId
from icectl.ops.gc.watch import Watch
from icectl.ops.readers import count_readers
from icectl.ops.stats.containers import find_container
from icectl.ops.stats.distinct import Distinct
from icectl.ops.stats.manifest_sums import ArraySums, ManifestSums, sum_manifest
from icectl.ops.stats.result import ContainerStats
from icectl.ops.stats.usage import ManifestUse, Usage
from icectl.records import dataclass
from icectl.repository.repository import Repository
from icectl.storage.bounded import map_on_threads

Column = NDArray[Any]
Columns = dict[str, Column]
BITS = 64
"""Of one column of masks."""
LOCAL_READERS = 2
REMOTE_READERS = 8
REFERENCES_AT_ONCE = 2_000_000
"""References in memory at once, unless one manifest alone has more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns the rows need beside `array` and `length`."""

    num_masks: int
    by_snapshot: bool

    @property
    def reductions(self) -> dict[str, np.ufunc]:
        """How the values of one chunk object are joined."""
        values: dict[str, np.ufunc] = {"array": np.minimum}
        values |= dict.fromkeys(mask_names(self.num_masks), np.bitwise_or)
        if self.by_snapshot:
            values |= {"first": np.minimum, "last": np.maximum}
        return values


def mask_names(count: int) -> list[str]:
    return [f"mask_{word}" for word in range(count)]


def mask_words(mask: int, count: int) -> list[int]:
    return [mask >> (BITS * word) & (2**BITS - 1) for word in range(count)]


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


class Engine(Protocol):
    @property
    def name(self) -> str: ...

    def gather(
        self,
        repository: Repository,
        usage: Usage,
        wanted: Wanted,
        prefixes: tuple[str, ...],
        watch: Watch,
    ) -> Gathered:
        """`prefixes` are those of the containers of virtual chunks."""


class LocalEngine:
    name = "local"

    def gather(
        self,
        repository: Repository,
        usage: Usage,
        wanted: Wanted,
        prefixes: tuple[str, ...],
        watch: Watch,
    ) -> Gathered:
        rows = _Rows(usage, wanted)
        for sums in _read_sums(repository, usage, watch):
            rows.add(sums)
        native, virtual = rows.native.compact(), rows.virtual.compact()
        return Gathered(
            native,
            virtual,
            _containers(rows.locations, virtual, prefixes),
            rows.inline,
            rows.inline_of,
            rows.bytes_of,
        )


def _read_sums(repository: Repository, usage: Usage, watch: Watch) -> Iterable[ManifestSums]:
    workers = count_readers(
        repository.storage,
        (use.num_chunk_refs for use in usage.manifests.values()),
        local=LOCAL_READERS,
        remote=REMOTE_READERS,
        at_once=REFERENCES_AT_ONCE,
    )
    with watch.phase("reading manifests", len(usage.manifests)) as counter:
        for sums in map_on_threads(
            lambda manifest_id: read_sums(repository, manifest_id),
            usage.manifests,
            workers=workers,
            ahead=workers,
        ):
            yield sums
            counter.advance()


def read_sums(repository: Repository, manifest_id: ManifestId) -> ManifestSums:
    return sum_manifest(repository.read_manifest(manifest_id, with_coordinates=False))


class _Rows:
    def __init__(self, usage: Usage, wanted: Wanted) -> None:
        self._usage = usage
        self._wanted = wanted
        self.native = Distinct(("high", "low"), {"length": None, **wanted.reductions})
        self.virtual = Distinct(("location", "offset", "length"), wanted.reductions)
        self.locations: dict[str, int] = {}
        count = len(usage.manifests)
        self.inline = np.zeros((usage.num_arrays + 1, 2), np.int64)
        self.inline_of = np.zeros((count, 2), np.int64)
        self.bytes_of = np.zeros(count, np.int64)

    def add(self, sums: ManifestSums) -> None:
        use = self._usage.manifests[sums.id]
        self.bytes_of[use.number] = sum(sums.bytes())
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
        return {
            "array": np.full(rows, place, np.int32),
            "first": np.full(rows, use.first, np.int32),
            "last": np.full(rows, use.last, np.int32),
        } | {name: np.full(rows, word, np.uint64) for name, word in masks}

    def _numbers(self, array: ArraySums) -> Column:
        """Locations by numbers that hold for all manifests."""
        known = self.locations
        numbers = [known.setdefault(location, len(known)) for location in array.locations]
        return np.array(numbers, np.uint32)[array.location]


def _containers(
    locations: Iterable[str], virtual: Columns, prefixes: tuple[str, ...]
) -> tuple[ContainerStats, ...]:
    names = list(locations)
    lengths = sum_groups(virtual["location"], virtual["length"], len(names))
    counts = np.bincount(virtual["location"].astype(np.intp), minlength=len(names)).tolist()
    found: dict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
    for location, length, count in zip(names, lengths, counts, strict=True):
        sums = found[find_container(location, prefixes)]
        sums[0] += length
        sums[1] += count
        sums[2] += 1
    return tuple(ContainerStats(*key, *sums) for key, sums in sorted(found.items()))


def sum_groups(groups: Column, lengths: Column, size: int) -> list[int]:
    """Exact sums; floating point would round beyond 2^53."""
    sums = np.zeros(size, np.uint64)
    np.add.at(sums, groups.astype(np.intp), lengths.astype(np.uint64))
    return sums.tolist()
