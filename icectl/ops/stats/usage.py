"""The versions and refs that use each manifest, and what snapshots say about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import ArrayNodeData, path_sort_key
from icectl.pipeline.progress import Progress
from icectl.pipeline.read_ahead import read_ahead
from icectl.repository.repository import Repository


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
    manifests_of: list[list[int]]
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
    with progress.phase("reading snapshots", len(order)) as counter:
        snapshots = read_ahead(lambda info: repository.read_snapshot(info.id), order)
        for place, (info, snapshot) in enumerate(snapshots):
            numbers = []
            for file in snapshot.all_manifest_files:
                use = usage.manifests.get(file.id)
                if use is None:
                    use = ManifestUse(
                        len(usage.manifests), file.size_bytes, file.num_chunk_refs, place, place
                    )
                    usage.manifests[file.id] = use
                use.last = place
                use.mask |= masks.get(info.id, 0)
                numbers.append(use.number)
            usage.manifests_of.append(numbers)
            for node in snapshot.nodes:
                if not isinstance(node.node_data, ArrayNodeData):
                    continue
                usage.paths[node.id] = node.path
                for ref in node.node_data.manifests:
                    region = prod(extent.to - extent.from_ for extent in ref.extents)
                    use = usage.manifests.get(ref.object_id)
                    if use is not None:
                        use.regions.add((node.id, region))
            counter.advance()
    return usage


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
