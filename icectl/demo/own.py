"""Write the story with icectl's encoders, for environments without the official package.

Ids are derived from a counter, so all output except the names of backups is reproducible.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from icectl.demo.story import (
    INLINE_THRESHOLD,
    Abandon,
    Action,
    Append,
    Change,
    Commit,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    Move,
    NewArray,
    NewGroup,
    Overwrite,
    ResetMain,
)
from icectl.format.manifest import encode_manifest
from icectl.format.snapshot import encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.format.values import encode_metadata
from icectl.model.ids import ChunkId, ManifestId, NodeId, ObjectId, SnapshotId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans
from icectl.model.repo import NewCommitUpdate, Ref, RepoInfo, SnapshotInfo
from icectl.model.snapshot import (
    ArrayNodeData,
    DimensionShapeV2,
    GroupNodeData,
    ManifestFileInfo,
    ManifestRef,
    NodeSnapshot,
    Snapshot,
)
from icectl.model.transaction_log import (
    ArrayUpdatedChunks,
    MoveOperation,
    NodeType,
    TransactionLog,
)
from icectl.repository import edits
from icectl.repository.edits import DEFAULT_BRANCH, Edited
from icectl.repository.initialize import initialize_repository
from icectl.repository.layout import STANDARD
from icectl.repository.open import open_repository
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage

Id = TypeVar("Id", bound=ObjectId)
Coordinates = tuple[int, ...]


@dataclass
class _Group:
    id: NodeId
    document: dict[str, Any]


@dataclass
class _Array:
    id: NodeId
    document: dict[str, Any]
    refs: dict[Coordinates, ChunkId | bytes] = field(default_factory=dict)
    """The id of each chunk's file, or the bytes of an inline chunk."""
    manifest: tuple[ManifestRef, ManifestFileInfo] | None = None


@dataclass
class _Session:
    """The nodes of a branch and the changes since its tip."""

    nodes: dict[str, _Group | _Array]
    new: list[_Group | _Array] = field(default_factory=list)
    resized: list[_Array] = field(default_factory=list)
    written: dict[NodeId, list[Coordinates]] = field(default_factory=dict)
    moves: list[MoveOperation] = field(default_factory=list)


class OwnAuthor:
    def __init__(self, storage: Storage) -> None:
        initialize_repository(storage, config={"inline_chunk_threshold_bytes": INLINE_THRESHOLD})
        self._storage = storage
        self._counter = 0
        root = open_repository(storage).branches()[DEFAULT_BRANCH]
        self._trees: dict[SnapshotId, dict[str, _Group | _Array]] = {root: {}}

    def act(self, action: Action) -> None:
        repository = open_repository(self._storage)
        tip = repository.branches()[DEFAULT_BRANCH]
        match action:
            case Commit():
                self._commit(action, repository.branches()[action.branch])
            case Abandon(changes):
                self._apply(_Session(deepcopy(self._trees[tip])), changes)
            case CreateBranch(name):
                self._update(lambda info: edits.create_branch(info, name, tip))
            case DeleteBranch(name):
                self._update(lambda info: edits.delete_branch(info, name))
            case CreateTag(name):
                self._update(lambda info: edits.create_tag(info, name, tip))
            case ResetMain():
                parent = repository.snapshot_info(tip).parent_id
                assert parent is not None
                self._update(lambda info: edits.reset_branch(info, DEFAULT_BRANCH, parent))
            case _:
                assert_never(action)

    def _update(self, change: Any) -> None:
        update_repo(self._storage, change)

    def _next(self, id_type: type[Id]) -> Id:
        """Return an id that looks random: file names are spread over the alphabet as usual."""
        self._counter += 1
        digest = hashlib.sha256(f"icectl demo {self._counter}".encode()).digest()
        return id_type(digest[: id_type.sizes[0]])

    def _commit(self, commit: Commit, parent: SnapshotId) -> None:
        session = _Session(deepcopy(self._trees[parent]))
        self._apply(session, commit.changes)
        changed = session.written.keys() | {array.id for array in session.resized}
        for node in session.nodes.values():
            if isinstance(node, _Array) and node.id in changed:
                self._write_manifest(node)
        snapshot_id = self._next(SnapshotId)
        metadata = encode_metadata(commit.metadata, 2)
        now = time.time_ns() // 1000
        snapshot = _snapshot(snapshot_id, session.nodes, now, commit.message)
        self._storage.put_if_absent(
            STANDARD.snapshot(snapshot_id), encode_snapshot(replace(snapshot, metadata=metadata))
        )
        log = encode_transaction_log(_transaction_log(snapshot_id, session))
        self._storage.put_if_absent(f"{STANDARD.transactions}/{snapshot_id}", log)
        entry = SnapshotInfo(snapshot_id, parent, now, commit.message, metadata)
        self._update(lambda info: _with_commit(info, commit.branch, entry))
        self._trees[snapshot_id] = session.nodes

    def _apply(self, session: _Session, changes: tuple[Change, ...]) -> None:
        for change in changes:
            match change:
                case NewGroup(path, attributes):
                    group = _Group(self._next(NodeId), _group_document(attributes))
                    session.nodes[path] = group
                    session.new.append(group)
                case NewArray():
                    array = _Array(self._next(NodeId), _array_document(change))
                    session.nodes[change.path] = array
                    session.new.append(array)
                    if change.values is not None:
                        self._write(session, array, 0, change.values)
                case Append(path, row):
                    array = _array_at(session, path)
                    shape = array.document["shape"]
                    shape[0] += 1
                    if array not in session.new:
                        session.resized.append(array)
                    self._write(session, array, shape[0] - 1, row[None])
                case Overwrite(path, index, row):
                    self._write(session, _array_at(session, path), index, row[None])
                case Move(source, target):
                    node = session.nodes.pop(source)
                    session.nodes[target] = node
                    kind = NodeType.ARRAY if isinstance(node, _Array) else NodeType.GROUP
                    session.moves.append(MoveOperation(source, target, node.id, kind))
                case _:
                    assert_never(change)

    def _write(self, session: _Session, array: _Array, first: int, rows: NDArray[Any]) -> None:
        """Split the rows into chunks; the chunk grid divides every shape in the story."""
        chunks = tuple(array.document["chunk_grid"]["configuration"]["chunk_shape"])
        grid = [size // chunk for size, chunk in zip(rows.shape, chunks, strict=True)]
        for place in np.ndindex(*grid):
            begin = [index * chunk for index, chunk in zip(place, chunks, strict=True)]
            region = tuple(slice(b, b + c) for b, c in zip(begin, chunks, strict=True))
            data = rows[region].tobytes()
            coordinates = (place[0] + first // chunks[0], *place[1:])
            array.refs[coordinates] = self._store(data)
            session.written.setdefault(array.id, []).append(coordinates)

    def _store(self, data: bytes) -> ChunkId | bytes:
        if len(data) <= INLINE_THRESHOLD:
            return data
        chunk_id = self._next(ChunkId)
        self._storage.put_if_absent(f"{STANDARD.chunks}/{chunk_id}", data)
        return chunk_id

    def _write_manifest(self, array: _Array) -> None:
        if not array.refs:
            return
        manifest_id = self._next(ManifestId)
        refs = _chunk_refs(array)
        data = encode_manifest(Manifest(2, manifest_id, (ArrayManifest(array.id, refs),)))
        self._storage.put_if_absent(STANDARD.manifest(manifest_id), data)
        info = ManifestFileInfo(manifest_id, len(data), len(refs))
        array.manifest = ManifestRef(manifest_id, refs.extents()), info


def _array_at(session: _Session, path: str) -> _Array:
    node = session.nodes[path]
    assert isinstance(node, _Array)
    return node


def _with_commit(info: RepoInfo, branch: str, entry: SnapshotInfo) -> Edited:
    moved = (Ref(r.name, entry.id) if r.name == branch else r for r in info.branches)
    edited = replace(info, branches=tuple(moved), snapshots=(*info.snapshots, entry))
    return edited, NewCommitUpdate(branch, entry.id)


def _group_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}


def _array_document(array: NewArray) -> dict[str, Any]:
    one_byte = np.dtype(array.data_type).itemsize == 1
    codec = (
        {"name": "bytes"} if one_byte else {"name": "bytes", "configuration": {"endian": "little"}}
    )
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": array.data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0 if array.data_type.startswith("float") else 0,
        "codecs": [codec],
        "attributes": dict(array.attributes),
        "dimension_names": list(array.dimension_names),
        "storage_transformers": [],
    }


def _snapshot(
    snapshot_id: SnapshotId, nodes: Mapping[str, _Group | _Array], now: int, message: str
) -> Snapshot:
    manifests = (
        node.manifest[1] for node in nodes.values() if isinstance(node, _Array) and node.manifest
    )
    return Snapshot(
        spec_version=2,
        id=snapshot_id,
        parent_id=None,
        nodes=tuple(_node(path, node) for path, node in nodes.items()),
        flushed_at=now,
        message=message,
        metadata=(),
        manifest_files=(),
        manifest_files_v2=tuple(sorted(manifests, key=lambda info: info.id)),
    )


def _node(path: str, node: _Group | _Array) -> NodeSnapshot:
    document = json.dumps(node.document).encode()
    if isinstance(node, _Group):
        return NodeSnapshot(node.id, path, document, GroupNodeData())
    chunks = node.document["chunk_grid"]["configuration"]["chunk_shape"]
    shape = tuple(
        DimensionShapeV2(length, -(-length // chunk))
        for length, chunk in zip(node.document["shape"], chunks, strict=True)
    )
    names = tuple(node.document["dimension_names"])
    manifests = () if node.manifest is None else (node.manifest[0],)
    return NodeSnapshot(node.id, path, document, ArrayNodeData((), names, manifests, shape))


def _transaction_log(snapshot_id: SnapshotId, session: _Session) -> TransactionLog:
    return TransactionLog(
        spec_version=2,
        id=snapshot_id,
        new_groups=tuple(node.id for node in session.new if isinstance(node, _Group)),
        new_arrays=tuple(node.id for node in session.new if isinstance(node, _Array)),
        deleted_groups=(),
        deleted_arrays=(),
        updated_arrays=tuple(array.id for array in session.resized),
        updated_groups=(),
        updated_chunks=tuple(
            ArrayUpdatedChunks(node_id, np.array(sorted(places), np.uint32))
            for node_id, places in session.written.items()
        ),
        moved_nodes=tuple(session.moves),
    )


def _chunk_refs(array: _Array) -> ChunkRefs:
    coordinates = sorted(array.refs)
    rows = [array.refs[place] for place in coordinates]
    inline = [b"" if isinstance(row, ChunkId) else row for row in rows]
    lengths = np.array([len(data) for data in inline], np.uint32)
    itemsize = np.dtype(array.document["data_type"]).itemsize
    chunk_bytes = itemsize * int(
        np.prod(array.document["chunk_grid"]["configuration"]["chunk_shape"])
    )
    native = np.array([isinstance(row, ChunkId) for row in rows])
    ids = b"".join(row if isinstance(row, ChunkId) else bytes(12) for row in rows)
    return ChunkRefs(
        coordinates=np.array(coordinates, np.uint32),
        kind=np.where(native, RefKind.NATIVE, RefKind.INLINE).astype(np.uint8),
        chunk_id=np.frombuffer(ids, np.uint8).reshape(-1, 12),
        offset=np.zeros(len(rows), np.uint64),
        length=np.where(native, chunk_bytes, 0).astype(np.uint64),
        content=Spans(b"".join(inline), np.cumsum(lengths, dtype=np.uint32) - lengths, lengths),
        checksum_etag=None,
        checksum_last_modified=None,
        extra=None,
    )
