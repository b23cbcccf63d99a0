"""FlexBuffers, MessagePack and metadata values: round trips, damage, the official reader."""

from __future__ import annotations

import dataclasses
import json
import math
import struct
import time
from pathlib import Path

import pytest
from flatbuffers import flexbuffers
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.errors import FormatError
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.snapshot import decode_snapshot
from icectl.format.values import (
    decode_flexbuffers,
    decode_metadata,
    decode_msgpack,
    encode_flexbuffers,
    encode_metadata,
    encode_msgpack,
    plain,
)
from icectl.model.values import MetadataItem
from tests.format.mutations import mutations

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=25
)
values = st.recursive(
    scalars | st.binary() | st.sampled_from([math.inf, -math.inf]),
    lambda inner: st.lists(inner) | st.dictionaries(names, inner),
    max_leaves=25,
)

RICH = {
    "text": "naïve 🧊",
    "empty": ["", [], {}],
    "numbers": [0, -1, 255, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, 1e300, -0.1],
    "flags": [True, False, None],
    "nested": {"a": {"b": [{"c": [1, [2, [3]]]}]}, "ü": "x" * 300},
}


@settings(max_examples=300, deadline=None)
@given(values)
def test_flexbuffers_round_trip(value: object) -> None:
    assert decode_flexbuffers(encode_flexbuffers(value)) == value


@settings(max_examples=300, deadline=None)
@given(values)
def test_msgpack_round_trip(value: object) -> None:
    assert decode_msgpack(encode_msgpack(value)) == value


@settings(max_examples=50, deadline=None)  # the two above try more values
@given(st.dictionaries(names, json_values), st.sampled_from([1, 2]))
def test_metadata_round_trip(metadata: dict[str, object], spec_version: int) -> None:
    items = encode_metadata(metadata, spec_version)
    assert [item.name for item in items] == sorted(metadata, key=str.encode)
    assert decode_metadata(items, spec_version) == metadata


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_decode_or_are_refused(data: bytes) -> None:
    for decode in (decode_flexbuffers, decode_msgpack):
        try:
            json.dumps(plain(decode(data)), allow_nan=False)
        except FormatError:
            continue


def test_flexbuffers_of_every_type() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("blob")
        builder.Blob(b"\x00\xff")
        builder.Key("bools")
        with builder.TypedVector():
            builder.Bool(True)
            builder.Bool(False)
        builder.Key("fixed")
        with builder.Vector():
            builder.FixedTypedVectorFromElements([1, -2])
            builder.FixedTypedVectorFromElements([1, 2, 300])
            builder.FixedTypedVectorFromElements([0.5, 1.5, 2.5, 3.5])
        builder.Key("floats")
        builder.TypedVectorFromElements([1.5, -2.25])
        builder.Key("indirect")
        with builder.Vector():
            builder.IndirectInt(-(2**40))
            builder.IndirectUInt(2**63)
            builder.IndirectFloat(0.1, 8)
        builder.Key("ints")
        builder.TypedVectorFromElements([-1, 2**40])
        builder.Key("keys")
        with builder.TypedVector():
            builder.Key("k1")
            builder.Key("k2")
        builder.Key("uints")
        builder.TypedVectorFromElements([1, 2], element_type=flexbuffers.Type.UINT)
    assert decode_flexbuffers(bytes(builder.Finish())) == {
        "blob": b"\x00\xff",
        "bools": [True, False],
        "fixed": [[1, -2], [1, 2, 300], [0.5, 1.5, 2.5, 3.5]],
        "floats": [1.5, -2.25],
        "indirect": [-(2**40), 2**63, 0.1],
        "ints": [-1, 2**40],
        "keys": ["k1", "k2"],
        "uints": [1, 2],
    }
    half = struct.pack("<e", 1.5) + bytes([3 << 2 | 1, 2])
    assert decode_flexbuffers(half) == 1.5


def test_flexbuffers_shared_strings_are_not_damage() -> None:
    builder = flexbuffers.Builder(share_strings=True)
    with builder.Vector():
        for _ in range(1000):
            builder.String("again and again and again")
    assert decode_flexbuffers(bytes(builder.Finish())) == ["again and again and again"] * 1000


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        pytest.param(b"", 0, id="too short"),
        pytest.param(b"\x00\x00\x03", 2, id="no width"),
        pytest.param(bytes([2, 5 << 2, 1]), 0, id="a string before the beginning"),
        pytest.param(bytes([2, 26 << 2, 1]), 0, id="a boolean of 2"),
        pytest.param(bytes([0, 0, 63 << 2, 1]), 1, id="no type"),
        pytest.param(bytes([0, 3 << 2, 1]), 0, id="a float of one byte"),
        pytest.param(bytes([2, 65, 66, 67, 3, 5 << 2, 1]), 1, id="a string without an end"),
        pytest.param(bytes([1, 0xC3, 0, 2, 5 << 2, 1]), 1, id="not UTF-8"),
        pytest.param(bytes([65, 65, 2, 4 << 2, 1]), 0, id="a key that runs into itself"),
    ],
)
def test_flexbuffers_damage_has_a_place(data: bytes, offset: int) -> None:
    with pytest.raises(FormatError) as caught:
        decode_flexbuffers(data)
    assert caught.value.offset == offset


def test_flexbuffers_keys_must_be_sorted_and_unique() -> None:
    data = encode_flexbuffers({"a": 1, "b": 2})
    for damaged in (data.replace(b"b\0", b"a\0", 1), data.replace(b"a\0", b"c\0", 1)):
        with pytest.raises(FormatError) as caught:
            decode_flexbuffers(damaged)
        assert caught.value.offset == 10  # the map


def _doubling(levels: int) -> bytes:
    """A list of two that both are the same list of two, and so on: 2**levels when unfolded."""
    data = bytearray([1, 7, 1 << 2])  # a list with the number 7
    target = 1
    for _ in range(levels):
        start = len(data) + 1
        data += bytes([2, start - target, start + 1 - target, 10 << 2, 10 << 2])
        target = start
    return bytes(data) + bytes([len(data) - target, 10 << 2, 1])


def test_flexbuffers_aliases_cannot_multiply() -> None:
    assert decode_flexbuffers(_doubling(1)) == [[7], [7]]
    started = time.process_time()
    for levels in (5, 20, 60, 100):
        with pytest.raises(FormatError):
            decode_flexbuffers(_doubling(levels))
    assert time.process_time() - started < 10


def test_flexbuffers_overlapping_blobs_cannot_multiply() -> None:
    size = 60_000
    body = b"\xff\xff" * (size // 2) + b"\0" * 70_000
    count = 10_000
    vector = len(body) + 4
    offsets = b"".join(
        struct.pack("<I", vector + 4 * index - (2 + 2 * index)) for index in range(count)
    )
    data = body + struct.pack("<I", count) + offsets + bytes([25 << 2 | 1]) * count
    data += struct.pack("<I", len(data) - vector) + bytes([10 << 2 | 2, 4])
    started = time.process_time()
    with pytest.raises(FormatError) as caught:
        decode_flexbuffers(data)
    assert caught.value.offset == 6  # the third string
    assert time.process_time() - started < 10


def test_depth_is_limited_both_ways() -> None:
    value: object = 1
    for _ in range(64):
        value = [value]
    assert decode_flexbuffers(encode_flexbuffers(value)) == value
    assert decode_msgpack(encode_msgpack(value)) == value
    for encode in (encode_flexbuffers, encode_msgpack):
        with pytest.raises(FormatError):
            encode([value])
    for depth in (65, 900, 5000):
        with pytest.raises(FormatError):
            decode_msgpack(b"\x91" * depth + b"\xc0")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x01\x01",  # one value too many
        b"\x92\x01",
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xffabc",
        b"\xa2\xc3\x28",  # not UTF-8
        b"\x82\xa1a\x01\xa1a\x02",  # a name twice
        b"\x81\x01\x02",  # a name that is a number
        b"\x81\x91\x01\x02",
        b"\xd4\x05\x00",  # an extension
        b"\xd6\xff\x00\x00\x00\x00",  # a timestamp
    ],
)
def test_msgpack_damage_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_msgpack(data)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, object(), {1: 2}, "\ud800", {"\ud800": 1}])
def test_what_cannot_be_stored_is_refused(value: object) -> None:
    for encode in (encode_flexbuffers, encode_msgpack):
        with pytest.raises(FormatError):
            encode(value)


def test_metadata_is_json_only() -> None:
    for value in (b"bytes", math.nan, math.inf, {"deep": object()}):
        with pytest.raises(FormatError, match="'name'"):
            encode_metadata({"name": value}, 2)
    with pytest.raises(FormatError):
        encode_metadata({"\ud800": 1}, 2)


def test_metadata_names_the_damaged_value() -> None:
    assert decode_metadata(None, 2) == {}
    with pytest.raises(FormatError, match="'broken'"):
        decode_metadata([MetadataItem("broken", b"\xff\xff\xff")], 2)
    with pytest.raises(FormatError, match="'a'"):
        decode_metadata([MetadataItem("a", b"\x01"), MetadataItem("a", b"\x02")], 1)


def test_plain_is_json() -> None:
    value = {"b": b"\x00\x01", "n": [math.nan, math.inf, -math.inf, 1.5], "t": ("a", None)}
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == {
        "b": "base64:AAE=",
        "n": ["nan", "inf", "-inf", 1.5],
        "t": ["a", None],
    }


@pytest.mark.parametrize("spec_version", [1, 2])
def test_mutations_of_values(spec_version: int) -> None:
    encode, decode = {
        1: (encode_msgpack, decode_msgpack),
        2: (encode_flexbuffers, decode_flexbuffers),
    }[spec_version]
    refused = 0
    for damaged in mutations(encode(RICH), 4000):
        try:
            json.dumps(plain(decode(damaged)), allow_nan=False)
        except FormatError:
            refused += 1
    assert refused > 1000


def test_mutations_of_the_official_configuration(shared_fixtures: Path) -> None:
    for file in sorted(shared_fixtures.glob("*/repo")):
        config = decode_repo(file.read_bytes()).config
        assert config is not None
        decoded = decode_flexbuffers(config)
        assert isinstance(decoded, dict)
        assert "inline_chunk_threshold_bytes" in decoded
        for damaged in mutations(config, 2000):
            try:
                decode_flexbuffers(damaged)
            except FormatError:
                continue


def test_official_package_reads_our_flexbuffers_and_we_read_its(tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk")
    storage = icechunk.local_filesystem_storage(str(tmp_path))
    repository = icechunk.Repository.create(storage)
    repository.set_metadata(RICH)
    file = tmp_path / "repo"
    info = decode_repo(file.read_bytes())
    assert decode_metadata(info.metadata, 2) == RICH

    ours = {**RICH, "from": "icectl", "": {"": None}}
    assert info.config is None
    repository.save_config()
    info = decode_repo(file.read_bytes())
    assert info.config is not None
    config = decode_flexbuffers(info.config)
    assert isinstance(config, dict)
    config["inline_chunk_threshold_bytes"] = 77
    config["manifest"] = {
        "preload": {
            "max_total_refs": 5,
            "preload_if": {"or": [{"name_matches": {"regex": "^t"}}, "true"]},
        }
    }
    changed = dataclasses.replace(
        info, metadata=encode_metadata(ours, 2), config=encode_flexbuffers(config)
    )
    file.write_bytes(encode_repo(changed))
    reopened = icechunk.Repository.open(storage)
    assert reopened.get_metadata() == ours
    assert reopened.config.inline_chunk_threshold_bytes == 77
    assert reopened.config.manifest.preload.max_total_refs == 5
    assert '"^t"' in repr(reopened.config)


def test_msgpack_is_what_the_official_package_writes(tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk")
    zarr = pytest.importorskip("zarr")
    storage = icechunk.local_filesystem_storage(str(tmp_path))
    repository = icechunk.Repository.create(storage, spec_version=1)
    session = repository.writable_session("main")
    zarr.create_group(session.store)
    snapshot_id = session.commit("metadata", metadata=RICH)
    snapshot = decode_snapshot((tmp_path / "snapshots" / snapshot_id).read_bytes())
    assert decode_metadata(snapshot.metadata, 1) == RICH
    in_their_order = {
        item.name: encode_msgpack(decode_msgpack(item.value)) for item in snapshot.metadata
    }
    assert in_their_order == {item.name: item.value for item in snapshot.metadata}
