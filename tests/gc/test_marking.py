"""What a manifest keeps: chunks may share a file, never their bytes."""

from __future__ import annotations

import numpy as np
import pytest

from icectl.checks.manifest import ManifestClaim
from icectl.errors import FormatError, Remedy, UnsupportedError
from icectl.format.envelope import FileType, decode_envelope, encode_envelope
from icectl.format.manifest import encode_manifest
from icectl.format.reader import Reader
from icectl.format.schema import MANIFEST
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans
from icectl.pipeline.id_columns import id_set
from icectl.pipeline.objects import Garbage, ObjectKind
from icectl.pipeline.references import mark_manifest, mark_snapshot
from tests.failures import raises

ID = ManifestId(bytes(range(12)))


def manifest_of(ids: list[int], offsets: list[int]) -> bytes:
    count = len(ids)
    chunk_id = np.zeros((count, 12), np.uint8)
    chunk_id[:, 0] = ids
    empty = np.zeros(count, np.uint32)
    refs = ChunkRefs(
        np.arange(count, dtype=np.uint32).reshape(count, 1),
        np.full(count, RefKind.NATIVE, np.uint8),
        chunk_id,
        np.array(offsets, np.uint64),
        np.full(count, 10, np.uint64),
        Spans(b"\0", empty, empty),
        None,
        None,
        None,
    )
    return encode_manifest(Manifest(2, ID, (ArrayManifest(NodeId(bytes(8)), refs),)))


@pytest.mark.parametrize("count", [3, 500])
def test_chunks_that_share_a_file_are_kept(count: int) -> None:
    data = manifest_of([7] * count, [10 * number for number in range(count)])
    marked = mark_manifest(data, ManifestClaim(ID, len(data), count))
    assert marked.end is not None
    assert int(marked.end.max()) == 10 * count


@pytest.mark.parametrize("count", [3, 200])
def test_two_references_to_the_same_bytes_are_kept(count: int) -> None:
    """The official reindex_array leaves such, and no flipped bit was seen to make one."""
    ids = list(range(count))
    ids[1] = ids[0]
    data = manifest_of(ids, [0] * count)
    assert len(mark_manifest(data, ManifestClaim(ID, len(data), count)).ids) == count


def with_tables_at(data: bytes, order: list[int]) -> bytes:
    """The same manifest, whose nth reference is the table of the reference `order[n]`."""
    payload = bytearray(decode_envelope(data).payload)
    start, count = Reader(payload).read_root(MANIFEST).arrays[0].refs
    slots = np.arange(start, start + 4 * count, 4, dtype=np.uint32)
    offsets = np.frombuffer(payload, "<u4", count, start)
    payload[start : start + 4 * count] = ((slots + offsets)[order] - slots).astype("<u4").tobytes()
    return encode_envelope(payload, FileType.MANIFEST, 2)


@pytest.mark.parametrize("count", [4, 200, 20_000])
@pytest.mark.parametrize("step", [1, -1])
def test_an_offset_bent_to_another_reference(count: int, step: int) -> None:
    """It would hide the reference that belongs there, whichever way the writer lays them."""
    data = manifest_of([number % 256 for number in range(count)], [0] * count)
    order = list(range(count))[::step]
    mixed = [*order[count // 2 :], *order[: count // 2]]
    for harmless in (order, mixed):
        laid = with_tables_at(data, harmless)
        marked = mark_manifest(laid, ManifestClaim(ID, len(laid), count))
        assert sorted(marked.ids.to_bytes()) == sorted(
            mark_manifest(data, ManifestClaim(ID, len(data), count)).ids.to_bytes()
        )
    for bent, onto in ((0, 1), (count - 1, 0), (count // 2, count // 2 - 1)):
        places = list(order)
        places[bent] = order[onto]
        laid = with_tables_at(data, places)
        with raises(FormatError, path=f"manifests/{ID}"):
            mark_manifest(laid, ManifestClaim(ID, len(laid), count))


def test_a_file_of_another_generation_is_named() -> None:
    """Bytes that begin like MessagePack could be of an old repository, but not in this one."""
    data = b"\x93" * 40
    with pytest.raises(UnsupportedError, match=f"manifests/{ID}: ") as caught:
        mark_manifest(data, ManifestClaim(ID, len(data), 1))
    assert caught.value.hint == Remedy("validate-unknown-version")
    with pytest.raises(UnsupportedError, match=f"snapshots/{ID}: "):
        mark_snapshot(data, SnapshotId(ID))


@pytest.mark.parametrize("sizes", [[5] * 30, list(range(30)), [1, 9, 9, 9, 2] * 6, [3, 1], []])
def test_the_largest_are_told_by_size_and_id(sizes: list[int]) -> None:
    """As Spark does it: of equal ones those of the smallest ids."""
    ids = id_set(number.to_bytes(12, "big") for number in range(len(sizes)))
    size = np.array(sizes, np.int64)
    found = Garbage(ObjectKind.CHUNK, ids, size, size).largest(4)
    expected = sorted(range(len(sizes)), key=lambda row: (-sizes[row], row))[:4]
    assert found.ids.to_bytes() == [row.to_bytes(12, "big") for row in sorted(expected)]
