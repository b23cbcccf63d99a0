"""References to lost chunks and manifests: a new commit that drops them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icectl.checks.node import load_zarr_json, regular_chunks
from icectl.errors import (
    ConflictError,
    FormatError,
    RefNotFoundError,
    StorageError,
    UnsupportedError,
)
from icectl.format.envelope import Generation
from icectl.format.manifest import encode_manifest
from icectl.format.snapshot import encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.model.ids import ChunkId, ManifestId, SnapshotId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind
from icectl.model.repo import NewCommitUpdate, Ref, RepoInfo, SnapshotInfo
from icectl.model.snapshot import (
    ArrayNodeData,
    ChunkIndexRange,
    DimensionShapeV2,
    ManifestFileInfo,
    ManifestRef,
    NodeSnapshot,
    Snapshot,
)
from icectl.model.transaction_log import ArrayUpdatedChunks
from icectl.ops.repair import NamedStep
from icectl.ops.repair.logs import empty_log, recorded_chunks
from icectl.ops.repair.steps import (
    LOST_CHUNK,
    LOST_MANIFEST,
    LostArray,
    Step,
    Survey,
)
from icectl.pipeline.coordinates import CoordinateSet, coordinate_keys
from icectl.pipeline.id_columns import IdSet, id_columns, id_set
from icectl.pipeline.objects import ObjectKind
from icectl.repository.clock import read_write_time
from icectl.repository.edits import Edited, find_ref
from icectl.repository.open import open_repository, repository_at
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.pipeline.coordinates import Coordinates

Extents = tuple[ChunkIndexRange, ...]

MESSAGE = "Drop references to lost chunks"
COORDINATES_LISTED = 1000
"""In the result; the transaction log of the new commit has all of them."""
COORDINATES_SHOWN = 10
MOST_COORDINATES = 10_000_000
"""In the extents of a lost manifest, each of which the transaction log lists."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What the storage lacks."""

    manifests: frozenset[ManifestId]
    chunks: IdSet
    sizes: NDArray[np.uint64]
    """How many bytes of each chunk are there."""

    @classmethod
    def of(cls, survey: Survey) -> Loss:
        found = sorted((ChunkId.parse(name), size) for name, size in survey.lost_chunks.items())
        sizes = np.array([size for _, size in found], np.uint64)
        return cls(frozenset(survey.lost_manifests), id_set(id_ for id_, _ in found), sizes)

    def rows(self, refs: ChunkRefs) -> NDArray[np.bool_]:
        """Which of the references lead to bytes that are not there."""
        lost = np.zeros(len(refs), np.bool_)
        native = np.flatnonzero(refs.kind == RefKind.NATIVE)
        if refs.chunk_id.shape[1] == 12 and len(native):
            places = self.chunks.find(id_columns(refs.chunk_id[native]))
            rows, places = native[places >= 0], places[places >= 0]
            lost[rows] = refs.offset[rows] + refs.length[rows] > self.sizes[places]
        return lost


@dataclass(slots=True)
class _Rewriting:
    """The arrays of one snapshot without their lost references."""

    repository: Repository
    tip: SnapshotId
    loss: Loss
    nodes: list[NodeSnapshot]
    files: dict[ManifestId, ManifestFileInfo]
    written: dict[ManifestId, bytes]
    dropped: list[tuple[NodeSnapshot, Coordinates]]

    @classmethod
    def of(cls, repository: Repository, snapshot: Snapshot, loss: Loss) -> _Rewriting:
        files = {file.id: file for file in snapshot.all_manifest_files}
        found = cls(repository, snapshot.id, loss, [], files, {}, [])
        found.nodes = [found._without_lost(node) for node in snapshot.nodes]
        return found

    def _without_lost(self, node: NodeSnapshot) -> NodeSnapshot:
        data = node.node_data
        if not isinstance(data, ArrayNodeData):
            return node
        dropped = CoordinateSet()
        kept: list[ManifestRef] = []
        for ref in data.manifests:
            if ref.object_id in self.loss.manifests:
                kept += self._rebuilt(node, ref, dropped)
            else:
                kept += self._without_lost_chunks(node, ref, dropped)
        rows = dropped.rows()
        if tuple(kept) == data.manifests:
            return node
        self.dropped.append((node, rows))
        return replace(node, node_data=replace(data, manifests=tuple(kept)))

    def _rebuilt(
        self, node: NodeSnapshot, ref: ManifestRef, dropped: CoordinateSet
    ) -> Iterator[ManifestRef]:
        """The references of a lost manifest that did not change since a version that is whole."""
        assert isinstance(node.node_data, ArrayNodeData)
        grid = node.node_data.num_chunks
        older = find_older_references(self.repository, self.tip, node, self.loss)
        if older is None:
            dropped.add(_within(ref, grid))
            return
        dropped.add(older.changed[_is_within(older.changed, ref.extents, grid)])
        for part, manifest, refs in older.parts:
            extents = _common(ref.extents, part.extents)
            if extents is None:
                continue
            inside = _is_within(refs.coordinates, extents, grid)
            inside &= ~_are_among(refs.coordinates, older.changed)
            lost = inside & self.loss.rows(refs)
            dropped.add(refs.coordinates[lost])
            yield from self._put(node, manifest, refs, inside & ~lost, extents)

    def _without_lost_chunks(
        self, node: NodeSnapshot, ref: ManifestRef, dropped: CoordinateSet
    ) -> Iterator[ManifestRef]:
        if not len(self.loss.chunks):
            yield ref
            return
        manifest = self.repository.read_manifest(ref.object_id)
        refs = next((one.refs for one in manifest.arrays if one.node_id == node.id), None)
        lost = np.zeros(0, np.bool_) if refs is None else self.loss.rows(refs)
        if refs is None or not lost.any():
            yield ref
            return
        dropped.add(refs.coordinates[lost])
        yield from self._put(node, manifest, refs, ~lost, ref.extents)

    def _put(
        self,
        node: NodeSnapshot,
        manifest: Manifest,
        refs: ChunkRefs,
        kept: NDArray[np.bool_],
        extents: Extents,
    ) -> Iterator[ManifestRef]:
        """A new manifest with some of the references of another."""
        if not kept.any():
            return
        new = Manifest(
            manifest.spec_version,
            ManifestId.generate(),
            (ArrayManifest(node.id, refs.take(np.flatnonzero(kept))),),
            manifest.location_dictionary,
            manifest.compression_algorithm,
        )
        data = encode_manifest(new)
        self.written[new.id] = data
        self.files[new.id] = ManifestFileInfo(new.id, len(data), new.num_chunk_refs)
        yield ManifestRef(new.id, extents)

    def snapshot(
        self, parent: Snapshot, snapshot_id: SnapshotId, spec_version: int, now: int
    ) -> Snapshot:
        used = {
            ref.object_id
            for node in self.nodes
            if isinstance(node.node_data, ArrayNodeData)
            for ref in node.node_data.manifests
        }
        files = tuple(file for id_, file in self.files.items() if id_ in used)
        is_v2 = spec_version >= 2
        return Snapshot(
            spec_version,
            snapshot_id,
            None if is_v2 else parent.id,
            tuple(map(_as_v2, self.nodes) if is_v2 else self.nodes),
            max(now, parent.flushed_at + 1),
            MESSAGE,
            (),
            () if is_v2 else files,
            files if is_v2 else None,
        )


def _as_v2(node: NodeSnapshot) -> NodeSnapshot:
    """After a migration, a parent of spec version 1 has another field for the shape."""
    data = node.node_data
    if not isinstance(data, ArrayNodeData) or data.shape_v2 is not None:
        return node
    chunks = regular_chunks(load_zarr_json(node.user_data))
    counts = data.num_chunks
    if chunks and len(chunks) == len(counts):
        counts = tuple(
            -(-size // chunk) for size, chunk in zip(data.array_shape, chunks, strict=True)
        )
    shape = tuple(map(DimensionShapeV2, data.array_shape, counts))
    return replace(node, node_data=replace(data, shape=(), shape_v2=shape))


def _within(ref: ManifestRef, grid: Sequence[int]) -> Coordinates:
    """The chunks that the manifest covers."""
    ranges = [
        range(extent.from_, min(extent.to, length))
        for extent, length in zip(ref.extents, grid, strict=False)
    ]
    if not ref.extents or len(ref.extents) != len(grid):
        ranges = [range(length) for length in grid]
    if math.prod(map(len, ranges)) > MOST_COORDINATES:
        raise ValueError(f"the manifest {ref.object_id} covers too many chunks")
    axes = np.meshgrid(*(np.array(one, np.uint32) for one in ranges), indexing="ij")
    return (
        np.stack([axis.reshape(-1) for axis in axes], axis=1)
        if axes
        else np.empty((1, 0), np.uint32)
    )


@dataclass(frozen=True, slots=True)
class OlderReferences:
    """An array in the newest version whose manifests are all there."""

    parts: tuple[tuple[ManifestRef, Manifest, ChunkRefs], ...]
    changed: Coordinates
    """The chunks that were written since, by the transaction logs."""


def find_older_references(
    repository: Repository, tip: SnapshotId, node: NodeSnapshot, loss: Loss
) -> OlderReferences | None:
    """None if no version since the array was created is whole, or a log between is lost."""
    changed = CoordinateSet()
    try:
        for info in repository.ancestry(tip):
            snapshot = repository.read_snapshot(info.id)
            found = next((one for one in snapshot.nodes if one.id == node.id), None)
            data = None if found is None else found.node_data
            if not isinstance(data, ArrayNodeData):
                return None
            if loss.manifests.isdisjoint(ref.object_id for ref in data.manifests):
                return OlderReferences(_read_parts(repository, node, data), changed.rows())
            for log_id in (*(info.pruned_ancestor_tx_logs or ()), info.id):
                log = repository.read_transaction_log(log_id)
                if node.id in log.new_arrays or not changed.add(recorded_chunks([log], node.id)):
                    return None
    except (FormatError, UnsupportedError, StorageError):
        return None
    return None


def _read_parts(
    repository: Repository, node: NodeSnapshot, data: ArrayNodeData
) -> tuple[tuple[ManifestRef, Manifest, ChunkRefs], ...]:
    manifests = ((ref, repository.read_manifest(ref.object_id)) for ref in data.manifests)
    return tuple(
        (ref, manifest, array.refs)
        for ref, manifest in manifests
        for array in manifest.arrays
        if array.node_id == node.id
    )


def _common(one: Extents, other: Extents) -> Extents | None:
    """The chunks that are in both; None if there are none."""
    if len(one) != len(other):
        return None
    ranges = tuple(
        ChunkIndexRange(max(a.from_, b.from_), min(a.to, b.to))
        for a, b in zip(one, other, strict=True)
    )
    return None if any(both.from_ >= both.to for both in ranges) else ranges


def _is_within(rows: Coordinates, extents: Extents, grid: Sequence[int]) -> NDArray[np.bool_]:
    if not len(rows) or rows.shape[1] != len(extents):
        return np.zeros(len(rows), np.bool_)
    starts = np.array([extent.from_ for extent in extents], np.uint64)
    ends = np.array([min(extent.to, size) for extent, size in zip(extents, grid, strict=True)])
    inside: NDArray[np.bool_] = ((rows >= starts) & (rows < ends.astype(np.uint64))).all(axis=1)
    return inside


def _are_among(rows: Coordinates, others: Coordinates) -> NDArray[np.bool_]:
    if not len(rows) or not len(others) or rows.shape[1] != others.shape[1]:
        return np.zeros(len(rows), np.bool_)
    keys, other_keys = coordinate_keys(rows, others)
    return np.isin(keys, other_keys)


def plan_references(repository: Repository, survey: Survey, notes: list[str]) -> Iterator[Step]:
    """A new commit on each branch whose tip refers to what is lost."""
    affected = survey.affected((*LOST_MANIFEST, *LOST_CHUNK))
    loss = Loss.of(survey)
    for name, tip in sorted(repository.branches().items()):
        if tip not in affected or tip in survey.unreadable:
            continue
        try:
            found = _Rewriting.of(repository, repository.read_snapshot(tip), loss)
        except ValueError as error:
            notes.append(f"the branch {name} cannot be repaired: {error}")
            continue
        if found.dropped:
            snapshot_id = SnapshotId.generate()
            survey.planned.add(snapshot_id)
            yield _step(name, tip, snapshot_id, loss, found.dropped)


def _step(
    branch: str,
    tip: SnapshotId,
    snapshot_id: SnapshotId,
    loss: Loss,
    dropped: list[tuple[NodeSnapshot, Coordinates]],
) -> Step:
    arrays = tuple(
        LostArray(
            node.path,
            len(rows),
            tuple(tuple(row) for row in rows[:COORDINATES_LISTED].tolist()),
        )
        for node, rows in dropped
        if len(rows)
    )
    what = "without the references to lost chunks, which become fill value"
    if not arrays:
        what = "with the references of lost manifests, taken from older versions"
    return Step(
        NamedStep.DROP_LOST_REFERENCES,
        f"branch:{branch}",
        f"commit to {branch} {what}",
        lambda storage: _commit(storage, branch, tip, snapshot_id, loss),
        tuple(map(_describe_array, arrays)),
        by_name=bool(arrays),
        arrays=arrays,
        simulate=lambda state: _simulate(state, branch, snapshot_id, tip),
    )


def _describe_array(array: LostArray) -> str:
    shown = ", ".join(str(list(row)) for row in array.chunks[:COORDINATES_SHOWN])
    rest = array.num_chunks - min(len(array.chunks), COORDINATES_SHOWN)
    more = f" and {rest:,} more" if rest else ""
    chunks = "1 chunk" if array.num_chunks == 1 else f"{array.num_chunks:,} chunks"
    return f"{chunks} of {array.path}: {shown}{more}"


def _commit(
    storage: Storage, branch: str, tip: SnapshotId, snapshot_id: SnapshotId, loss: Loss
) -> None:
    """Manifests, snapshot and log are new files; the branch moves last."""
    storage.ensure_conditional_writes()
    repository = open_repository(storage)
    repository.check_online()
    if repository.branches().get(branch) != tip:
        raise _moved(branch, tip)
    parent = repository.read_snapshot(tip)
    found = _Rewriting.of(repository, parent, loss)
    now = read_write_time(storage)
    snapshot = found.snapshot(parent, snapshot_id, repository.spec_version, now)
    log = replace(
        empty_log(snapshot_id, repository.spec_version),
        updated_chunks=tuple(
            ArrayUpdatedChunks(node.id, rows) for node, rows in found.dropped if len(rows)
        ),
    )
    for manifest_id, data in found.written.items():
        storage.put_if_absent(ObjectKind.MANIFEST.path(manifest_id), data)
    storage.put_if_absent(ObjectKind.SNAPSHOT.path(snapshot_id), encode_snapshot(snapshot))
    storage.put_if_absent(ObjectKind.TRANSACTION_LOG.path(snapshot_id), encode_transaction_log(log))
    if repository.generation is Generation.V1:
        repository.refs.reset_branch(branch, snapshot_id, expect=tip)
        return
    update_repo(storage, lambda info: _committed(info, branch, tip, _info(snapshot, tip)))


def _info(snapshot: Snapshot, parent_id: SnapshotId) -> SnapshotInfo:
    return SnapshotInfo(
        snapshot.id, parent_id, snapshot.flushed_at, snapshot.message, snapshot.metadata or None
    )


def _committed(info: RepoInfo, branch: str, tip: SnapshotId, new: SnapshotInfo) -> Edited:
    try:
        found = find_ref(info.branches, branch, "branch")
    except RefNotFoundError:
        raise _moved(branch, tip) from None
    if found != tip:
        raise _moved(branch, tip)
    others = (ref for ref in info.branches if ref.name != branch)
    edited = replace(
        info,
        branches=tuple(sorted((*others, Ref(branch, new.id)), key=lambda ref: ref.name.encode())),
        snapshots=tuple(sorted((*info.snapshots, new), key=lambda one: one.id)),
    )
    return edited, NewCommitUpdate(branch, new.id)


def _moved(branch: str, tip: SnapshotId) -> ConflictError:
    return ConflictError(
        f"the branch {branch} no longer points to {tip}",
        hint="somebody changed it during the repair; run the repair again",
    )


def _simulate(
    repository: Repository, branch: str, snapshot_id: SnapshotId, tip: SnapshotId
) -> Repository:
    new = SnapshotInfo(snapshot_id, tip, 0, MESSAGE)
    if repository.info is not None:
        edited, _ = _committed(repository.info, branch, tip, new)
        return repository_at(repository.storage, edited)
    tips = {**repository.branch_tips, branch: snapshot_id}
    return replace(
        repository, branch_tips=tips, _read_infos={**repository._read_infos, snapshot_id: new}
    )
