"""What a manifest keeps: chunks may share a file, never their bytes."""

from __future__ import annotations

import numpy as np
import pytest

from icectl.errors import UnsupportedError
from icectl.format.manifest import encode_manifest
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans
from icectl.ops.gc.marking import ManifestClaim, mark_manifest, mark_snapshot

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


def test_a_file_of_another_generation_is_named() -> None:
    """Bytes that begin like MessagePack could be of an old repository, but not in this one."""
    data = b"\x93" * 40
    with pytest.raises(UnsupportedError, match=f"manifests/{ID}: ") as caught:
        mark_manifest(data, ManifestClaim(ID, len(data), 1))
    assert "damaged" in str(caught.value.hint)
    with pytest.raises(UnsupportedError, match=f"snapshots/{ID}: "):
        mark_snapshot(data, SnapshotId(ID))
