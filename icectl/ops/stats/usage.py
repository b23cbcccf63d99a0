"""The versions and refs that use each manifest, and what snapshots say about it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    from icectl.model.node_columns import NodeColumns, SnapshotColumns


@dataclass(slots=True)
class ManifestUse:
    number: int
    size_bytes: int
    num_chunk_refs: int
    first: int
    """The oldest version that uses it, by its place in the order of time; `last` alike."""
    last: int
    mask: int = 0
    """A bit for each ref that reaches a version that uses it."""
    regions: set[tuple[NodeId, int]] = field(default_factory=set)
    """Each array's region in it, by the number of chunks that fit there."""

    @property
    def capacity(self) -> int:
        return sum(count for _, count in self.regions)


@dataclass
class Usage:
    snapshots: list[SnapshotInfo]
    """In the order of time."""
    manifests: dict[ManifestId, ManifestUse]
    manifests_of: list[array[int]]
    """By snapshot, the numbers of its manifests."""
    paths: dict[NodeId, str]
    """Of each array, in the newest version that has it."""
    refs: list[tuple[str, str]]
    """Kind and name of the ref behind each bit of a mask."""

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


def read_usage(
    repository: Repository,
    chosen: Collection[SnapshotInfo],
    masks: Mapping[SnapshotId, int],
    refs: list[tuple[str, str]],
    progress: Progress,
) -> Usage:
    """Read each chosen snapshot once; `masks` has the refs that reach each."""
    order = sorted(chosen, key=lambda info: (info.flushed_at, info.id))
    usage = Usage(order, {}, [], {}, refs)
    facts = _Facts()
    with progress.phase("reading snapshots", len(order)) as counter:
        for place, snapshot in enumerate(_read_in_order(repository, [info.id for info in order])):
            ids, files, paths, regions = facts.of(snapshot)
            for file in files:
                if file.id not in usage.manifests:
                    usage.manifests[file.id] = ManifestUse(
                        len(usage.manifests), file.size_bytes, file.num_chunk_refs, place, place
                    )
            uses = [usage.manifests[id_] for id_ in ids]
            mask = masks.get(snapshot.id, 0)
            for use in uses:
                use.last = place
                use.mask |= mask
            usage.manifests_of.append(array("I", [use.number for use in uses]))
            usage.paths.update(paths)
            for node_id, manifest_id, region in regions:
                if manifest_id in usage.manifests:
                    usage.manifests[manifest_id].regions.add((node_id, region))
            counter.advance()
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


class _Facts:
    """What statistics need of each snapshot; nothing twice that neighbours have in common."""

    def __init__(self) -> None:
        self._claims: set[bytes] = set()
        self._references: set[bytes] = set()
        self._last: NodeColumns | None = None

    def of(self, snapshot: Snapshot | SnapshotColumns) -> _SnapshotFacts:
        if isinstance(snapshot, Snapshot):
            return self._of_objects(snapshot)
        return self._of_columns(snapshot)

    def _of_objects(self, snapshot: Snapshot) -> _SnapshotFacts:
        self._last = None
        arrays = [
            (node, node.node_data)
            for node in snapshot.nodes
            if isinstance(node.node_data, ArrayNodeData)
        ]
        return _SnapshotFacts(
            [file.id for file in snapshot.all_manifest_files],
            snapshot.all_manifest_files,
            [(node.id, node.path) for node, _ in arrays],
            [
                (node.id, ref.object_id, prod(extent.to - extent.from_ for extent in ref.extents))
                for node, data in arrays
                for ref in data.manifests
            ],
        )

    def _of_columns(self, snapshot: SnapshotColumns) -> _SnapshotFacts:
        nodes, files = snapshot.nodes, snapshot.manifest_files
        last, self._last = self._last, nodes
        paths: Iterable[tuple[NodeId, str]] = ()
        if last is None or not nodes.has_names_of(last):
            pairs = zip(nodes.ids(), nodes.paths(), strict=True)
            paths = compress(pairs, nodes.is_array().tolist())
        return _SnapshotFacts(
            files.ids(),
            files.new_infos(self._claims),
            paths,
            nodes.new_references(self._references),
        )


class _SnapshotFacts(NamedTuple):
    manifests: Sequence[ManifestId]
    claims: Iterable[ManifestFileInfo]
    """Of all manifests, or of those that no earlier snapshot has."""
    paths: Iterable[tuple[NodeId, str]]
    """Of all arrays; empty if they are those of the snapshot before."""
    regions: Iterable[tuple[NodeId, ManifestId, int]]
    """Each array's number of chunks in a manifest, as in `claims`."""


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
