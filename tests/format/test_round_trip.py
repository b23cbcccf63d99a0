"""`decode(encode(x)) == x` for arbitrary values of all four kinds, in both spec versions."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from icectl.format.manifest import decode_locations, decode_manifest, encode_manifest
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.format.transaction_log import decode_transaction_log, encode_transaction_log
from icectl.model import repo as r
from icectl.model import snapshot as s
from icectl.model.ids import ManifestId, NodeId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans
from icectl.model.transaction_log import TransactionLog
from tests.format.strategies import (
    FAST,
    logs,
    manifests,
    repos,
    snapshots,
)


@FAST
@given(repos())
def test_repo(info: r.RepoInfo) -> None:
    assert decode_repo(encode_repo(info)) == info


@FAST
@given(snapshots)
def test_snapshot(snapshot: s.Snapshot) -> None:
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@FAST
@given(logs)
def test_transaction_log(log: TransactionLog) -> None:
    assert decode_transaction_log(encode_transaction_log(log)) == log


def comparable(manifest: Manifest) -> object:
    def column(value: object) -> object:
        if value is None:
            return None
        if isinstance(value, Spans):
            return value.to_list(), (value.start > 0).tolist()
        assert isinstance(value, np.ndarray)
        return value.shape, value.tolist()

    return (
        manifest.spec_version,
        manifest.id,
        manifest.location_dictionary,
        manifest.compression_algorithm,
        manifest.extra,
        [
            (
                array.node_id,
                array.extra,
                [column(getattr(array.refs, name)) for name in ChunkRefs.__slots__],
            )
            for array in manifest.arrays
        ],
    )


@FAST
@given(manifests)
def test_manifest(manifest: Manifest) -> None:
    assert comparable(decode_manifest(encode_manifest(manifest))) == comparable(manifest)


def test_references_are_written_sorted() -> None:
    refs = ChunkRefs(
        np.array([[2], [0], [1]], np.uint32),
        np.full(3, RefKind.VIRTUAL, np.uint8),
        np.zeros((3, 12), np.uint8),
        np.array([2, 0, 1], np.uint64),
        np.zeros(3, np.uint64),
        Spans(b"\0cab", np.array([1, 2, 3], np.uint32), np.ones(3, np.uint32)),
        None,
        None,
        None,
    )
    manifest = Manifest(2, ManifestId(bytes(12)), (ArrayManifest(NodeId(bytes(8)), refs),))
    read = decode_manifest(encode_manifest(manifest))
    assert read.arrays[0].refs.coordinates.tolist() == [[0], [1], [2]]
    assert read.arrays[0].refs.offset.tolist() == [0, 1, 2]
    assert decode_locations(read, read.arrays[0].refs) == ["a", "b", "c"]
