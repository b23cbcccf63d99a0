"""A small repository whose every id and time is fixed, so that output can be compared whole.

    1 first data         main~2, tag v1
    |-- 2 more data      main~1
    |   `-- 3 moved      main
    `-- 4 experiment     dev

Commit 1 makes /a and /a/t, 2 writes chunks and deletes /old, 3 moves /a/t to /b/t.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from icectl.format.repo import encode_repo
from icectl.format.snapshot import encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.format.values import encode_flexbuffers, encode_metadata
from icectl.model.ids import INITIAL_SNAPSHOT_ID, ManifestId, NodeId, SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    NewCommitUpdate,
    Ref,
    RepoInfo,
    RepoInitializedUpdate,
    RepoStatus,
    SnapshotInfo,
    TagCreatedUpdate,
    TagDeletedUpdate,
    Update,
)
from icectl.model.snapshot import (
    ArrayNodeData,
    ChunkIndexRange,
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

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
"""2023-11-14T22:13:20Z; the commits follow, an hour apart."""
NOW = "2023-11-15T12:00:00Z"
MANIFEST = ManifestId(b"manifest 001")


def sid(number: int) -> SnapshotId:
    return SnapshotId(bytes([number * 16]) + bytes(11))


def nid(number: int) -> NodeId:
    return NodeId(number.to_bytes(8, "big"))


ROOT, GROUP, ARRAY, OLD, OTHER = map(nid, range(1, 6))


def _group(node_id: NodeId, path: str) -> NodeSnapshot:
    document = {"zarr_format": 3, "node_type": "group"}
    return NodeSnapshot(node_id, path, json.dumps(document).encode(), GroupNodeData())


def _array(path: str) -> NodeSnapshot:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 6],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 3]}},
    }
    extents = (ChunkIndexRange(0, 2), ChunkIndexRange(0, 2))
    shape = (DimensionShapeV2(10, 2), DimensionShapeV2(6, 2))
    data = ArrayNodeData((), ("time", None), (ManifestRef(MANIFEST, extents),), shape)
    return NodeSnapshot(ARRAY, path, json.dumps(document).encode(), data)


NO_LISTS = ("spec_version", "id", "extra")


def _log(number: int, **fields: object) -> TransactionLog:
    lists = [one.name for one in dataclasses.fields(TransactionLog) if one.name not in NO_LISTS]
    empty = dict.fromkeys(lists, ())
    return TransactionLog(2, sid(number), **{**empty, **fields})  # type: ignore[arg-type]


NODES = {
    1: (_group(ROOT, "/"), _group(GROUP, "/a"), _array("/a/t"), _group(OLD, "/old")),
    2: (_group(ROOT, "/"), _group(GROUP, "/a"), _array("/a/t"), _group(OTHER, "/b")),
    3: (_group(ROOT, "/"), _group(GROUP, "/a"), _group(OTHER, "/b"), _array("/b/t")),
    4: (_group(ROOT, "/"), _group(GROUP, "/a"), _array("/a/t"), _group(OLD, "/old")),
}
LOGS = {
    1: _log(1, new_groups=(ROOT, GROUP, OLD), new_arrays=(ARRAY,)),
    2: _log(
        2,
        new_groups=(OTHER,),
        deleted_groups=(OLD,),
        updated_chunks=(ArrayUpdatedChunks(ARRAY, np.array([[0, 0], [1, 1]], np.uint32)),),
    ),
    3: _log(3, moved_nodes=(MoveOperation("/a/t", "/b/t", ARRAY, NodeType.ARRAY),)),
    4: _log(4, updated_groups=(GROUP,)),
}
PARENTS = {1: INITIAL_SNAPSHOT_ID, 2: sid(1), 3: sid(2), 4: sid(1)}
MESSAGES = {
    1: "first data",
    2: "more data\n\nwith a body,\tand \x1b[31mcolour",
    3: "moved",
    4: "experiment",
}
METADATA = {1: {"author": "Zoë"}, 2: {}, 3: {}, 4: {"evil\x1b": "a\nb"}}


def _infos() -> list[SnapshotInfo]:
    root = encode_metadata({"__icechunk": {"is_root": True}}, 2)
    infos = [SnapshotInfo(INITIAL_SNAPSHOT_ID, None, START, "Repository initialized", root)]
    for number, parent in PARENTS.items():
        metadata = encode_metadata(METADATA[number], 2)
        flushed_at = START + number * 3600 * SECOND
        infos.append(SnapshotInfo(sid(number), parent, flushed_at, MESSAGES[number], metadata))
    return infos


def repo_info() -> RepoInfo:
    updates = (
        TagDeletedUpdate("gone", sid(1)),
        TagCreatedUpdate("gone"),
        NewCommitUpdate("dev", sid(4)),
        NewCommitUpdate("main", sid(3)),
        NewCommitUpdate("main", sid(2)),
        BranchCreatedUpdate("dev"),
        TagCreatedUpdate("v1"),
        NewCommitUpdate("main", sid(1)),
        RepoInitializedUpdate(),
    )
    return RepoInfo(
        spec_version=2,
        tags=(Ref("v1", sid(1)),),
        branches=(Ref("dev", sid(4)), Ref("main", sid(3))),
        deleted_tags=("gone",),
        snapshots=tuple(_infos()),
        status=RepoStatus(0, START),
        metadata=encode_metadata({"owner": "ocean team", "list": [1, {"x": None}]}, 2),
        latest_updates=tuple(
            Update(
                update,
                START + (len(updates) - index) * 60 * SECOND,
                None if index == 0 else f"repo.30800000000000.{index:020}",
            )
            for index, update in enumerate(updates)
        ),
        config=encode_flexbuffers({"inline_chunk_threshold_bytes": 64}),
        disabled_feature_flags=(3,),
    )


def write_small_repository(directory: Path) -> Path:
    for name in ("snapshots", "transactions", "overwritten"):
        (directory / name).mkdir(parents=True)
    snapshots = {INITIAL_SNAPSHOT_ID: ()} | {sid(number): nodes for number, nodes in NODES.items()}
    for info in _infos():
        nodes = snapshots[info.id]
        manifests = (ManifestFileInfo(MANIFEST, 1234, 4),) if nodes else ()
        fields = (info.flushed_at, info.message, info.metadata or (), (), manifests)
        snapshot = Snapshot(2, info.id, None, nodes, *fields)
        (directory / "snapshots" / str(info.id)).write_bytes(encode_snapshot(snapshot))
    for number, log in LOGS.items():
        data = encode_transaction_log(log)
        (directory / "transactions" / str(sid(number))).write_bytes(data)
    (directory / "repo").write_bytes(encode_repo(repo_info()))
    return directory
