"""Millions of references in many manifests, written by icectl's own column encoder.

The official package would write a chunk file for each; here the files of a one-chunk array are
replaced. Its chunks do not exist: for tables, gc plans and scans, not for reading arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import icechunk as ic
import numpy as np

from icectl.format.manifest import decode_manifest, encode_manifest
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.model.ids import ManifestId
from icectl.model.manifest import Manifest
from icectl.model.snapshot import ArrayNodeData, ChunkIndexRange, ManifestFileInfo, ManifestRef
from tests.official.histories import commit, create
from tests.official.reading import open_official


def native_refs_in_manifests(
    where: str | Path, n: int, refs_per_manifest: int = 100_000, *, seed: int = 0
) -> ic.Repository:
    """One array `/a` of `n` native references, on main."""
    repo = create(where, 2, inline_chunk_threshold_bytes=0)
    with commit(repo, "array") as root:
        root.create_array("a", shape=(n,), chunks=(1,), dtype="u1", compressors=None)[0] = 1
    file = Path(where) / "snapshots" / repo.lookup_branch("main")
    snapshot = decode_snapshot(file.read_bytes())
    (one,) = snapshot.all_manifest_files
    manifests = Path(where) / "manifests"
    pattern = decode_manifest((manifests / str(one.id)).read_bytes())
    (manifests / str(one.id)).unlink()
    infos, refs = [], []
    for manifest, start, end in _manifests(pattern, n, refs_per_manifest, seed):
        data = encode_manifest(manifest)
        (manifests / str(manifest.id)).write_bytes(data)
        infos.append(ManifestFileInfo(manifest.id, len(data), end - start))
        refs.append(ManifestRef(manifest.id, (ChunkIndexRange(start, end),)))
    nodes = tuple(
        replace(node, node_data=replace(node.node_data, manifests=tuple(refs)))
        if isinstance(node.node_data, ArrayNodeData)
        else node
        for node in snapshot.nodes
    )
    snapshot = replace(snapshot, nodes=nodes, manifest_files=(), manifest_files_v2=tuple(infos))
    file.write_bytes(encode_snapshot(snapshot))
    return open_official(where)


def _manifests(
    pattern: Manifest, n: int, refs_per_manifest: int, seed: int
) -> Iterator[tuple[Manifest, int, int]]:
    random: Any = np.random.default_rng(seed)
    (array,) = pattern.arrays
    for start in range(0, n, refs_per_manifest):
        end = min(n, start + refs_per_manifest)
        count = end - start
        none = np.zeros(count, "u4")
        refs = replace(
            array.refs,
            coordinates=np.arange(start, end, dtype="u4").reshape(count, 1),
            kind=np.zeros(count, "u1"),
            chunk_id=random.integers(0, 256, (count, 12), "u1"),
            offset=np.zeros(count, "u8"),
            length=random.integers(1, 2**22, count, "u8"),
            content=replace(array.refs.content, start=none, length=none),
        )
        id_ = ManifestId(random.bytes(12))
        yield replace(pattern, id=id_, arrays=(replace(array, refs=refs),)), start, end
