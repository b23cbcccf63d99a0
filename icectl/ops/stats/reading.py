"""What `stats` reads: each snapshot once, then each manifest once, as rows of chunk objects.

The engine keeps each chunk object once; `columns` makes the rows and the result. This module
does not import numpy: the first manifest is read and decompressed while numpy is loading.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from icectl.errors import StorageError
from icectl.format.manifest import FewRefs
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import ArrayNodeData, ManifestFileInfo, Snapshot, path_sort_key
from icectl.pipeline.engine import Column, Table, Work
from icectl.pipeline.progress import Progress
from icectl.pipeline.read_ahead import read_ahead, read_in_order
from icectl.repository.repository import Repository

if TYPE_CHECKING:
    from icectl.model.node_columns import SnapshotColumns
    from icectl.repository.containers import Containers

BITS = 64
"""In one column of masks."""
NATIVE, VIRTUAL, FILES = "native", "virtual", "files"
"""The tables: chunk files, ranges of other files, and these files."""


@dataclass(slots=True)
class ManifestUse:
    id: ManifestId
    number: int
    size_bytes: int
    num_chunk_refs: int
    first: int = 0
    """The oldest version that uses it, by its place in the order of time; `last` alike."""
    last: int = 0
    mask: int = 0
    """A bit for each ref that reaches a version that uses it."""


@dataclass
class Usage:
    snapshots: list[SnapshotInfo]
    """In the order of time."""
    manifests: list[ManifestUse]
    """By number."""
    manifests_of: list[array[int]]
    """By snapshot, the numbers of its manifests."""
    paths: dict[NodeId, str]
    """Of each array, in the newest version that has it."""
    capacity: int = 0
    """The number of chunks that fit into the regions of all arrays in all manifests."""

    @cached_property
    def array_paths(self) -> list[str]:
        """Every path once, in the order of the hierarchy."""
        return sorted(set(self.paths.values()), key=path_sort_key)

    @property
    def num_arrays(self) -> int:
        return len(self.array_paths)

    @cached_property
    def places(self) -> dict[NodeId, int]:
        """Of each array, the place of its path in the order."""
        order = {path: place for place, path in enumerate(self.array_paths)}
        return {node_id: order[path] for node_id, path in self.paths.items()}

    def mark(self, masks: Mapping[SnapshotId, int]) -> None:
        """Set `first`, `last` and `mask` of every manifest; `masks` has the refs of versions."""
        for place in reversed(range(len(self.snapshots))):
            for number in self.manifests_of[place]:
                self.manifests[number].first = place
        for place, info in enumerate(self.snapshots):
            mask = masks.get(info.id, 0)
            for number in self.manifests_of[place]:
                use = self.manifests[number]
                use.last = place
                use.mask |= mask


def read_usage(
    repository: Repository, chosen: Collection[SnapshotInfo], progress: Progress
) -> Usage:
    """Read each chosen snapshot once."""
    order = sorted(chosen, key=lambda info: (info.flushed_at, info.id))
    usage = Usage(order, [], [], {})
    by_id: dict[ManifestId, int] = {}
    by_claim: dict[Hashable, int] = {}
    regions: set[tuple[NodeId, ManifestId, int]] = set()
    facts_of = _FactsReader().read

    def add(claim: Hashable, file: ManifestFileInfo) -> None:
        number = by_claim[claim] = by_id.setdefault(file.id, len(by_id))
        if number == len(usage.manifests):
            usage.manifests.append(
                ManifestUse(file.id, number, file.size_bytes, file.num_chunk_refs)
            )

    with progress.phase("reading snapshots", len(order)) as counter:
        for snapshot in _read_in_order(repository, [info.id for info in order]):
            facts = facts_of(snapshot)
            try:
                numbers = array("I", map(by_claim.__getitem__, facts.claims))
            except KeyError:
                for claim in facts.claims:
                    if claim not in by_claim:
                        add(claim, facts.info(claim))
                numbers = array("I", map(by_claim.__getitem__, facts.claims))
            usage.manifests_of.append(numbers)
            usage.paths.update(facts.paths)
            regions.update(facts.regions)
            counter.advance()
    usage.capacity = sum(count for _, id_, count in regions if id_ in by_id)
    return usage


def _read_in_order(
    repository: Repository, ids: Sequence[SnapshotId]
) -> Iterator[Snapshot | SnapshotColumns]:
    if not repository.is_writable:
        yield from (snapshot for _, snapshot in read_ahead(repository.read_snapshot, ids))
        return
    files = read_in_order(repository.storage, map(repository.layout.snapshot, ids))
    for id_, (_, data) in zip(ids, files, strict=True):
        if isinstance(data, StorageError):
            raise data
        yield repository.decode_snapshot(id_, data)


class _Facts(NamedTuple):
    """What statistics need of a snapshot."""

    claims: Sequence[Hashable]
    """What it says about each of its manifests; `info` decodes it."""
    info: Callable[..., ManifestFileInfo]
    paths: Iterable[tuple[NodeId, str]]
    """Of all arrays; empty if they are those of the snapshot before."""
    regions: Iterable[tuple[NodeId, ManifestId, int]]
    """Each array's number of chunks in a manifest; those of earlier snapshots may be left out."""


class _FactsReader:
    """Reads nothing twice that neighbouring snapshots have in common."""

    def __init__(self) -> None:
        self._references: set[bytes] = set()
        self._names: Hashable = None

    def read(self, snapshot: Snapshot | SnapshotColumns) -> _Facts:
        if isinstance(snapshot, Snapshot):
            return self._read_objects(snapshot)
        return self._read_columns(snapshot)

    def _read_objects(self, snapshot: Snapshot) -> _Facts:
        self._names = None
        arrays = [
            (node, node.node_data)
            for node in snapshot.nodes
            if isinstance(node.node_data, ArrayNodeData)
        ]
        return _Facts(
            snapshot.all_manifest_files,
            lambda file: file,
            [(node.id, node.path) for node, _ in arrays],
            [
                (node.id, ref.object_id, prod(extent.to - extent.from_ for extent in ref.extents))
                for node, data in arrays
                for ref in data.manifests
            ],
        )

    def _read_columns(self, snapshot: SnapshotColumns) -> _Facts:
        from icectl.model.node_columns import claimed_info

        nodes = snapshot.nodes
        paths: Iterable[tuple[NodeId, str]] = ()
        last, self._names = self._names, nodes.names()
        if self._names != last:
            pairs = zip(nodes.ids(), nodes.paths(), strict=True)
            paths = compress(pairs, nodes.is_array().tolist())
        return _Facts(
            snapshot.manifest_files.claims(),
            claimed_info,
            paths,
            nodes.new_references(self._references),
        )


def ref_masks(repository: Repository) -> tuple[dict[SnapshotId, int], list[tuple[str, str]]]:
    """The refs that reach each snapshot, as bits, and the ref of each bit."""
    masks: dict[SnapshotId, int] = {}
    refs: list[tuple[str, str]] = []
    for kind, targets in (("branch", repository.branches()), ("tag", repository.tags())):
        for name in sorted(targets):
            bit = 1 << len(refs)
            refs.append((kind, name))
            for info in repository.ancestry(targets[name]):
                masks[info.id] = masks.get(info.id, 0) | bit
    return masks, refs


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
    from hashlib import blake2b  # loads OpenSSL

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
        uses = {use.id: use for use in manifests}
        for found in self.repository.read_chunk_sizes(uses):
            use = uses[found.id]
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
        reads_at_once=True,
    )


def weigh(manifest: ManifestUse) -> tuple[int, int]:
    return manifest.size_bytes, manifest.num_chunk_refs
