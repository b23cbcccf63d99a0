"""What an import writes.

The plan reads everything that describes the chunks, so that a missing or damaged object stops the
import before it writes anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from icectl.checks.listing import missing, wrong_chunk_size
from icectl.checks.problem import error_of, raise_first
from icectl.checks.repo import check_main
from icectl.checks.snapshot import check_ancestry_v1, check_parent_v1
from icectl.errors import (
    FormatError,
    IcectlError,
    ObjectNotFoundError,
    RefusedError,
    Remedy,
    StorageError,
    UnsupportedError,
    UsageError,
)
from icectl.format.envelope import Generation, decode_envelope
from icectl.format.legacy.snapshot import find_attribute_files
from icectl.format.values import encode_flexbuffers
from icectl.model.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId
from icectl.model.manifest import ArrayManifest, Manifest, RefKind
from icectl.model.repo import (
    RepoInfo,
    SnapshotInfo,
)
from icectl.model.snapshot import ArrayNodeData, Snapshot
from icectl.ops.import_legacy.convert import (
    convert_config,
    convert_info,
    convert_node_id,
    find_dropped_settings,
    find_uncovered,
    find_unknown_codecs,
    find_virtual_roots,
    fit_id,
    readable_arrays,
)
from icectl.ops.upgrade import DetachedSnapshot, Upgraded
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.config import read_config
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.history import find_reachable
from icectl.repository.initialize import check_apart, check_not_bucket_root
from icectl.repository.ops_log import REPO_PATH, decode_repo_at
from icectl.repository.ref_files import decode_ref_file, tag_file
from icectl.repository.repository import Repository
from icectl.repository.synthetic_log import migrated_state
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

THREADS = 16


@dataclass(frozen=True, slots=True)
class ImportResult(Upgraded):
    """What the new repository has, what it has not, and what may need attention."""

    source: str
    manifests: int
    chunks: int
    chunk_bytes: int
    """Of native chunks, copied or there already."""
    written_objects: int
    """By this run; the others were there already."""
    unknown_codecs: Mapping[str, tuple[str, ...]]
    """Those that zarr-python needs a plug-in for, with the arrays."""
    dropped_settings: tuple[str, ...]
    """Of the configuration."""
    uncovered_virtual_roots: tuple[str, ...]
    """Where virtual chunks are for which the configuration has no container."""


@dataclass(frozen=True, slots=True)
class _SeenSnapshot:
    info: SnapshotInfo
    manifests: frozenset[ManifestId]
    readers: frozenset[tuple[ManifestId, NodeId, NodeId, int]] = frozenset()
    """The manifest, the node in it, the node's new id, and its number of dimensions."""
    codecs: frozenset[tuple[str, str]] = frozenset()
    """Unknown ones, each with the path of an array."""


@dataclass(frozen=True)
class ImportPlan:
    source: Repository
    target: Storage
    snapshots: Mapping[SnapshotId, SnapshotInfo]
    """By the id in the source, as all other ids."""
    manifests: Mapping[ManifestId, Mapping[NodeId, Mapping[NodeId, int]]]
    """With the nodes that read references from it; empty for spec version 1."""
    detached: tuple[DetachedSnapshot, ...]
    unknown_codecs: Mapping[str, tuple[str, ...]]
    chunks: Mapping[ChunkId, int] = field(default_factory=dict)
    """With the size of the file."""
    virtual_roots: frozenset[str] = frozenset()
    found: Mapping[str, int] = field(default_factory=dict)
    """The objects that an earlier run left in the target, with their sizes."""

    @property
    def copies_files(self) -> bool:
        return self.source.generation is Generation.V1

    @cached_property
    def config(self) -> dict[str, object]:
        return convert_config(read_config(self.source), self.virtual_roots)

    @cached_property
    def paths(self) -> frozenset[str]:
        """What the new repository consists of."""
        return frozenset(
            (
                REPO_PATH,
                *_paths(ObjectKind.SNAPSHOT, self.snapshots),
                *_paths(ObjectKind.TRANSACTION_LOG, self.snapshots),
                *_paths(ObjectKind.MANIFEST, self.manifests),
                *_paths(ObjectKind.CHUNK, self.chunks),
            )
        )

    def result(self, written_objects: int, *, dry_run: bool) -> ImportResult:
        source = self.source
        return ImportResult(
            dry_run=dry_run,
            from_generation=str(source.generation),
            to_spec_version=2,
            source=source.storage.location,
            location=self.target.location,
            snapshots=len(self.snapshots),
            manifests=len(self.manifests),
            chunks=len(self.chunks),
            chunk_bytes=sum(self.chunks.values()),
            branches=tuple(sorted(source.branches())),
            tags=tuple(sorted(source.tags())),
            deleted_tags=source.deleted_tags(),
            written_objects=written_objects,
            unreachable_snapshots=tuple(one.id for one in self.detached),
            detached=self.detached,
            unknown_codecs=self.unknown_codecs,
            dropped_settings=find_dropped_settings(read_config(source)),
            uncovered_virtual_roots=tuple(sorted(find_uncovered(self.config, self.virtual_roots))),
        )


def object_path(kind: ObjectKind, id_: ObjectId) -> str:
    """Where the object with this id of the source is in the target."""
    return kind.path(fit_id(id_))


def _paths(kind: ObjectKind, ids: Iterable[ObjectId]) -> Iterator[str]:
    return (object_path(kind, id_) for id_ in ids)


def plan_import(source: Repository, target: Storage, progress: Progress) -> ImportPlan:
    """`FormatError` for the first object that is missing or damaged."""
    if source.generation is Generation.V2:
        raise UsageError(
            f"{source.storage.location} already is a repository of spec version 2",
            hint=Remedy(
                "copy-instead",
                {"source": source.storage.location, "target": target.location},
            ),
        )
    raise_first(check_main(source.branches(), f"{source.layout.refs}/branch.{DEFAULT_BRANCH}"))
    check_not_bucket_root(target)
    seen, unreadable = _read_snapshots(source, progress)
    reachable = _find_reachable(source, seen, unreadable)
    manifests: dict[ManifestId, dict[NodeId, dict[NodeId, int]]] = {}
    for id_ in reachable:
        for manifest_id in seen[id_].manifests:
            manifests.setdefault(manifest_id, {})
        for manifest_id, old, new, dimensions in seen[id_].readers:
            manifests[manifest_id].setdefault(old, {})[new] = dimensions
    plan = ImportPlan(
        source,
        target,
        {id_: seen[id_].info for id_ in reachable},
        manifests,
        tuple(_detached(seen, unreadable, reachable)),
        _unknown_codecs(seen[id_] for id_ in reachable),
    )
    references = _read_references(plan, progress)
    plan = replace(
        plan,
        chunks=_find_chunks(source, references.chunk_ends),
        virtual_roots=frozenset(references.virtual_roots),
    )
    found = _check_target(plan)
    check_apart(target, source.storage)
    return replace(plan, found=found)


def _unknown_codecs(snapshots: Iterable[_SeenSnapshot]) -> dict[str, tuple[str, ...]]:
    arrays: dict[str, tuple[str, ...]] = {}
    for codec, path in sorted({one for snapshot in snapshots for one in snapshot.codecs}):
        arrays[codec] = (*arrays.get(codec, ()), path)
    return arrays


def _read_snapshots(
    source: Repository, progress: Progress
) -> tuple[dict[SnapshotId, _SeenSnapshot], dict[SnapshotId, IcectlError]]:
    """Every snapshot file, because the files of a history one after the other take long."""
    seen: dict[SnapshotId, _SeenSnapshot] = {}
    unreadable: dict[SnapshotId, IcectlError] = {}

    def read(id_: SnapshotId) -> tuple[SnapshotId, _SeenSnapshot | IcectlError]:
        try:
            return id_, _describe_snapshot(source, source.read_snapshot(id_))
        except FormatError as error:
            return id_, error.at(source.layout.snapshot(id_))
        except (UnsupportedError, ObjectNotFoundError) as error:
            return id_, error

    ids = source.find_snapshots("")
    results = map_on_threads(read, ids, workers=THREADS, ahead=2 * THREADS)
    for id_, found in progress.count(results, "reading snapshots", len(ids), "snapshots"):
        if isinstance(found, _SeenSnapshot):
            seen[id_] = found
        elif not isinstance(found, ObjectNotFoundError):  # deleted since it was listed
            unreadable[id_] = found
    return seen, unreadable


def _describe_snapshot(source: Repository, snapshot: Snapshot) -> _SeenSnapshot:
    info = source.snapshot_info(snapshot.id)
    raise_first(check_parent_v1(snapshot))
    convert_info(info)  # raises if the metadata cannot be stored
    if source.generation is Generation.V1:
        return _SeenSnapshot(info, frozenset(_manifests_of(snapshot)))
    readers, codecs = set(), set()
    lacks_attributes = False
    for node in snapshot.nodes:
        document = json.loads(node.user_data)
        lacks_attributes |= "attributes" not in document
        if isinstance(node.node_data, ArrayNodeData):
            dimensions = len(node.node_data.shape)
            for ref in node.node_data.manifests:
                readers.add((ref.object_id, node.id, convert_node_id(node), dimensions))
            codecs |= {(name, node.path) for name in find_unknown_codecs(document["codecs"])}
    if lacks_attributes:
        _refuse_attribute_files(source, snapshot.id)
    manifests = frozenset(reader[0] for reader in readers)
    return _SeenSnapshot(info, manifests, frozenset(readers), frozenset(codecs))


def _manifests_of(snapshot: Snapshot) -> Iterator[ManifestId]:
    yield from (file.id for file in snapshot.all_manifest_files)
    for node in snapshot.nodes:
        if isinstance(node.node_data, ArrayNodeData):
            yield from (ref.object_id for ref in node.node_data.manifests)


def _refuse_attribute_files(source: Repository, snapshot_id: SnapshotId) -> None:
    path = source.layout.snapshot(snapshot_id)
    files = find_attribute_files(decode_envelope(source.storage.read(path)).payload)
    for node, file in sorted(files.items()):
        raise UnsupportedError(
            f"{path}: the attributes of {node} are in {source.layout.attributes}/{file}, and no "
            "specification says how to read that file"
        )


def _find_reachable(
    source: Repository,
    seen: Mapping[SnapshotId, _SeenSnapshot],
    unreadable: Mapping[SnapshotId, IcectlError],
) -> set[SnapshotId]:
    def parent_of(snapshot_id: SnapshotId) -> SnapshotId | None:
        if snapshot_id in unreadable:
            raise unreadable[snapshot_id]
        if snapshot_id not in seen:
            raise error_of(missing(source.layout.snapshot(snapshot_id), "a branch or tag needs it"))
        return seen[snapshot_id].info.parent_id

    tips = (*source.branches().values(), *source.tags().values())
    reachable = find_reachable(tips, parent_of)
    parents = {id_: seen[id_].info.parent_id for id_ in reachable}
    raise_first(check_ancestry_v1(parents, source.layout))
    return reachable


def _detached(
    seen: Mapping[SnapshotId, _SeenSnapshot],
    unreadable: Mapping[SnapshotId, IcectlError],
    reachable: Collection[SnapshotId],
) -> Iterator[DetachedSnapshot]:
    for id_ in sorted(seen.keys() - reachable):
        yield DetachedSnapshot(id_, seen[id_].info.flushed_at, seen[id_].info.message, None)
    for id_ in sorted(unreadable):
        yield DetachedSnapshot(id_, None, None, unreadable[id_].message)


@dataclass(slots=True)
class _References:
    """What the manifests refer to."""

    chunk_ends: dict[ChunkId, tuple[int, str]] = field(default_factory=dict)
    """How long the file of each chunk must be at least, and the manifest that says so."""
    virtual_roots: set[str] = field(default_factory=set)


def _read_references(plan: ImportPlan, progress: Progress) -> _References:
    found = _References()

    def read(manifest_id: ManifestId) -> tuple[str, list[tuple[ChunkId, int]], set[str]]:
        path = plan.source.layout.manifest(manifest_id)
        try:
            manifest = plan.source.read_manifest(manifest_id)
        except ObjectNotFoundError:
            raise error_of(missing(path, "a snapshot needs it")) from None
        arrays = _arrays_of(plan, manifest)
        return path, [*_native_ends(arrays)], find_virtual_roots(manifest, arrays)

    manifests = plan.manifests
    results = map_on_threads(read, manifests, workers=THREADS, ahead=THREADS)
    ends = found.chunk_ends
    for path, rows, roots in progress.count(
        results, "reading manifests", len(manifests), "manifests"
    ):
        for chunk_id, end in rows:
            ends[chunk_id] = max(ends.get(chunk_id, (0, path)), (end, path))
        found.virtual_roots |= roots
    return found


def _arrays_of(plan: ImportPlan, manifest: Manifest) -> tuple[ArrayManifest, ...]:
    if plan.copies_files:
        return manifest.arrays
    return tuple(readable_arrays(manifest, plan.manifests[manifest.id]))


def _native_ends(arrays: Iterable[ArrayManifest]) -> Iterator[tuple[ChunkId, int]]:
    for array in arrays:
        refs = array.refs
        rows = np.flatnonzero(refs.kind == RefKind.NATIVE)
        offsets, lengths = refs.offset[rows].tolist(), refs.length[rows].tolist()
        for row, offset, length in zip(rows.tolist(), offsets, lengths, strict=True):
            yield ChunkId(refs.chunk_id[row].tobytes()), offset + length


def _find_chunks(source: Repository, ends: Mapping[ChunkId, tuple[int, str]]) -> dict[ChunkId, int]:
    """The size of each chunk file; `FormatError` if one is missing or too short."""
    directory = source.layout.chunks
    sizes = {info.path: info.size or 0 for info in source.storage.list(directory)}
    chunks = {}
    for chunk_id, (end, manifest) in sorted(ends.items()):
        path = f"{directory}/{chunk_id}"
        size = sizes.get(path)
        if size is None or size < end:
            problem = wrong_chunk_size(path, size, end)
            raise error_of(replace(problem, detail=f"{problem.detail}, says {manifest}"))
        chunks[chunk_id] = size
    return chunks


def _check_target(plan: ImportPlan) -> dict[str, int]:
    """What an earlier run of this import has left; `RefusedError` for anything else."""
    found = {info.path: info.size or 0 for info in plan.target.list("")}
    for path in sorted(found.keys() - plan.paths):
        raise RefusedError(
            f"{plan.target.location} is not empty: it has {path}, which is not part of this import",
            hint="a new repository wants a place of its own",
        )
    if REPO_PATH in found:
        theirs, ours = (
            decode_repo_at(plan.target.read(REPO_PATH), REPO_PATH),
            describe_repo(plan),
        )
        for name in ("branches", "tags", "deleted_tags", "snapshots", "config"):
            if getattr(theirs, name) != getattr(ours, name):
                raise RefusedError(
                    f"{plan.target.location} is a repository already, and was changed since it "
                    "was imported",
                    hint="use it as it is, or import into an empty location",
                )
    return found


def describe_repo(plan: ImportPlan) -> RepoInfo:
    """The new state, without the entry of the ops log for the import itself."""
    source = plan.source
    return migrated_state(
        tuple(sorted(map(convert_info, plan.snapshots.values()), key=lambda one: one.id)),
        {name: fit_id(id_) for name, id_ in source.branches().items()},
        {name: fit_id(id_) for name, id_ in source.tags().items()},
        _read_deleted_tags(source),
        source.deleted_tags(),
        encode_flexbuffers(plan.config) if plan.config else None,
    )


def _read_deleted_tags(source: Repository) -> dict[str, SnapshotId]:
    """Where the deleted tags pointed, as far as it is known; their files stay."""
    paths = {tag_file(name): name for name in source.deleted_tags()}
    return {
        paths[path]: fit_id(decode_ref_file(data, path))
        for path, data in source.storage.read_many(paths)
        if not isinstance(data, StorageError)
    }
