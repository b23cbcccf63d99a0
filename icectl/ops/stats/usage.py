"""The versions and refs that use each manifest, and what snapshots say about it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from icectl.errors import StorageError
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import ArrayNodeData, ManifestFileInfo, Snapshot, path_sort_key
from icectl.pipeline.progress import Progress
from icectl.pipeline.read_ahead import read_ahead, read_in_order
from icectl.repository.repository import Repository

if TYPE_CHECKING:
    from icectl.model.node_columns import SnapshotColumns


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
            numbers = list(map(by_claim.get, facts.claims))
            if None in numbers:
                for claim in facts.claims:
                    if claim not in by_claim:
                        add(claim, facts.info(claim))
                numbers = list(map(by_claim.get, facts.claims))
            usage.manifests_of.append(array("I", numbers))
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
    # Threads read; this one decodes, since decoding holds the interpreter's lock.
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
