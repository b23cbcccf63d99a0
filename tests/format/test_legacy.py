"""The MessagePack generations: the fixtures, hand-made early structures, and damage."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from icectl.errors import FormatError
from icectl.format.envelope import decode_envelope
from icectl.format.legacy import (
    LegacyRef,
    decode_legacy_attributes,
    decode_legacy_manifest,
    decode_legacy_snapshot,
    decode_legacy_transaction_log,
    guess_legacy_kind,
)
from icectl.format.refs import decode_ref, interpret_ref_names
from icectl.format.snapshot import decode_snapshot
from icectl.format.values import decode_metadata
from icectl.model.ids import ChunkId, NodeId, SnapshotId
from icectl.model.snapshot import ArrayNodeData, ChunkIndexRange, Snapshot
from tests.format.legacy_files import Map, pack
from tests.format.mutations import mutations

GENERATIONS = ("test-repo-alpha8", "test-repo-alpha15", "test-repo-0.1.0")
KINDS = {"snapshots": "snapshot", "manifests": "manifest", "transactions": "transaction_log"}
MESSAGES = [
    "some more structure",
    "delete a chunk",
    "set virtual chunk",
    "fill data",
    "empty structure",
    "Repository initialized",
]
SOME_ID = SnapshotId(bytes(12))


def payloads(root: Path, directory: str) -> dict[str, bytes]:
    return {
        file.name: bytes(decode_envelope(file.read_bytes()).payload)
        for file in sorted((root / directory).iterdir())
    }


def snapshots(root: Path) -> dict[str, Snapshot]:
    return {
        name: decode_legacy_snapshot(payload)
        for name, payload in payloads(root, "snapshots").items()
    }


def tip(root: Path, branch: str) -> str:
    refs = interpret_ref_names(str(path.relative_to(root)) for path in root.glob("refs/*/*"))
    return str(decode_ref((root / refs.branches[branch]).read_bytes()))


def decode_any(payload: bytes) -> object:
    kind = guess_legacy_kind(payload)
    if kind == "snapshot":
        return decode_legacy_snapshot(payload)
    if kind == "manifest":
        return decode_legacy_manifest(payload)
    if kind == "transaction_log":
        return decode_legacy_transaction_log(payload, SOME_ID)
    return decode_legacy_attributes(payload)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_kind_is_told_from_the_content(shared_fixtures: Path, generation: str) -> None:
    for directory, kind in KINDS.items():
        for name, payload in payloads(shared_fixtures / generation, directory).items():
            assert guess_legacy_kind(payload) == kind, name


@pytest.mark.parametrize("generation", GENERATIONS)
def test_snapshots_chain_from_the_refs_to_the_root(shared_fixtures: Path, generation: str) -> None:
    root = shared_fixtures / generation
    by_name = snapshots(root)
    assert all(str(snapshot.id) == name for name, snapshot in by_name.items())
    chain = []
    name: str | None = tip(root, "my-branch")
    while name is not None:
        chain.append(by_name[name])
        name = str(chain[-1].parent_id) if chain[-1].parent_id else None
    assert [snapshot.message for snapshot in chain] == MESSAGES
    assert len(chain) == len(by_name)
    assert str(chain[2].id) == tip(root, "main")
    times = [snapshot.flushed_at for snapshot in chain]
    assert times == sorted(times, reverse=True)
    assert decode_metadata(chain[-1].metadata, 1) == (
        {"__root": True} if generation == "test-repo-0.1.0" else {}
    )


def test_times_are_exact_to_the_microsecond(shared_fixtures: Path) -> None:
    first = snapshots(shared_fixtures / "test-repo-alpha8")["8R50R5QATH5283VSKQXG"]
    # 2024-12-26T19:01:29.859825614Z
    assert first.flushed_at == 1735239689_859825


@pytest.mark.parametrize("generation", GENERATIONS)
def test_nodes_are_those_of_the_same_history_in_v1(shared_fixtures: Path, generation: str) -> None:
    """The official test suite wrote the same history with each release."""
    ours = {
        snapshot.message: snapshot for snapshot in snapshots(shared_fixtures / generation).values()
    }
    v1 = [
        decode_snapshot(file.read_bytes())
        for file in (shared_fixtures / "test-repo-v1" / "snapshots").iterdir()
    ]
    for reference in v1:
        nodes = {node.path: node for node in ours[reference.message].nodes}
        assert set(nodes) == {node.path for node in reference.nodes}
        for expected in reference.nodes:
            node = nodes[expected.path]
            document, expected_document = json.loads(node.user_data), json.loads(expected.user_data)
            for name in ("zarr_format", "node_type", "attributes", "shape", "data_type"):
                assert document.get(name) == expected_document.get(name), (expected.path, name)
            for name in ("chunk_grid", "chunk_key_encoding", "fill_value"):
                assert document.get(name) == expected_document.get(name), (expected.path, name)
            assert isinstance(node.node_data, type(expected.node_data))
            if isinstance(node.node_data, ArrayNodeData):
                assert isinstance(expected.node_data, ArrayNodeData)
                assert node.node_data.array_shape == expected.node_data.array_shape
                assert node.node_data.num_chunks == expected.node_data.num_chunks
                assert document["codecs"][0] == {
                    "name": "bytes",
                    "configuration": {"endian": "little"},
                }


def test_zarr_opens_the_metadata_that_we_make(shared_fixtures: Path) -> None:
    zarr = pytest.importorskip("zarr")
    for generation in GENERATIONS:
        root = shared_fixtures / generation
        store = zarr.storage.MemoryStore()
        snapshot = snapshots(root)[tip(root, "my-branch")]
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        for node in snapshot.nodes:
            key = f"{node.path.strip('/')}/zarr.json".lstrip("/")
            value = default_buffer_prototype().buffer.from_bytes(node.user_data)
            sync(store.set(key, value))
        group = zarr.open_group(store, mode="r")
        array = group["group1/big_chunks"]
        assert array.shape == (10, 10)
        assert array.chunks == (5, 5)
        assert array.attrs["this"] == "is a nice array"
        assert len(list(group["group2/group3/group4/group5"].array_keys())) == 1


@pytest.mark.parametrize("generation", GENERATIONS)
def test_manifests_lead_from_the_nodes_to_the_chunks(
    shared_fixtures: Path, generation: str
) -> None:
    root = shared_fixtures / generation
    manifests = {
        name: decode_legacy_manifest(payload)
        for name, payload in payloads(root, "manifests").items()
    }
    chunks = {file.name: file.stat().st_size for file in (root / "chunks").iterdir()}
    sizes = {file.name: file.stat().st_size for file in (root / "manifests").iterdir()}
    used = set()
    for snapshot in snapshots(root).values():
        listed = {str(info.id): info for info in snapshot.manifest_files}
        for node in snapshot.nodes:
            if not isinstance(node.node_data, ArrayNodeData):
                continue
            for ref in node.node_data.manifests:
                used.add(str(ref.object_id))
                manifest = manifests[str(ref.object_id)]
                info = listed[str(ref.object_id)]
                if generation == "test-repo-0.1.0":
                    assert manifest.id == ref.object_id
                    assert info.size_bytes == sizes[str(info.id)]
                    assert info.num_chunk_refs == len(manifest.refs)
                    dimensions = len(node.node_data.shape)
                    assert len(ref.extents) == dimensions
                    for row in manifest.refs:
                        assert all(
                            extent.from_ <= index < extent.to
                            for extent, index in zip(ref.extents, row.coordinates, strict=True)
                        )
                if "chunks" in node.path and node.path.startswith("/group1"):
                    assert any(row.node_id == node.id for row in manifest.refs)
    assert used == set(manifests)
    native = {}
    for manifest in manifests.values():
        for row in manifest.refs:
            if row.kind == "native":
                native[str(row.chunk_id)] = row.length
            elif row.kind == "virtual":
                assert row.location == "s3://testbucket/can_read_old/chunk-1"
                assert row.last_modified == 4294111232
                assert row.coordinates == (0, 0)
            else:
                assert row.inline
                assert row.length == len(row.inline)
    assert native == chunks


@pytest.mark.parametrize("generation", GENERATIONS)
def test_transaction_logs_say_what_changed(shared_fixtures: Path, generation: str) -> None:
    root = shared_fixtures / generation
    by_name = snapshots(root)
    logs = {
        by_name[name].message: decode_legacy_transaction_log(payload, SnapshotId.parse(name))
        for name, payload in payloads(root, "transactions").items()
    }
    paths = {node.id: node.path for snapshot in by_name.values() for node in snapshot.nodes}
    structure = logs["empty structure"]
    assert {paths[node] for node in structure.new_groups} == {"/", "/group1"}
    assert {paths[node] for node in structure.new_arrays} == {
        "/group1/big_chunks",
        "/group1/small_chunks",
    }
    assert structure.updated_arrays == structure.updated_groups == ()
    filled = {
        paths[updated.node_id]: sorted(map(tuple, updated.chunks.tolist()))
        for updated in logs["fill data"].updated_chunks
    }
    assert filled == {
        "/group1/big_chunks": [(0, 0), (0, 1), (1, 0), (1, 1)],
        "/group1/small_chunks": [(0,), (1,), (2,), (3,), (4,)],
    }
    [deleted] = logs["delete a chunk"].updated_chunks
    assert deleted.chunks.tolist() == [[4]]
    assert all(str(log.id) in by_name for log in logs.values())


def early_array(**changes: Any) -> dict[str, Any]:
    return {
        "shape": [4, 0],
        "data_type": {"rawbits": 16},
        "chunk_shape": [2, 1],
        "chunk_key_encoding": "Dot",
        "fill_value": {"Complex64": [float("inf"), float("-inf")]},
        "codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1}}],
        "storage_transformers": [["t", None]],
        "dimension_names": ["x", None],
    } | changes


def early_snapshot(**changes: Any) -> dict[str, Any]:
    """As the earliest specification has it: names, ids of 16 numbers, nodes by number."""
    ids = [[n] * 16 for n in range(5)]
    commits = [
        {"id": ids[n], "written_at": f"2024-09-0{n + 1}T00:00:00+02:00", "message": f"c{n}"}
        for n in range(3)
    ]
    return {
        "total_parents": 2,
        "short_term_parents": 2,
        "short_term_history": commits[:2],
        "metadata": commits[2],
        "started_at": "2024-09-03T00:00:00Z",
        "properties": {"author": "x"},
        "nodes": {
            "/": {"id": 1, "path": "/", "user_attributes": None, "node_data": "Group"},
            "/a": {
                "id": 4294967295,
                "path": "/a",
                "user_attributes": {"Ref": {"object_id": ids[3], "location": 1, "flags": []}},
                "node_data": {
                    "Array": [early_array(), [{"object_id": ids[4], "flags": [], "extents": []}]]
                },
            },
        },
    } | changes


def test_snapshot_of_the_earliest_specification() -> None:
    document = early_snapshot()
    bare = early_snapshot(
        short_term_history=[list(commit.values()) for commit in document["short_term_history"]],
        metadata=list(document["metadata"].values()),
        nodes={path: list(node.values()) for path, node in document["nodes"].items()},
    )
    for payload in (pack(document), pack(list(bare.values()))):
        assert guess_legacy_kind(payload) == "snapshot"
        snapshot = decode_legacy_snapshot(payload)
        assert snapshot.id == SnapshotId(bytes([2] * 16))
        assert snapshot.parent_id == SnapshotId(bytes([1] * 16))
        assert snapshot.flushed_at == 1725314400_000000
        assert decode_metadata(snapshot.metadata, 1) == {"author": "x"}
        assert [node.id for node in snapshot.nodes] == [
            NodeId(b"\x00\x00\x00\x01"),
            NodeId(b"\xff\xff\xff\xff"),
        ]
        array = snapshot.nodes[1].node_data
        assert isinstance(array, ArrayNodeData)
        assert array.dimension_names == ("x", None)
        assert array.manifests[0].object_id == bytes([4] * 16)
        assert array.manifests[0].extents == ()
        assert array.num_chunks == (2, 0)
        document_ = json.loads(snapshot.nodes[1].user_data)
        assert document_["data_type"] == "r16"
        assert document_["fill_value"] == ["Infinity", "-Infinity"]
        assert document_["codecs"][0] == {"name": "bytes"}
        assert document_["storage_transformers"] == [{"name": "t"}]
        assert document_["chunk_key_encoding"]["configuration"] == {"separator": "."}
        assert "attributes" not in document_


def test_snapshot_between_the_two_fixtures() -> None:
    """Header and MessagePack, before snapshots had an id field: nine fields."""
    commits = [
        [str(SnapshotId(bytes([n] * 12))), f"2025-01-0{n}T00:00:00Z", f"c{n}"] for n in (3, 2, 1)
    ]
    manifest = str(SnapshotId(bytes(12)))
    payload = pack([[[manifest, 1, 777]], [], 2, 2, commits[1:], commits[0], commits[0][1], {}, {}])
    snapshot = decode_legacy_snapshot(payload)
    assert snapshot.message == "c3"
    assert snapshot.parent_id == SnapshotId(bytes([2] * 12))
    assert snapshot.manifest_files[0].size_bytes == 777


def test_extents_become_ranges() -> None:
    ref = [[b"m" * 12, []], [[0, 1], [2, 3]]]
    node = [[b"n" * 8, []], "/a", None, {"Array": [early_array(), [ref]]}]
    head: list[object] = [[b"s" * 12, []], None, "2025-01-01T00:00:00Z", "m", {}, [], []]
    array = decode_legacy_snapshot(pack([*head, {"/a": node}])).nodes[0].node_data
    assert isinstance(array, ArrayNodeData)
    assert array.manifests[0].extents == (ChunkIndexRange(0, 2), ChunkIndexRange(1, 3))


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"id": [1] * 16, "message": "x"}},
        {"metadata": {"id": [1] * 15, "written_at": "2024-09-01T00:00:00Z", "message": "x"}},
        {"metadata": {"id": [1] * 16, "written_at": "2024-13-01T00:00:00Z", "message": "x"}},
        {"metadata": {"id": [1] * 16, "written_at": "0001-01-01T00:00:00+99:00", "message": "x"}},
        {"metadata": {"id": [300] * 16, "written_at": "2024-09-01T00:00:00Z", "message": "x"}},
        {"properties": []},
        {"properties": {"a": b"bytes"}},
        {"nodes": []},
        {"nodes": {"/a": {"id": 1, "path": "/b", "node_data": "Group"}}},
        {"nodes": {"a": {"id": 1, "path": "a", "node_data": "Group"}}},
        {"nodes": {"/a": {"id": -1, "path": "/a", "node_data": "Group"}}},
        {"nodes": {"/a": {"id": True, "path": "/a", "node_data": "Group"}}},
        {"nodes": {"/a": {"id": 1, "path": "/a", "node_data": "Other"}}},
        {"nodes": {"/a": {"id": 1, "path": "/a", "node_data": {"Array": [early_array()]}}}},
        {
            "nodes": {
                "/a": {"id": 1, "path": "/a", "node_data": "Group"},
                "/b": {"id": 1, "path": "/b", "node_data": "Group"},
            }
        },
        *(
            {
                "nodes": {
                    "/a": {
                        "id": 1,
                        "path": "/a",
                        "node_data": {"Array": [early_array(**broken), []]},
                    }
                }
            }
            for broken in (
                {"shape": [1]},
                {"shape": [-1, 1]},
                {"chunk_shape": [0, 1]},
                {"dimension_names": ["x"]},
                {"data_type": {"other": 1}},
                {"fill_value": {"A": 1, "B": 2}},
                {"fill_value": {"RawBits": b"x"}},
                {"chunk_key_encoding": "Colon"},
                {"codecs": [{"configuration": {}}]},
            )
        ),
    ],
)
def test_damaged_snapshots_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        decode_legacy_snapshot(pack(early_snapshot(**changes)))


def test_manifest_of_the_earliest_specification() -> None:
    chunks = Map(
        ([7, [0, 1]], {"Ref": {"id": list(range(16)), "offset": 1, "length": 2}}),
        ([7, []], {"Inline": [1, 2, 255]}),
        ([8, [3]], {"Virtual": {"location": {"Absolute": "s3://b/k"}, "offset": 3, "length": 4}}),
        ([8, [4]], {"Virtual": ["s3://b/k", 3, 4, {"ETag": "abc"}]}),
    )
    seven, eight = NodeId(b"\0\0\0\x07"), NodeId(b"\0\0\0\x08")
    for payload in (pack({"chunks": chunks}), pack([chunks]), pack([0, {}, chunks])):
        assert guess_legacy_kind(payload) == "manifest"
        assert decode_legacy_manifest(payload).refs == (
            LegacyRef(seven, (0, 1), "native", 1, 2, chunk_id=ChunkId(bytes(range(16)))),
            LegacyRef(seven, (), "inline", 0, 3, inline=b"\x01\x02\xff"),
            LegacyRef(eight, (3,), "virtual", 3, 4, location="s3://b/k"),
            LegacyRef(eight, (4,), "virtual", 3, 4, location="s3://b/k", etag="abc"),
        )


def test_scalar_arrays_in_nested_manifests() -> None:
    node = [b"n" * 8, []]
    payload = pack([[b"m" * 12, []], Map((node, Map(([], {"Inline": b"x"}))))])
    [ref] = decode_legacy_manifest(payload).refs
    assert (ref.node_id, ref.coordinates) == (NodeId(b"n" * 8), ())


@pytest.mark.parametrize(
    "reference",
    [
        {"Inline": "text"},
        {"Ref": [[b"c" * 12, []], 0]},
        {"Ref": [[b"c" * 11, []], 0, 1]},
        {"Ref": [[b"c" * 12, []], -1, 1]},
        {"Ref": [[b"c" * 12, []], 0, 1], "Inline": b""},
        {"Virtual": [1, 0, 1, None]},
        {"Virtual": ["s3://b/k", 0, 1, {"LastModified": 2**32}]},
        {"Virtual": ["s3://b/k", 0, 1, {"Md5": "x"}]},
        {"Virtual": [{"Relative": "k"}, 0, 1]},
        {"Other": 1},
        "Ref",
        None,
    ],
)
def test_damaged_references_are_refused(reference: object) -> None:
    with pytest.raises(FormatError):
        decode_legacy_manifest(pack([0, {}, Map(([1, [0]], reference))]))


def test_a_chunk_cannot_have_two_references() -> None:
    twice = ([1, [0]], {"Inline": b"x"})
    decode_legacy_manifest(pack([0, {}, Map(twice)]))
    with pytest.raises(FormatError):
        decode_legacy_manifest(pack([0, {}, Map(twice, twice)]))


def test_transaction_log_of_the_first_alphas() -> None:
    payload = pack(
        [
            *(0, {"/": 1, "/g": 2}, {"/a": 3}, [1, 5], [6]),
            *(Map((6, [[0, 1], [2, 3]]), (7, [])), ["/x"], Map((8, "/x")), Map((9, "/y"))),
        ]
    )
    log = decode_legacy_transaction_log(payload, SOME_ID)

    def node(number: int) -> NodeId:
        return NodeId(number.to_bytes(4, "big"))

    assert log.new_groups == (node(1), node(2))
    assert log.new_arrays == (node(3),)
    assert log.updated_arrays == (node(6), node(5))
    assert (log.deleted_groups, log.deleted_arrays) == ((node(8),), (node(9),))
    assert log.updated_chunks[0].chunks.tolist() == [[0, 1], [2, 3]]
    assert log.updated_chunks[1].chunks.shape == (0, 0)


@pytest.mark.parametrize(
    "updated",
    [
        Map((1, [[0], [0, 1]])),
        Map((1, [[0], [0]])),
        Map((1, [[2**32]])),
        Map((1, [[0]]), (1, [[1]])),
        Map(("not an id", [[0]])),
    ],
)
def test_damaged_transaction_logs_are_refused(updated: Map) -> None:
    with pytest.raises(FormatError):
        decode_legacy_transaction_log(pack([[], [], [], [], [], [], updated]), SOME_ID)


def test_attributes_are_any_json() -> None:
    payload = pack({"a": [1, {"b": None}], "chunk": "x"})
    assert guess_legacy_kind(payload) == "attributes"
    assert decode_legacy_attributes(payload) == {"a": [1, {"b": None}], "chunk": "x"}
    with pytest.raises(FormatError):
        decode_legacy_attributes(b"\x81\xa1a" + b"\x91" * 200 + b"\x01")


def test_another_kind_is_named(shared_fixtures: Path) -> None:
    [payload, *_] = payloads(shared_fixtures / GENERATIONS[0], "manifests").values()
    assert guess_legacy_kind(payload) == "manifest"
    with pytest.raises(FormatError):
        decode_legacy_snapshot(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x90",
        b"\xc0",
        b"text",
        pack(list(range(11))),
        pack(list(range(100))),
        b"\xdd" + (2**32 - 1).to_bytes(4, "big"),
        b"\xdf\x00\x0f\xff\xff" * 300_000,
        b"\xdd\x00\x0f\xff\xff" * 300_000,
        b"\x91" * 100_000,
        b"\x81\x81\x81\x01\x02\x03",
    ],
)
def test_what_is_no_legacy_file_is_refused(payload: bytes) -> None:
    started = time.process_time()
    with pytest.raises(FormatError):
        guess_legacy_kind(payload)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("directory", KINDS)
def test_mutations(shared_fixtures: Path, generation: str, directory: str) -> None:
    for name, payload in payloads(shared_fixtures / generation, directory).items():
        right = decode_any(payload)
        refused = 0
        for damaged in mutations(payload, 2000, seed=len(payload)):
            try:
                decoded = decode_any(damaged)
            except FormatError:
                refused += 1
            else:
                assert damaged != payload or repr(decoded) == repr(right)
        assert refused > 500, name
