"""The chunks of each array that changed, array by array.

Manifests that both sides share are never read. The others are compared in groups whose extents
do not meet, so that memory follows the largest group and not the array.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from icectl.model.snapshot import ArrayNodeData, ManifestRef, NodeSnapshot
from icectl.ops.diff.result import ArrayPair, ChunkChanges, NodeDiff
from icectl.pipeline.progress import Progress
from icectl.pipeline.read_ahead import read_ahead

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from icectl.model.ids import ManifestId
    from icectl.model.manifest import Manifest
    from icectl.pipeline.reference_changes import ReferenceChanges, Side

THREADS = 8
REFERENCES_UNASKED = 200_000
"""References on both sides that are compared although the logs name the chunks."""
MANIFEST_COST = 2_000
"""The references that could be compared while one manifest is fetched."""
REFERENCES_AT_ONCE = 1_000_000
"""References on each side that may be in memory at once, unless one group alone has more."""
MANIFESTS_REMEMBERED = 2
"""Early generations keep every array in one manifest; one for each side is remembered."""


class ManifestSource(Protocol):
    """A repository, or whatever else has its manifests."""

    def read_manifest(self, manifest_id: ManifestId) -> Manifest: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Manifests of one array that must be compared together."""

    pair: ArrayPair
    before: tuple[ManifestRef, ...]
    after: tuple[ManifestRef, ...]
    written: NDArray[np.uint32] | None = None
    """The coordinates to compare; None: all."""

    @property
    def manifests(self) -> set[ManifestId]:
        return {manifest.object_id for manifest in (*self.before, *self.after)}

    def num_chunk_refs(self, diff: NodeDiff) -> int:
        return max(
            sum(diff.num_chunk_refs.get(manifest.object_id, 0) for manifest in manifests)
            for manifests in (self.before, self.after)
        )


@dataclass(slots=True)
class _Cut:
    start: int
    end: int
    before: list[ManifestRef] = field(default_factory=list)
    after: list[ManifestRef] = field(default_factory=list)


class Detail(enum.Enum):
    """How much of a change that the logs record is looked up in manifests."""

    NONE = enum.auto()
    """Nothing: the logs name the chunks that were written."""
    CHEAP = enum.auto()
    """Which chunks are new, overwritten or deleted, unless that takes long to find out."""
    FULL = enum.auto()


def read_chunk_changes(
    repository: ManifestSource,
    diff: NodeDiff,
    *,
    detail: Detail = Detail.FULL,
    deleted_arrays: bool = False,
    progress: Progress | None = None,
) -> Iterator[ChunkChanges]:
    """The arrays with changed chunks, in the order of their paths, as they are found.

    Arrays that the logs do not cover are always compared. `deleted_arrays` counts the chunks of
    arrays that are gone, too.
    """
    groups_of: list[list[_Group] | None] = []
    for pair in diff.arrays:
        by_logs = pair.after is not None and pair.written is not None
        wanted = detail is not Detail.NONE if by_logs else pair.after is not None or deleted_arrays
        groups_of.append(_groups(pair) if wanted else None)
    if detail is Detail.CHEAP and not _is_cheap(diff, groups_of):
        groups_of = [
            None if pair.written is not None and pair.after is not None else groups
            for pair, groups in zip(diff.arrays, groups_of, strict=True)
        ]
    groups = [group for found in groups_of for group in found or ()]
    largest = max((group.num_chunk_refs(diff) for group in groups), default=0)
    workers = max(1, min(THREADS, len(groups), REFERENCES_AT_ONCE // max(largest, 1)))
    compared = read_ahead(_comparison(repository), groups, ahead=workers)
    progress = progress or Progress()
    results = progress.count(compared, "comparing manifests", len(groups), "groups")
    for pair, own_groups in zip(diff.arrays, groups_of, strict=True):
        if own_groups is not None:
            mine = islice(results, len(own_groups))
            changes = _merge(pair, [found for _, found in mine])
        elif pair.written is not None:
            changes = _merge(pair, None)
        else:
            continue
        if changes.num_chunks or (changes.deleted is not None and len(changes.deleted)):
            yield changes


def _is_cheap(diff: NodeDiff, groups_of: Iterable[list[_Group] | None]) -> bool:
    manifests = {id_ for groups in groups_of for group in groups or () for id_ in group.manifests}
    sizes = (diff.num_chunk_refs.get(id_, 0) + MANIFEST_COST for id_ in manifests)
    return sum(sizes) <= REFERENCES_UNASKED


def _groups(pair: ArrayPair) -> list[_Group]:
    before, after = _manifests(pair.before), _manifests(pair.after)
    if pair.before is not None and pair.after is not None and pair.before.id == pair.after.id:
        shared = set(before) & set(after)
        before = [manifest for manifest in before if manifest not in shared]
        after = [manifest for manifest in after if manifest not in shared]
    if not before and not after:
        return []
    dimensions = {len(manifest.extents) for manifest in (*before, *after)}
    # Early generations have no extents, and an array can be replaced by one of another shape.
    axes = range(dimensions.pop()) if len(dimensions) == 1 else ()
    cuts = {axis: _cut(before, after, axis) for axis in axes}
    axis = max(cuts, key=lambda axis: len(cuts[axis]), default=None)
    written = None if pair.after is None else pair.written
    if axis is None:
        return [_Group(pair, tuple(before), tuple(after), written)]
    if written is None:
        return [_Group(pair, tuple(cut.before), tuple(cut.after)) for cut in cuts[axis]]
    slices = _slice(written, axis, cuts[axis])
    return [
        _Group(pair, tuple(cut.before), tuple(cut.after), coordinates)
        for cut, coordinates in zip(cuts[axis], slices, strict=True)
        if len(coordinates)
    ]


def _slice(
    written: NDArray[np.uint32], axis: int, cuts: Sequence[_Cut]
) -> Iterator[NDArray[np.uint32]]:
    """The coordinates of each cut; each of them is looked at once."""
    import numpy as np

    if not len(written):
        return (written for _ in cuts)
    column = written[:, axis]
    if axis:  # the rows are sorted by the first axis only
        order = np.argsort(column, kind="stable")
        column = column[order]
    starts = np.searchsorted(column, np.array([cut.start for cut in cuts], np.uint64)).tolist()
    ends = np.searchsorted(column, np.array([cut.end for cut in cuts], np.uint64)).tolist()
    if not axis:
        return (written[start:end] for start, end in zip(starts, ends, strict=True))
    return (written[np.sort(order[s:e])] for s, e in zip(starts, ends, strict=True))


def _manifests(node: NodeSnapshot | None) -> list[ManifestRef]:
    if node is None or not isinstance(node.node_data, ArrayNodeData):
        return []
    return list(node.node_data.manifests)


def _cut(before: list[ManifestRef], after: list[ManifestRef], axis: int) -> list[_Cut]:
    """The manifests along one axis, cut wherever no extent reaches across."""
    sided = [(manifest, False) for manifest in before] + [(manifest, True) for manifest in after]
    sided.sort(key=lambda item: item[0].extents[axis].from_)
    cuts: list[_Cut] = []
    for manifest, is_after in sided:
        extent = manifest.extents[axis]
        if not cuts or extent.from_ >= cuts[-1].end:
            cuts.append(_Cut(extent.from_, extent.to))
        cut = cuts[-1]
        cut.end = max(cut.end, extent.to)
        (cut.after if is_after else cut.before).append(manifest)
    return cuts


def _comparison(repository: ManifestSource) -> Callable[[_Group], ReferenceChanges]:
    from icectl.pipeline.reference_changes import Side, compare_references

    read_manifest: Callable[[ManifestId], Manifest] = lru_cache(MANIFESTS_REMEMBERED)(
        repository.read_manifest
    )

    def read_side(node: NodeSnapshot | None, manifests: Sequence[ManifestRef]) -> Side:
        if node is None:
            return Side(())
        read = (read_manifest(manifest.object_id) for manifest in manifests)
        return Side(
            tuple(
                (manifest, array.refs)
                for manifest in read
                for array in manifest.arrays
                if array.node_id == node.id
            )
        )

    def compare(group: _Group) -> ReferenceChanges:
        before = read_side(group.pair.before, group.before)
        after = read_side(group.pair.after, group.after)
        return compare_references(before, after, group.written)

    return compare


def _merge(pair: ArrayPair, compared: list[ReferenceChanges] | None) -> ChunkChanges:
    """One answer for the array from those of its groups; None where none were compared."""
    import numpy as np

    from icectl.pipeline.coordinates import distinct

    if compared is None:
        assert pair.written is not None
        gone = pair.after is None
        written = pair.written
        return ChunkChanges(pair.path, len(written), (written,), of_deleted_array=gone)

    def united(*kinds: str) -> NDArray[np.uint32]:
        blocks = [getattr(changes, kind) for changes in compared for kind in kinds]
        blocks = [block for block in blocks if len(block)]
        return distinct(np.concatenate(blocks)) if blocks else np.empty((0, 0), np.uint32)

    added, overwritten, deleted = united("added"), united("overwritten"), united("deleted")
    chunks: tuple[NDArray[np.uint32], ...]
    if pair.after is None:
        chunks = () if pair.written is None else (pair.written,)
    elif pair.written is not None:
        chunks = (pair.written,)
    elif len(added) and len(deleted) and added.shape[1] != deleted.shape[1]:
        chunks = (deleted, added)
    else:
        chunks = (united("added", "overwritten", "deleted"),)
    return ChunkChanges(
        pair.path,
        sum(map(len, chunks)),
        chunks,
        added,
        overwritten,
        deleted,
        sum(changes.bytes_added for changes in compared),
        sum(changes.bytes_removed for changes in compared),
        of_deleted_array=pair.after is None,
    )
