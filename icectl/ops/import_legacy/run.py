"""Import a repository of an older generation into a new one of spec version 2.

The plan reads everything that describes the chunks, so that a missing or damaged object stops the
import before it writes. Objects are written before what refers to them, and `repo` last and only
if it is absent: a killed import leaves no repository, and the next one continues. The source is
only read. Files of spec version 1 are valid in version 2 and are copied as they are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from icectl.errors import (
    FormatError,
    IcectlError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    Remedy,
    StorageError,
    UnsupportedError,
    UsageError,
)
from icectl.format.envelope import Generation, decode_envelope
from icectl.format.legacy.snapshot import find_attribute_files
from icectl.format.manifest import encode_manifest
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.snapshot import encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.format.values import encode_flexbuffers
from icectl.model.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId
from icectl.model.manifest import ArrayManifest, Manifest, RefKind
from icectl.model.repo import (
    Availability,
    Ref,
    RepoInfo,
    RepoMigratedUpdate,
    RepoStatus,
    SnapshotInfo,
    Update,
)
from icectl.model.snapshot import ArrayNodeData, Snapshot
from icectl.ops.import_legacy.convert import (
    ManifestFile,
    convert_config,
    convert_info,
    convert_manifest,
    convert_node_id,
    convert_snapshot,
    describe_manifest,
    find_dropped_settings,
    find_unknown_codecs,
    fit_id,
    readable_arrays,
)
from icectl.ops.repair.logs import derive_log
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.clock import read_write_time
from icectl.repository.config import read_config
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.history import State
from icectl.repository.initialize import check_not_bucket_root
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.ref_files import decode_ref_file, tag_file
from icectl.repository.repository import Repository
from icectl.repository.synthetic_log import synthetic_log
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

THREADS = 16
MANIFESTS_REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class UnreachableSnapshot:
    """A snapshot file that no branch or tag leads to; it stays in the source only."""

    id: SnapshotId
    flushed_at: int | None
    """None if the file is unreadable."""
    message: str | None


@dataclass(frozen=True, slots=True)
class UnknownCodec:
    path: str
    codec: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    dry_run: bool
    source: str
    target: str
    generation: str
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    deleted_tags: tuple[str, ...]
    num_snapshots: int
    num_manifests: int
    num_chunks: int
    chunk_bytes: int
    num_written: int
    """Objects that this run wrote; the others were there already."""
    unreachable_snapshots: tuple[UnreachableSnapshot, ...]
    unknown_codecs: tuple[UnknownCodec, ...]
    """Of arrays that zarr-python can only read with a plug-in."""
    dropped_settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SeenSnapshot:
    info: SnapshotInfo
    manifests: frozenset[ManifestId]
    readers: frozenset[tuple[ManifestId, NodeId, NodeId, int]] = frozenset()
    """The manifest, the node in it, the node's new id, and its number of dimensions."""
    codecs: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class ImportPlan:
    source: Repository
    target: Storage
    snapshots: Mapping[SnapshotId, SnapshotInfo]
    """By the id in the source, as all other ids."""
    manifests: Mapping[ManifestId, Mapping[NodeId, Mapping[NodeId, int]]]
    """With the nodes that read references from it; empty for spec version 1."""
    chunks: Mapping[ChunkId, int]
    """With the size of the file."""
    unreachable: tuple[UnreachableSnapshot, ...]
    unknown_codecs: tuple[UnknownCodec, ...]
    found: Mapping[str, int]
    """The objects that an earlier run left in the target, with their sizes."""

    @property
    def copies_files(self) -> bool:
        return self.source.generation is Generation.V1

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

    def result(self, num_written: int, *, dry_run: bool) -> ImportResult:
        source = self.source
        return ImportResult(
            dry_run,
            source.storage.location,
            self.target.location,
            str(source.generation),
            tuple(sorted(source.branches())),
            tuple(sorted(source.tags())),
            source.deleted_tags(),
            len(self.snapshots),
            len(self.manifests),
            len(self.chunks),
            sum(self.chunks.values()),
            num_written,
            self.unreachable,
            self.unknown_codecs,
            find_dropped_settings(read_config(source)),
        )


def import_repository(
    source: Repository, target: Storage, progress: Progress, *, dry_run: bool = False
) -> ImportResult:
    plan = plan_import(source, target, progress)
    return plan.result(0 if dry_run else execute_import(plan, progress), dry_run=dry_run)


def _path(kind: ObjectKind, id_: ObjectId) -> str:
    """Where the object with this id of the source is in the target."""
    return kind.path(fit_id(id_))


def _paths(kind: ObjectKind, ids: Iterable[ObjectId]) -> Iterator[str]:
    return (_path(kind, id_) for id_ in ids)


def plan_import(source: Repository, target: Storage, progress: Progress) -> ImportPlan:
    """`FormatError` for the first object that is missing or damaged."""
    if source.generation is Generation.V2:
        raise UsageError(
            f"{source.storage.location} is a repository of spec version 2 already",
            hint=Remedy("copy-instead"),
        )
    if DEFAULT_BRANCH not in source.branches():
        raise UnsupportedError(
            f"the repository has no branch {DEFAULT_BRANCH}, which spec version 2 needs"
        )
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
        {},
        tuple(_unreachable(seen, unreadable, set(reachable))),
        tuple(UnknownCodec(*one) for one in sorted({*_codecs(seen, reachable)})),
        {},
    )
    plan = replace(plan, chunks=_find_chunks(source, _referenced_chunks(plan, progress)))
    return replace(plan, found=_check_target(plan))


def _codecs(
    seen: Mapping[SnapshotId, _SeenSnapshot], reachable: Iterable[SnapshotId]
) -> Iterator[tuple[str, str]]:
    for id_ in reachable:
        yield from seen[id_].codecs


def _read_snapshots(
    source: Repository, progress: Progress
) -> tuple[dict[SnapshotId, _SeenSnapshot], dict[SnapshotId, IcectlError]]:
    """Every snapshot file, because the files of a history one after the other take long."""
    seen: dict[SnapshotId, _SeenSnapshot] = {}
    unreadable: dict[SnapshotId, IcectlError] = {}

    def read(id_: SnapshotId) -> tuple[SnapshotId, _SeenSnapshot | IcectlError]:
        try:
            return id_, _describe_snapshot(source, source.read_snapshot(id_))
        except (FormatError, UnsupportedError) as error:
            return id_, error

    ids = source.find_snapshots("")
    with progress.phase("reading snapshots", len(ids), "snapshots") as counter:
        for id_, found in map_on_threads(read, ids, workers=THREADS, ahead=2 * THREADS):
            if isinstance(found, IcectlError):
                unreadable[id_] = found
            else:
                seen[id_] = found
            counter.advance()
    return seen, unreadable


def _describe_snapshot(source: Repository, snapshot: Snapshot) -> _SeenSnapshot:
    info = source.snapshot_info(snapshot.id)
    convert_info(info)  # raises if the metadata cannot be stored
    if source.generation is Generation.V1:
        return _SeenSnapshot(info, frozenset(file.id for file in snapshot.all_manifest_files))
    readers, codecs = set(), set()
    lacks_attributes = False
    for node in snapshot.nodes:
        document = json.loads(node.user_data)
        lacks_attributes |= "attributes" not in document
        if isinstance(node.node_data, ArrayNodeData):
            dimensions = len(node.node_data.shape)
            for ref in node.node_data.manifests:
                readers.add((ref.object_id, node.id, convert_node_id(node), dimensions))
            codecs |= {(node.path, name) for name in find_unknown_codecs(document["codecs"])}
    if lacks_attributes:
        _refuse_attribute_files(source, snapshot.id)
    manifests = frozenset(reader[0] for reader in readers)
    return _SeenSnapshot(info, manifests, frozenset(readers), frozenset(codecs))


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
) -> list[SnapshotId]:
    """What the refs lead to, parents first."""
    history = State([one.info for one in seen.values()], source.branches(), source.tags())
    parents: dict[SnapshotId, SnapshotId | None] = {}
    for ref, tip in (*source.branches().items(), *source.tags().items()):
        next_id: SnapshotId | None = tip
        while next_id is not None and next_id not in parents:
            if next_id not in seen:
                raise unreadable.get(next_id) or FormatError(
                    f"the file is missing, and {ref} needs it", path=source.layout.snapshot(next_id)
                )
            parents[next_id] = seen[next_id].info.parent_id
            next_id = parents[next_id]
    for cycle in history.cycles():
        if cycle[0] in parents:
            path = source.layout.snapshot(cycle[0])
            raise FormatError("the snapshot ancestry contains a cycle", path=path)
    return [id_ for id_ in history.parents_first() if id_ in parents]


def _unreachable(
    seen: Mapping[SnapshotId, _SeenSnapshot],
    unreadable: Mapping[SnapshotId, IcectlError],
    reachable: Collection[SnapshotId],
) -> Iterator[UnreachableSnapshot]:
    for id_ in sorted(seen.keys() | unreadable.keys()):
        if id_ not in reachable:
            info = seen[id_].info if id_ in seen else None
            yield UnreachableSnapshot(
                id_,
                None if info is None else info.flushed_at,
                None if info is None else info.message,
            )


def _referenced_chunks(plan: ImportPlan, progress: Progress) -> dict[ChunkId, tuple[int, str]]:
    """How long the file of each chunk must be at least, and the manifest that says so."""
    ends: dict[ChunkId, tuple[int, str]] = {}

    def read(manifest_id: ManifestId) -> tuple[str, list[tuple[ChunkId, int]]]:
        path = plan.source.layout.manifest(manifest_id)
        try:
            manifest = plan.source.read_manifest(manifest_id)
        except ObjectNotFoundError:
            raise FormatError("the manifest is missing", path=path) from None
        return path, [*_native_ends(_arrays_of(plan, manifest))]

    manifests = plan.manifests
    with progress.phase("reading manifests", len(manifests), "manifests") as counter:
        for path, rows in map_on_threads(read, manifests, workers=THREADS, ahead=THREADS):
            for chunk_id, end in rows:
                ends[chunk_id] = max(ends.get(chunk_id, (0, path)), (end, path))
            counter.advance()
    return ends


def _arrays_of(plan: ImportPlan, manifest: Manifest) -> Iterable[ArrayManifest]:
    if plan.copies_files:
        return manifest.arrays
    return readable_arrays(manifest, plan.manifests[manifest.id])


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
    chunks, lost = {}, []
    for chunk_id, (end, manifest) in ends.items():
        path = f"{directory}/{chunk_id}"
        if sizes.get(path, -1) < end:
            lost.append((path, end, manifest))
        else:
            chunks[chunk_id] = sizes[path]
    if lost:
        path, end, manifest = min(lost)
        state = f"has {sizes[path]:,} bytes" if path in sizes else "is missing"
        more = f"; {len(lost) - 1:,} more chunks are lost" if len(lost) > 1 else ""
        raise FormatError(
            f"the chunk {state}, but {manifest} refers to {end:,} bytes of it{more}",
            path=path,
            hint="restore the files of the source first; nothing was written",
        )
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
        theirs, ours = decode_repo(plan.target.read(REPO_PATH)), _describe_repo(plan, 0)
        for name in ("branches", "tags", "deleted_tags", "snapshots", "config"):
            if getattr(theirs, name) != getattr(ours, name):
                raise RefusedError(
                    f"{plan.target.location} is a repository already, and was changed since it "
                    "was imported",
                    hint="use it as it is, or import into an empty location",
                )
    return found


def _describe_repo(plan: ImportPlan, now: int) -> RepoInfo:
    source = plan.source
    snapshots = tuple(sorted(map(convert_info, plan.snapshots.values()), key=lambda one: one.id))
    branches = {name: fit_id(id_) for name, id_ in source.branches().items()}
    tags = {name: fit_id(id_) for name, id_ in source.tags().items()}
    config = convert_config(read_config(source))
    past = synthetic_log(snapshots, branches, tags, _read_deleted_tags(source))
    now = max(now, past[0].updated_at + 1)
    return RepoInfo(
        spec_version=2,
        tags=_refs(tags),
        branches=_refs(branches),
        deleted_tags=tuple(sorted(source.deleted_tags(), key=str.encode)),
        snapshots=snapshots,
        status=RepoStatus(Availability.ONLINE, now),
        metadata=(),
        latest_updates=(Update(RepoMigratedUpdate(1, 2), now), *past),
        config=encode_flexbuffers(config) if config else None,
    )


def _refs(targets: Mapping[str, SnapshotId]) -> tuple[Ref, ...]:
    return tuple(Ref(name, targets[name]) for name in sorted(targets, key=str.encode))


def _read_deleted_tags(source: Repository) -> dict[str, SnapshotId]:
    """Where the deleted tags pointed, as far as it is known; their files stay."""
    paths = {tag_file(name): name for name in source.deleted_tags()}
    return {
        paths[path]: fit_id(decode_ref_file(data, path))
        for path, data in source.storage.read_many(paths)
        if not isinstance(data, StorageError)
    }


def execute_import(plan: ImportPlan, progress: Progress) -> int:
    """Write what the target lacks; return the number of objects."""
    plan.target.ensure_conditional_creates()
    return _Import(plan).run(progress)


@dataclass
class _Import:
    plan: ImportPlan
    files: dict[ManifestId, ManifestFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source, self.target = self.plan.source, self.plan.target
        self._old_ids = {fit_id(id_): id_ for id_ in self.plan.manifests}
        # The logs of a branch compare each manifest with the one before and the one after.
        self._read_again = lru_cache(MANIFESTS_REMEMBERED)(self._convert_manifest)

    def run(self, progress: Progress) -> int:
        plan = self.plan
        written = 0
        for label, unit, write, ids in (
            ("copying chunks", "chunks", self._write_chunk, plan.chunks),
            ("writing manifests", "manifests", self._write_manifest, plan.manifests),
            ("writing snapshots", "snapshots", self._write_snapshot, plan.snapshots),
        ):
            with progress.phase(label, len(ids), unit) as counter:
                for count in map_on_threads(write, ids, workers=THREADS, ahead=2 * THREADS):  # type: ignore[arg-type]
                    written += count
                    counter.advance()
        if REPO_PATH not in plan.found:
            self._write_repo()
            written += 1
        return written

    def read_manifest(self, manifest_id: ManifestId) -> Manifest:
        """By the id in the target, as `derive_log` needs it."""
        return self._read_again(self._old_ids[manifest_id])

    def _convert_manifest(self, manifest_id: ManifestId) -> Manifest:
        manifest = self.source.read_manifest(manifest_id)
        if self.plan.copies_files:
            return manifest
        return convert_manifest(manifest, self.plan.manifests[manifest_id])

    def _write_chunk(self, chunk_id: ChunkId) -> int:
        path = _path(ObjectKind.CHUNK, chunk_id)
        # Chunks are written whole, and their ids are random: the same name and size is the same.
        if self.plan.found.get(path) == self.plan.chunks[chunk_id]:
            return 0
        return self._put(path, self.source.storage.read(f"{self.source.layout.chunks}/{chunk_id}"))

    def _write_manifest(self, manifest_id: ManifestId) -> int:
        if self.plan.copies_files:
            data = self.source.storage.read(self.source.layout.manifest(manifest_id))
        else:
            manifest = self._convert_manifest(manifest_id)
            data = encode_manifest(manifest)
            self.files[manifest_id] = describe_manifest(manifest, len(data))
            if not manifest.num_chunk_refs:
                return 0
        return self._put(_path(ObjectKind.MANIFEST, manifest_id), data)

    def _write_snapshot(self, snapshot_id: SnapshotId) -> int:
        """The log first: a snapshot without its log would look like a damaged one."""
        written = self._put(_path(ObjectKind.TRANSACTION_LOG, snapshot_id), self._log(snapshot_id))
        if self.plan.copies_files:
            data = self.source.storage.read(self.source.layout.snapshot(snapshot_id))
        else:
            data = encode_snapshot(self._snapshot(snapshot_id))
        return written + self._put(_path(ObjectKind.SNAPSHOT, snapshot_id), data)

    def _snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        snapshot = self.source.read_snapshot(snapshot_id)
        return snapshot if self.plan.copies_files else convert_snapshot(snapshot, self.files)

    def _log(self, snapshot_id: SnapshotId) -> bytes:
        """That of the source in spec version 1; before, logs do not say all that they do now."""
        if self.plan.copies_files:
            try:
                return self.source.storage.read(f"{self.source.layout.transactions}/{snapshot_id}")
            except ObjectNotFoundError:
                pass  # the first snapshot has none
        after = self._snapshot(snapshot_id)
        parent = self.plan.snapshots[snapshot_id].parent_id
        before = (
            replace(after, nodes=(), manifest_files=(), manifest_files_v2=())
            if parent is None
            else self._snapshot(parent)
        )
        return encode_transaction_log(derive_log(self, fit_id(snapshot_id), before, after))

    def _write_repo(self) -> None:
        data = encode_repo(_describe_repo(self.plan, read_write_time(self.target)))
        try:
            self.target.put_if_absent(REPO_PATH, data)
        except PreconditionFailedError:
            raise RefusedError(
                f"{self.target.location} was made a repository by somebody else just now",
                hint="open it; nothing of it was changed",
            ) from None

    def _put(self, path: str, data: bytes) -> int:
        if path not in self.plan.found:
            try:
                self.target.put_if_absent(path, data)
            except PreconditionFailedError:
                pass  # another run of this import was faster
            else:
                return 1
        if self.target.read(path) != data:
            raise RefusedError(
                f"{self.target.location} has another {path} than this import writes",
                hint="import into an empty location",
            )
        return 0
