"""The work of `stats`: read each manifest once and yield rows of chunk objects.

The engine keeps each chunk object once; `rows` makes the rows, `totals` the result. This module
does not import numpy: the first manifest is read and decompressed while numpy is loading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from icectl.model.ids import ManifestId, NodeId
from icectl.ops.stats.locations import LocationKeys
from icectl.ops.stats.usage import Usage
from icectl.pipeline.engine import Column, Table, Work
from icectl.repository.repository import Repository

if TYPE_CHECKING:
    from icectl.repository.containers import Containers

BITS = 64
"""In one column of masks."""
NATIVE, VIRTUAL, FILES = "native", "virtual", "files"
"""The tables: chunk files, ranges of other files, and these files."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Which columns the rows have beside `array` and `length`."""

    num_masks: int
    by_snapshot: bool

    @property
    def columns(self) -> dict[str, Column]:
        columns = {"array": Column("int32", "min")}
        columns |= dict.fromkeys(mask_names(self.num_masks), Column("uint64", "or"))
        if self.by_snapshot:
            columns |= {"first": Column("int32", "min"), "last": Column("int32", "max")}
        return columns

    @property
    def tables(self) -> dict[str, Table]:
        length, container = Column("uint64", "any"), Column("uint64", "min")
        return {
            NATIVE: {"length": length, **self.columns},
            VIRTUAL: {"length": length, "container": container, **self.columns},
            FILES: {"container": container},
        }


def mask_names(count: int) -> list[str]:
    return [f"mask_{word}" for word in range(count)]


def mask_words(mask: int, count: int) -> list[int]:
    return [mask >> (BITS * word) & (2**BITS - 1) for word in range(count)]


@dataclass(frozen=True, slots=True)
class UsedManifest:
    """A manifest and its use; see `ManifestUse`."""

    id: ManifestId
    number: int
    size_bytes: int
    num_chunk_refs: int
    first: int
    last: int
    mask: int


@dataclass(frozen=True, slots=True)
class ManifestNote:
    number: int
    bytes: int
    """Of all references of the manifest."""
    inline: tuple[tuple[int, int, int], ...]
    """The number of each array, and the number and bytes of its inline chunks."""
    containers: dict[int, tuple[str, bool]]
    """The containers of virtual chunks by key: the prefix, and whether it is configured."""


@dataclass(frozen=True, slots=True)
class SumManifests:
    """Yields the rows of manifests, and a `ManifestNote` for each."""

    repository: Repository
    places: dict[NodeId, int]
    """The number of each array."""
    num_arrays: int
    breakdown: Breakdown
    containers: Containers
    locations: LocationKeys = field(default_factory=LocationKeys)

    def __call__(self, manifests: Sequence[UsedManifest]) -> Iterator[Any]:
        for used in manifests:
            manifest = self.repository.read_manifest(used.id, with_coordinates=False)
            from icectl.ops.stats.rows import manifest_rows

            yield from manifest_rows(self, used, manifest)


def sum_manifests(
    repository: Repository, usage: Usage, breakdown: Breakdown, containers: Containers
) -> Work:
    return Work(
        "reading manifests",
        repository.storage,
        [
            UsedManifest(
                manifest_id,
                use.number,
                use.size_bytes,
                use.num_chunk_refs,
                use.first,
                use.last,
                use.mask,
            )
            for manifest_id, use in usage.manifests.items()
        ],
        SumManifests(
            repository.without_history(), usage.places, usage.num_arrays, breakdown, containers
        ),
        weigh,
        breakdown.tables,
    )


def weigh(manifest: UsedManifest) -> tuple[int, int]:
    return manifest.size_bytes, manifest.num_chunk_refs
