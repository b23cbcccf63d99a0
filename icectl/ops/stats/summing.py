"""The work of `stats`: read each manifest once and yield rows of chunk objects.

The engine keeps each chunk object once; `columns` makes the rows and the result. This module
does not import numpy: the first manifest is read and decompressed while numpy is loading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from icectl.format.manifest import FewRefs
from icectl.model.ids import NodeId
from icectl.ops.stats.usage import ManifestUse, Usage
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


class ManifestNote(NamedTuple):
    number: int
    bytes: int
    """Of all references of the manifest."""
    inline: list[tuple[int, int, int]]
    """The number of each array, and the number and bytes of its inline chunks."""
    containers: dict[int, tuple[str, bool]]
    """The containers of virtual chunks by key: the prefix, and whether it is configured."""


class LocationKeys:
    """A digest in place of each virtual location, equal in every process.

    It has 128 bits, so among a billion locations two have the same with a probability of 1.5e-21.
    Remembers digests and containers; forgets them when pickled.
    """

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._keys: dict[tuple[str, bool], bytes] = {}
        self.containers: dict[int, tuple[str, bool]] = {}
        """By key: the prefix, and whether it is configured."""

    def __reduce__(self) -> tuple[Any, ...]:
        return LocationKeys, ()

    def find(self, location: str, containers: Containers) -> bytes:
        """16 bytes of digest, and the 8 bytes of the key of the location's container."""
        known = self._known.get(location)
        if known is None:
            known = digest(containers.resolve(location), 16) + self._key(containers.find(location))
            self._known[location] = known
        return known

    def _key(self, container: tuple[str, bool]) -> bytes:
        key = self._keys.get(container)
        if key is None:
            prefix, is_configured = container
            key = digest(f"{int(is_configured)}{prefix}", 8)
            self.containers[int.from_bytes(key, "little")] = container
            self._keys[container] = key
        return key


def digest(text: str, size: int) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=size).digest()


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

    def __call__(self, manifests: Sequence[ManifestUse]) -> Iterator[Any]:
        few: list[tuple[ManifestUse, FewRefs]] = []
        for use in manifests:
            found = self.repository.read_chunk_sizes(use.id)
            if isinstance(found, FewRefs):
                few.append((use, found))
                continue
            from icectl.ops.stats.columns import manifest_rows

            yield from manifest_rows(self, use, found)
        if few:
            from icectl.ops.stats.columns import rows_of_few

            yield from rows_of_few(self, few)

    def place(self, node_id: NodeId) -> int:
        return self.places.get(node_id, self.num_arrays)


def sum_manifests(
    repository: Repository, usage: Usage, breakdown: Breakdown, containers: Containers
) -> Work:
    return Work(
        "reading manifests",
        repository.storage,
        usage.manifests,
        SumManifests(
            repository.without_history(), usage.places, usage.num_arrays, breakdown, containers
        ),
        weigh,
        breakdown.tables,
    )


def weigh(manifest: ManifestUse) -> tuple[int, int]:
    return manifest.size_bytes, manifest.num_chunk_refs
