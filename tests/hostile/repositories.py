"""One function for each hostile repository: it harms a copy of a small official one.

    HOSTILE["distinct_vtables"](patient)    changes the files of `patient.where`

Payloads are put together by hand where no writer would make them.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import zstandard

from icectl.format.column_writer import chunk_ref_tables
from icectl.format.envelope import IDENTIFIER, FileType, encode_envelope
from icectl.format.schema import MANIFEST, RawArrayManifest, RawManifest
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import ChunkRefs, RefKind, Spans
from icectl.model.values import MetadataItem
from tests.validate.damage import Patient

MIB = 2**20
Harm = Callable[[Patient], Any]
HOSTILE: dict[str, Harm] = {}
HOSTILE_V1: dict[str, Harm] = {}


def hostile(function: Harm) -> Harm:
    HOSTILE[function.__name__] = function
    return function


def hostile_v1(function: Harm) -> Harm:
    HOSTILE_V1[function.__name__] = function
    return function


# The repo file.


@hostile
def long_name_like_a_password(p: Patient) -> None:
    """An error message repeats the name, and hides what looks like a password in it."""
    name = "://a:b" * 100_000
    p.repo(
        lambda raw: raw._replace(
            tags=(*raw.tags[:-1], raw.tags[-1]._replace(name=name, snapshot_index=99))
        )
    )


@hostile
def sparse_repo(p: Patient) -> None:
    os.truncate(p.where / "repo", 2**40)


@hostile
def endless_payload(p: Patient) -> None:
    """A frame that unfolds to gigabytes."""
    header = (p.where / "repo").read_bytes()[:39]
    (p.where / "repo").write_bytes(header + zeros_frame(2 * 2**30))


@hostile
def many_pruned_logs(p: Patient) -> None:
    ids = (SnapshotId(bytes(12)),) * 5_000_000

    def change(raw: Any) -> Any:
        first, *rest = raw.snapshots
        return raw._replace(snapshots=(first._replace(pruned_ancestor_tx_logs=ids), *rest))

    p.repo(change)


@hostile
def large_values(p: Patient) -> None:
    """Values of the repository and of its commits that are long lists of empty lists."""
    value = MetadataItem("x", empty_lists(8 * MIB))
    p.repo(
        lambda raw: raw._replace(
            metadata=(value,),
            config=value.value,
            snapshots=tuple(one._replace(metadata=(value,)) for one in raw.snapshots[:1])
            + raw.snapshots[1:],
        )
    )


@hostile
def many_refs_and_snapshots(p: Patient) -> None:
    """Every tag leads to every snapshot, and each snapshot is missing."""

    def change(raw: Any) -> Any:
        old = len(raw.snapshots)
        first = raw.snapshots[0]
        ids = sorted({SnapshotId(b"\xff" + os.urandom(11)) for _ in range(3000)})
        added = tuple(
            first._replace(id=id_, parent_offset=max(old + number - 1, 0), message="")
            for number, id_ in enumerate(ids)
        )
        tags = tuple(
            raw.tags[0]._replace(name=f"t{number:05}", snapshot_index=old + len(ids) - 1)
            for number in range(3000)
        )
        return raw._replace(snapshots=raw.snapshots + added, tags=tags)

    p.repo(change)


# Snapshots.


def node_record(user_data: bytes = b"{}", fields: int = 6) -> bytes:
    """A group `/` with its own vtable, all offsets inside: equal records are equal bytes.

    Fields behind the sixth are unknown ones.
    """
    vtable_size = 4 + 2 * fields
    lead = -vtable_size % 8
    table = lead + vtable_size
    data = bytearray(lead)
    # id at 4 (8 bytes), path at 12, user_data at 16, union tag at 24, union value at 20
    known = [4, 12, 16, 24, 20, 0]
    data += struct.pack("<HH", vtable_size, 28)
    data += struct.pack(f"<{fields}H", *known, *(24,) * (fields - 6))
    data += struct.pack("<i", vtable_size) + bytes(8)
    slots = len(data)
    data += bytes(12) + b"\x02" + bytes(3)
    assert len(data) == table + 28

    def point(slot: int) -> None:
        data.extend(bytes(-len(data) % 4))
        struct.pack_into("<I", data, slot, len(data) - slot)

    point(slots)
    data += struct.pack("<I", 1) + b"/\0"
    point(slots + 4)
    data += struct.pack("<I", len(user_data)) + user_data
    data += bytes(-len(data) % 4)
    data += struct.pack("<HH", 4, 4)
    point(slots + 8)
    data += struct.pack("<i", 4)
    return bytes(data + bytes(-len(data) % 8))


def snapshot_payload(snapshot_id: str, record: bytes, records: int, slots_per_record: int) -> bytes:
    """A snapshot whose nodes are `records` copies, each referred to several times."""
    out = bytearray(4) + IDENTIFIER
    # id, parent_id, nodes, flushed_at, message, metadata, manifest_files, manifest_files_v2
    vtable = [4, 0, 16, 32, 20, 24, 28, 40]
    out += struct.pack("<HH", 4 + 2 * len(vtable), 44) + struct.pack(f"<{len(vtable)}H", *vtable)
    out += bytes(-len(out) % 8)
    position = len(out)
    struct.pack_into("<I", out, 0, position)
    out += struct.pack("<i", position - 8) + SnapshotId.parse(snapshot_id) + bytes(28)
    for place, content in ((20, struct.pack("<I", 0) + bytes(4)), (24, bytes(4)), (40, bytes(4))):
        struct.pack_into("<I", out, position + place, len(out) - position - place)
        out += content
    out += bytes((4 - len(out)) % 8)
    struct.pack_into("<I", out, position + 28, len(out) - position - 28)
    out += bytes(4)
    struct.pack_into("<I", out, position + 16, len(out) - position - 16)
    count = records * slots_per_record
    out += struct.pack("<I", count)
    start = len(out)
    out += bytes(4 * count)
    out += bytes(-len(out) % 8)
    base = len(out)
    table = base + (-(struct.unpack_from("<H", record.lstrip(b"\0"))[0]) % 8)
    table += struct.unpack_from("<H", record.lstrip(b"\0"))[0]
    slots = start + 4 * np.arange(count, dtype=np.int64)
    tables = table + len(record) * (np.arange(count, dtype=np.int64) // slots_per_record)
    out[start : start + 4 * count] = (tables - slots).astype("<u4").tobytes()
    out += record * records
    return bytes(out)


def write_snapshot(p: Patient, payload: bytes) -> None:
    data = encode_envelope(payload, FileType.SNAPSHOT, p.spec_version, level=19)
    (p.where / "snapshots" / p.tip).write_bytes(data)


@hostile
def distinct_vtables(p: Patient) -> None:
    """A thousand nodes, each with a vtable of 32,000 unknown fields."""
    write_snapshot(p, snapshot_payload(p.tip, node_record(fields=32_000), 900, 1))


@hostile
def many_small_vtables(p: Patient) -> None:
    write_snapshot(p, snapshot_payload(p.tip, node_record(), 200_000, 1))


@hostile
def one_node_many_times(p: Patient) -> None:
    write_snapshot(p, snapshot_payload(p.tip, node_record(), 1, 1_000_000))


@hostile
def shared_user_data(p: Patient) -> None:
    """Few nodes, each with the same 20 MB."""
    record = node_record(b'{"attributes": [' + b"[]," * 7_000_000 + b"[]]}")
    write_snapshot(p, snapshot_payload(p.tip, record, 1, 12))


@hostile
def nodes_with_one_id(p: Patient) -> None:
    """Every id twice: to find the others of each takes a look at all, if done one by one."""

    def change(raw: Any) -> Any:
        first = raw.nodes[0]
        return raw._replace(
            nodes=tuple(
                replace(first, id=NodeId((number // 2).to_bytes(8, "big")), path=f"/g{number:06}")
                for number in range(30_000)
            )
        )

    p.snapshot(change)


@hostile
def many_manifests_of_an_array(p: Patient) -> None:
    """Extents that all overlap along one dimension, and nowhere along the other."""
    from icectl.model.snapshot import ChunkIndexRange, ManifestRef

    count = 8_000
    refs = tuple(
        ManifestRef(
            ManifestId(number.to_bytes(12, "big")),
            (ChunkIndexRange(number, 2**31), ChunkIndexRange(number, number + 1)),
        )
        for number in range(count)
    )
    p.array("/g/native", manifests=refs)


# Transaction logs.


@hostile
def many_new_groups(p: Patient) -> None:
    ids = (NodeId(bytes(8)),) * 8_000_000
    p.log(lambda raw: raw._replace(new_groups=ids))


# Manifests.


def references(count: int, dimensions: int, kind: RefKind, frames: list[bytes]) -> ChunkRefs:
    data = bytearray(b"".join(frames))
    lengths = np.array([len(frame) for frame in frames], np.uint32)
    starts = (np.cumsum(lengths) - lengths).astype(np.uint32)
    places = np.arange(count) % max(len(frames), 1)
    coordinates = np.zeros((count, dimensions), np.uint32)
    if dimensions:
        coordinates[:, 0] = np.arange(count)
    return ChunkRefs(
        coordinates,
        np.full(count, kind, np.uint8),
        np.zeros((count, 12), np.uint8),
        np.zeros(count, np.uint64),
        np.full(count, 4, np.uint64),
        Spans(data, starts[places], lengths[places])
        if frames
        else Spans(data, np.zeros(count, np.uint32), np.zeros(count, np.uint32)),
        None,
        None,
        None,
    )


def write_manifest(p: Patient, path: str, arrays: list[tuple[NodeId, ChunkRefs]]) -> None:
    """Replace the first manifest of an array, and let its snapshots say what is true."""
    name = p.manifest_of(path)
    raw = RawManifest(
        ManifestId.parse(name),
        tuple(RawArrayManifest(id_, chunk_ref_tables(refs), None) for id_, refs in arrays),
        None,
        1,
        None,
    )
    p.write(f"manifests/{name}", MANIFEST, raw, FileType.MANIFEST)
    size = (p.where / "manifests" / name).stat().st_size
    count = sum(len(refs) for _, refs in arrays)
    for snapshot_id in p.history:
        p.snapshot(
            lambda raw: raw._replace(
                manifest_files_v2=tuple(
                    replace(one, size_bytes=size, num_chunk_refs=count)
                    if str(one.id) == name
                    else one
                    for one in raw.manifest_files_v2
                )
            ),
            snapshot_id,
        )
    (p.where / "manifests" / name).touch()


@hostile
def compressed_locations(p: Patient) -> None:
    """Locations that unfold to 64 KB each."""
    compressor = zstandard.ZstdCompressor(level=3)
    frames = [
        compressor.compress(b"file:///" + number.to_bytes(3, "big").hex().encode() + b"a" * 65_000)
        for number in range(60_000)
    ]
    refs = references(len(frames), 1, RefKind.VIRTUAL_COMPRESSED, frames)
    write_manifest(p, "/virtual", [(p.find("/virtual").id, refs)])


@hostile
def compressed_locations_of_unknown_size(p: Patient) -> None:
    compressor = zstandard.ZstdCompressor(level=3, write_content_size=False)
    frames = [
        compressor.compress(b"file:///" + number.to_bytes(3, "big").hex().encode() + b"a" * 65_000)
        for number in range(20_000)
    ]
    refs = references(len(frames), 1, RefKind.VIRTUAL_COMPRESSED, frames)
    write_manifest(p, "/virtual", [(p.find("/virtual").id, refs)])


@hostile
def millions_of_dimensions(p: Patient) -> None:
    p.manifest("/g/native", lambda refs: setattr(refs[0], "index", (0,) * 15_000_000))


@hostile
def many_empty_arrays(p: Patient) -> None:
    """Each costs a few array operations."""

    def nothing(writer: Any, position: int) -> None:
        writer.append_slots(position, 0)

    def change(_: Any) -> tuple[RawArrayManifest, ...]:
        ids = (NodeId(number.to_bytes(8, "big")) for number in range(60_000))
        return tuple(RawArrayManifest(id_, nothing, None) for id_ in ids)

    p.manifest("/g/native", lambda refs: None, arrays=change)


@hostile
def equal_references(p: Patient) -> None:
    """A million references to one file: healthy, and the most repetitive of its kind."""
    refs = references(300_000, 1, RefKind.VIRTUAL, [b"file:///nowhere/data.nc"])
    write_manifest(p, "/virtual", [(p.find("/virtual").id, refs)])


@hostile
def endless_references(p: Patient) -> None:
    """Offsets and lengths at the end of what a number can say."""

    def change(refs: list[Any]) -> None:
        refs[0].offset, refs[0].length = 2**63, 2**63 - 1
        refs[1].offset, refs[1].length = 0, 2**62
        refs[2].length = 2**40

    p.manifest("/g/native", change)


# Chunks.


def zeros_frame(size: int) -> bytes:
    """A zstd frame of zeros without a content size: blocks of 128 KB in four bytes each."""
    blocks = size // (128 * 1024)
    block = (128 * 1024) << 3 | 1 << 1
    header = struct.pack("<I", 0xFD2FB528) + bytes([0x00, 0x38])
    body = (struct.pack("<I", block)[:3] + b"\0") * (blocks - 1)
    return header + body + struct.pack("<I", block | 1)[:3] + b"\0"


def codecs(p: Patient, path: str, *codecs: Any, **changes: Any) -> None:
    """Let every version of the array say these codecs."""
    for snapshot_id in p.history:

        def change(node: Any) -> Any:
            document = json.loads(node.user_data) | {"codecs": list(codecs), **changes}
            return replace(node, user_data=json.dumps(document).encode())

        p.node(path, change, snapshot_id)


def replace_chunk(p: Patient, path: str, data: bytes) -> None:
    """The first chunk, with a reference of the right length."""
    chunk = p.chunk_of(path)
    chunk.write_bytes(data)
    p.manifest(path, lambda refs: setattr(refs[0], "length", len(data)))


_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


@hostile
def zstd_chunk_bomb(p: Patient) -> None:
    codecs(p, "/g/native", _BYTES, {"name": "zstd", "configuration": {"level": 0}})
    replace_chunk(p, "/g/native", zeros_frame(6 * 2**30))


@hostile
def gzip_chunk_bomb(p: Patient) -> None:
    codecs(p, "/g/native", _BYTES, {"name": "gzip", "configuration": {"level": 1}})
    replace_chunk(p, "/g/native", gzip.compress(bytes(700 * MIB), 1))


@hostile
def blosc_chunk_bomb(p: Patient) -> None:
    configuration = {
        "cname": "zstd",
        "clevel": 1,
        "shuffle": "noshuffle",
        "typesize": 8,
        "blocksize": 0,
    }
    codecs(p, "/g/native", _BYTES, {"name": "blosc", "configuration": configuration})
    import numcodecs

    data = bytearray(numcodecs.Blosc("zstd", 9, 0).encode(bytes(700 * MIB)))
    replace_chunk(p, "/g/native", bytes(data))


@hostile
def shard_bomb(p: Patient) -> None:
    """A shard whose inner chunks all are the same frame, which unfolds without end."""
    inner = {
        "chunk_shape": [1, 1],
        "codecs": [_BYTES, {"name": "zstd", "configuration": {"level": 0}}],
        "index_codecs": [_BYTES],
        "index_location": "end",
    }
    codecs(p, "/g/native", {"name": "sharding_indexed", "configuration": inner})
    frame = zeros_frame(2**30)
    index = struct.pack("<QQ", 0, len(frame)) * 16
    replace_chunk(p, "/g/native", frame + index)


@hostile
def huge_chunk_shape(p: Patient) -> None:
    """A chunk that claims to be 8 TB."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [10**6, 10**6]}}
    codecs(
        p,
        "/g/native",
        _BYTES,
        {"name": "zstd", "configuration": {"level": 0}},
        chunk_grid=grid,
    )
    replace_chunk(p, "/g/native", zstandard.compress(bytes(128)))


@hostile
def variable_length_bomb(p: Patient) -> None:
    """A chunk of text that claims four billion strings."""
    codecs(p, "/g/native", {"name": "vlen-utf8"}, data_type="string", fill_value="")
    replace_chunk(p, "/g/native", struct.pack("<I", 2**32 - 1) + bytes(64))


# Before spec version 2.


@hostile_v1
def large_config(p: Patient) -> None:
    text = "x:\n" + "".join(f"- k{number}: v\n" for number in range(85_000))
    (p.where / "config.yaml").write_text(text[: 2**20])


@hostile_v1
def largest_config(p: Patient) -> None:
    lines = "".join(f"- k{number}: v\n" for number in range(85_000))
    (p.where / "config.yaml").write_text("x:\n" + lines[: 500 * 1024].rpartition("\n")[0])


@hostile_v1
def message_pack_bomb(p: Patient) -> None:
    """The tip as a file of the generation before: a list of empty lists."""
    count = 60_000_000
    payload = b"\xdd" + struct.pack(">I", count) + b"\x90" * count
    payload = b"\x91" + payload
    data = encode_envelope(payload, FileType.SNAPSHOT, 1, level=19)
    (p.where / "snapshots" / p.tip).write_bytes(data)


@hostile_v1
def large_ref(p: Patient) -> None:
    with (p.where / "refs" / "branch.main" / "ref.json").open("r+b") as file:
        file.truncate(2**40)


@hostile_v1
def cycle(p: Patient) -> None:
    p.snapshot(
        lambda raw: raw._replace(parent_id=SnapshotId.parse(p.tip)), snapshot_id=p.history[-2]
    )


def empty_lists(size: int) -> bytes:
    """A FlexBuffers vector of empty vectors, all the same one."""
    count = size // 9
    target = 8  # behind a length of zero
    data = bytearray(8)
    data += struct.pack("<Q", count)
    start = len(data)
    data += (start + 8 * np.arange(count, dtype="<u8") - target).astype("<u8").tobytes()
    data += bytes([10 << 2 | 3]) * count
    data += bytes(-len(data) % 8)
    root = len(data)
    return bytes(data + struct.pack("<Q", root - start) + bytes([10 << 2 | 3, 8]))
