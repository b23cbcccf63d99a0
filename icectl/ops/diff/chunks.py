"""The chunks of each array that changed, array by array.

Manifests that both sides share are never read. The others are compared in groups whose extents
do not meet, so that memory follows the largest group and not the array.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from icectl.model.snapshot import ArrayNodeData, ManifestRef, NodeSnapshot
from icectl.ops.diff.result import ArrayPair, ChunkChanges, NodeDiff
from icectl.pipeline.progress import Progress
from icectl.pipeline.read_ahead import read_ahead
from icectl.repository.repository import Repository

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from icectl.format.manifest import OpenManifest
    from icectl.model.ids import ManifestId
    from icectl.model.manifest import ChunkRefs, Manifest
    from icectl.pipeline.reference_changes import ReferenceChanges, Side

    OpenManifests = Callable[[ManifestId], OpenManifest]

THREADS = 8
REFERENCES_UNASKED = 200_000
"""References on both sides that are compared although the logs name the chunks."""
MANIFEST_COST = 2_000
"""The references that could be compared while one manifest is fetched."""
REFERENCES_AT_ONCE = 1_000_000
"""References on each side that may be in memory at once, unless one group alone has more."""
MANY_REFERENCES = 65_536
"""References on one side of a group, from which memory matters."""
REFERENCES_PER_LOOKUP = 32
"""References that are decoded in the time of looking up one."""
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
    def sides(self) -> tuple[tuple[NodeSnapshot | None, tuple[ManifestRef, ...]], ...]:
        return (self.pair.before, self.before), (self.pair.after, self.after)

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
    compared = read_ahead(_Comparison(repository, diff), groups, ahead=workers)
    progress = progress or Progress()
    results = progress.count(compared, "comparing manifests", len(groups), "groups")
    for pair, own_groups in zip(diff.arrays, groups_of, strict=True):
        if own_groups is not None:
            mine = islice(results, len(own_groups))
            changes = _merge(pair, [one for _, found in mine for one in found])
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


class _Comparison:
    """Compares the references of a group.

    Those of large manifests are not all in memory: they are looked up if few were written, and
    else compared in the order of their coordinates.
    """

    def __init__(self, source: ManifestSource, diff: NodeDiff) -> None:
        self._diff = diff
        self._read: Callable[[ManifestId], Manifest] = lru_cache(MANIFESTS_REMEMBERED)(
            source.read_manifest
        )
        self._open: OpenManifests | None = None
        # Only a repository can open manifests, and not those of early generations.
        if isinstance(source, Repository) and source.is_writable:
            self._open = source.open_manifest

    def __call__(self, group: _Group) -> list[ReferenceChanges]:
        from icectl.pipeline.reference_changes import NotInOrderError, compare_references

        if self._open is not None:
            num_refs = group.num_chunk_refs(self._diff)
            if group.written is not None:
                if len(group.written) * REFERENCES_PER_LOOKUP < num_refs:
                    with suppress(NotInOrderError):
                        return [self._look_up(group, self._open, group.written)]
            elif num_refs >= MANY_REFERENCES and len(group.before) == len(group.after) == 1:
                with suppress(NotInOrderError):
                    return self._compare_in_order(group, self._open)
        before, after = (self._read_side(*side) for side in group.sides)
        return [compare_references(before, after, group.written)]

    def _read_side(self, node: NodeSnapshot | None, manifests: Sequence[ManifestRef]) -> Side:
        from icectl.pipeline.reference_changes import Side

        read = (self._read(manifest.object_id) for manifest in manifests)
        return Side(
            tuple(
                (manifest, array.refs)
                for manifest in read
                for array in manifest.arrays
                if node is not None and array.node_id == node.id
            )
        )

    def _look_up(
        self, group: _Group, open_: OpenManifests, written: NDArray[np.uint32]
    ) -> ReferenceChanges:
        from icectl.pipeline.reference_changes import NotInOrderError, Side, compare_references

        def look_up(node: NodeSnapshot | None, manifests: Sequence[ManifestRef]) -> Side:
            found: list[tuple[Manifest, ChunkRefs]] = []
            for manifest in manifests if node is not None else ():
                opened = open_(manifest.object_id)
                spans = opened.spans(node.id) if node is not None else ()
                for span in spans:
                    refs = opened.find(span, written)
                    if refs is None:
                        raise NotInOrderError
                    found.append((opened.manifest, refs))
            return Side(tuple(found))

        # One after the other: the payload of the first is released before the second is read.
        before, after = (look_up(*side) for side in group.sides)
        return compare_references(before, after, written)

    def _compare_in_order(self, group: _Group, open_: OpenManifests) -> list[ReferenceChanges]:
        from icectl.pipeline.reference_changes import OrderedRefs, compare_in_order

        ids = [manifests[0].object_id for _, manifests in group.sides]
        before, after = (
            OrderedRefs(opened, node.id)
            for (node, _), (_, opened) in zip(group.sides, read_ahead(open_, ids), strict=True)
            if node is not None
        )
        return [changes for changes in compare_in_order(before, after) if not changes.is_empty]


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
