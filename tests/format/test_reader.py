"""The reader believes nothing: newer writers, bombs, and crafted damage."""

from __future__ import annotations

import struct
import time
from collections import namedtuple

import pytest
import zstandard

from icectl.errors import FormatError, LimitExceededError, UnsupportedError
from icectl.format import schema
from icectl.format.envelope import (
    HEADER_SIZE,
    MAGIC,
    FileType,
    Generation,
    decode_envelope,
    encode_envelope,
)
from icectl.format.kinds import Scalar, String, Strings, Union
from icectl.format.reader import Field, Reader, Table
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.writer import Writer
from icectl.model.ids import INITIAL_SNAPSHOT_ID
from icectl.model.repo import Ref, RepoInfo, RepoStatus, SnapshotInfo, UnknownUpdate, Update
from tests.format.newer import newer

INFO = RepoInfo(
    spec_version=2,
    tags=(),
    branches=(Ref("main", INITIAL_SNAPSHOT_ID),),
    deleted_tags=(),
    snapshots=(SnapshotInfo(INITIAL_SNAPSHOT_ID, None, 1, "first"),),
    status=RepoStatus(0, 1),
    metadata=None,
    latest_updates=(),
)


def repo_payload(**replaced: object) -> schema.RawRepo:
    raw = Reader(decode_envelope(encode_repo(INFO)).payload).read_root(schema.REPO)
    return raw._replace(**replaced)


def test_unknown_fields_are_tolerated_shown_and_never_dropped() -> None:
    table, build = newer(schema.REPO, Field("shiny", String()), Field("count", Scalar("Q")))
    payload = Writer().write_root(table, build(*repo_payload(), "new", 7))
    info = decode_repo(encode_envelope(payload, FileType.REPO_INFO, 2))
    assert info.branches == INFO.branches
    assert [(field.table, field.slot) for field in info.unknown_fields] == [
        ("Repo", 13),
        ("Repo", 14),
    ]
    with pytest.raises(UnsupportedError, match="Repo field 13, Repo field 14") as refused:
        encode_repo(info)
    assert refused.value.exit_code == 15


def test_unknown_union_members_are_tolerated_shown_and_never_dropped() -> None:
    surprise = namedtuple("SurpriseUpdate", "name")
    member = Table("SurpriseUpdate", surprise, [Field("name", String(), True)])
    union = Union((*schema.UPDATE_TYPES, member), UnknownUpdate)
    update = Table("Update", Update, [Field("update_type", union, True), *schema.UPDATE.fields[1:]])
    fields = [
        Field("latest_updates", type(field.kind)(update), True)  # type: ignore[call-arg]
        if field.name == "latest_updates"
        else field
        for field in schema.REPO.fields
    ]
    raw = repo_payload(latest_updates=(Update(surprise("x"), 5),))  # type: ignore[arg-type]
    payload = Writer().write_root(Table("Repo", schema.RawRepo, fields), raw)
    info = decode_repo(encode_envelope(payload, FileType.REPO_INFO, 2))
    assert info.latest_updates == (Update(UnknownUpdate(17), 5),)
    with pytest.raises(UnsupportedError):
        encode_repo(info)


def test_a_missing_required_field_is_named() -> None:
    fields = [Field(field.name, field.kind) for field in schema.REPO.fields]
    payload = Writer().write_root(
        Table("Repo", schema.RawRepo, fields), repo_payload(branches=None)
    )
    with pytest.raises(FormatError, match=r"Repo\.branches"):
        decode_repo(encode_envelope(payload, FileType.REPO_INFO, 2))


def test_one_string_referred_to_a_million_times_is_no_bomb() -> None:
    """A vector of offsets that all point to the same large string."""
    table = Table("Repo", tuple, [Field("deleted_tags", Strings(), True)])
    count, length = 20_000, 1_000_000
    out = bytearray(Writer().write_root(table, namedtuple("R", "deleted_tags")(("",))))
    root = struct.unpack_from("<I", out, 0)[0]
    slot = root + 4
    out += bytes(-len(out) % 4)
    struct.pack_into("<I", out, slot, len(out) - slot)
    start = len(out) + 4
    out += struct.pack("<I", count)
    text = start + 4 * count
    for index in range(count):
        out += struct.pack("<I", text - (start + 4 * index))
    out += struct.pack("<I", length) + b"x" * length + b"\0"
    begun = time.process_time()
    with pytest.raises(LimitExceededError) as caught:
        Reader(bytes(out)).read_root(table)
    assert caught.value.limit == "READS_PER_BYTE"
    assert time.process_time() - begun < 2


def test_a_zstd_bomb_stops_at_the_limit() -> None:
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(300 * 2**20))
    header = encode_envelope(b"", FileType.MANIFEST, 2)[:HEADER_SIZE]
    assert len(bomb) < 100_000
    with pytest.raises(LimitExceededError) as caught:
        decode_envelope(header + bomb)
    assert caught.value.limit == "PAYLOAD_RATIO"


def test_bytes_behind_the_frame() -> None:
    with pytest.raises(FormatError) as error:
        decode_envelope(encode_repo(INFO) + b"!")
    assert error.value.offset == len(encode_repo(INFO))


def test_the_draft_header_of_27_bytes() -> None:
    payload = zstandard.ZstdCompressor().compress(b"\x93\x01\x02\x03")
    draft = MAGIC + b"ic-0.1.0-a.8" + bytes((1, 1, 1)) + payload
    envelope = decode_envelope(draft)
    assert envelope.generation is Generation.ALPHA_BINARY
    assert envelope.header is not None
    assert envelope.header.implementation == "ic-0.1.0-a.8"
    assert envelope.payload == b"\x93\x01\x02\x03"


@pytest.mark.parametrize(
    ("position", "value"),
    [(36, 0), (37, 77), (38, 5)],
    ids=["spec version", "file type", "compression"],
)
def test_a_wrong_header_byte_is_named(position: int, value: int) -> None:
    data = bytearray(encode_repo(INFO))
    data[position] = value
    with pytest.raises(FormatError) as error:
        decode_envelope(bytes(data))
    assert error.value.offset == position


def test_a_newer_spec_version_is_unsupported() -> None:
    data = bytearray(encode_repo(INFO))
    data[36] = 3
    with pytest.raises(UnsupportedError):
        decode_repo(bytes(data))


def test_the_wrong_kind_of_file() -> None:
    from icectl.format.snapshot import decode_snapshot

    with pytest.raises(FormatError) as error:
        decode_snapshot(encode_repo(INFO))
    assert error.value.offset == 37  # the type of the file


def test_overlapping_fields_are_damage() -> None:
    payload = bytearray(decode_envelope(encode_repo(INFO)).payload)
    root = struct.unpack_from("<I", payload, 0)[0]
    vtable = root - struct.unpack_from("<i", payload, root)[0]
    tags, branches = vtable + 6, vtable + 8
    payload[branches : branches + 2] = payload[tags : tags + 2]
    with pytest.raises(FormatError) as error:
        decode_repo(encode_envelope(payload, FileType.REPO_INFO, 2))
    assert error.value.offset == vtable


def test_a_ref_to_a_snapshot_that_is_not_there() -> None:
    raw = repo_payload(branches=(schema.RawRef("main", 5),))
    payload = Writer().write_root(schema.REPO, raw)
    with pytest.raises(FormatError, match="'main'"):
        decode_repo(encode_envelope(payload, FileType.REPO_INFO, 2))
