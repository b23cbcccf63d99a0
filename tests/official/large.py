"""Large repositories from the official package, quickly.

Learnt about its API (2.3.0):
- Raw keys (`await store.set("arr/c/17", buffer)`) skip zarr's codecs; a few hundred at once.
- With `inline_chunk_threshold_bytes=0` even a chunk of one byte becomes a native file.
- `set_virtual_refs_arr` takes whole numpy columns; locations must be under a container of the
  config unless `validate_containers=False`.
- Locations are dictionary-compressed from 1,000 references of a manifest on, in V2 only;
  `ManifestVirtualChunkLocationCompressionConfig(min_num_chunks=...)` moves that.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import icechunk as ic
import numpy as np
import zarr
from zarr.core.buffer import cpu

from icectl.model.snapshot import ArrayNodeData, ChunkIndexRange
from tests.official.histories import commit, create
from tests.official.reading import Where, open_official

CONTAINER = "s3://archive/"


def set_raw_chunks(store: Any, path: str, indices: range, payload: bytes) -> None:
    buffer = cpu.Buffer.from_bytes(payload)

    async def write() -> None:
        for start in range(0, len(indices), 500):
            batch = indices[start : start + 500]
            await asyncio.gather(*(store.set(f"{path}/c/{index}", buffer) for index in batch))

    asyncio.run(write())


def many_native_chunks(
    where: Where, n: int, spec_version: int = 2, *, overwritten: int = 0, payload: bytes = b"x"
) -> ic.Repository:
    """One array of `n` native chunks; the first `overwritten` of them written twice.

    The first write is a commit that is reset away: its chunks, manifest, transaction log and
    snapshot are garbage at once.
    """
    repo = create(where, spec_version, inline_chunk_threshold_bytes=0)
    size = len(payload)
    with commit(repo, "array") as root:
        root.create_array("a", shape=(n * size,), chunks=(size,), dtype="u1", compressors=None)
    before = repo.lookup_branch("main")
    session = repo.writable_session("main")
    if overwritten:
        set_raw_chunks(session.store, "a", range(overwritten), payload)
        session.commit("chunks that are garbage soon")
        repo.reset_branch("main", before)
        session = repo.writable_session("main")
    set_raw_chunks(session.store, "a", range(n), payload)
    session.commit("chunks")
    return repo


def virtual_locations(n: int, files: int) -> list[str]:
    names = [
        f"{CONTAINER}reanalysis/hourly/{1950 + i % 75}/surface-temperature-{i:06d}.nc"
        for i in range(files)
    ]
    return [names[i * files // n] for i in range(n)]


def many_virtual_refs(
    where: Where,
    n: int,
    spec_version: int = 2,
    *,
    files: int | None = None,
    split: int | None = None,
    compress: bool = True,
) -> ic.Repository:
    """One array of `n` virtual references into `files` objects; `split` refs per manifest.

    The objects do not exist (`s3://archive/…`): for decoding, listing and diffs, not reading.
    """
    manifest = ic.ManifestConfig(
        splitting=split_every(split) if split else None,
        virtual_chunk_location_compression=ic.ManifestVirtualChunkLocationCompressionConfig(
            min_num_chunks=1000 if compress else 2**31
        ),
    )
    container = ic.VirtualChunkContainer(CONTAINER, ic.s3_store(region="us-east-1"))
    repo = create(
        where, spec_version, manifest=manifest, virtual_chunk_containers={CONTAINER: container}
    )
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        "v", shape=(n * 100,), chunks=(100,), dtype="f4", compressors=None
    )
    rejected = session.store.set_virtual_refs_arr(
        "v",
        (n,),
        virtual_locations(n, files or max(1, n // 100)),
        np.arange(n, dtype="u8") % 100 * 400 + 8,
        np.full(n, 400, dtype="u8"),
    )
    assert rejected is None
    session.commit("virtual references")
    return repo


def split_every(chunks: int) -> ic.ManifestSplittingConfig:
    return ic.ManifestSplittingConfig.from_dict(
        {ic.ManifestSplitCondition.AnyArray(): {ic.ManifestSplitDimCondition.Any(): chunks}}
    )


def many_small_manifests(
    where: Where, n: int, spec_version: int = 2, *, refs_per_manifest: int = 10
) -> ic.Repository:
    """`n` manifests of `refs_per_manifest` native references each, of one split array."""
    repo = create(
        where,
        spec_version,
        inline_chunk_threshold_bytes=0,
        manifest=ic.ManifestConfig(splitting=split_every(refs_per_manifest)),
    )
    chunks = n * refs_per_manifest
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        "a", shape=(chunks,), chunks=(1,), dtype="u1", compressors=None
    )
    set_raw_chunks(session.store, "a", range(chunks), b"x")
    session.commit("many small manifests")
    return repo


def synthetic_native_refs(
    where: str | Path, n: int, *, seed: int = 0, expired: bool = False
) -> ic.Repository:
    """One array of `n` native references, whose chunks do not exist, in an official manifest.

    A million chunk files take many minutes to write. Here the manifest of a one-chunk array is
    replaced by one of ours with random ids, which `rewrite_manifests` then writes again, so
    that the file is laid out by the official writer. It is the largest in `manifests/`. With
    `expired` no version refers to the other one any more.
    """
    from icectl.format.manifest import decode_manifest, encode_manifest
    from icectl.format.snapshot import decode_snapshot, encode_snapshot

    repo = create(where, 2, inline_chunk_threshold_bytes=0)
    with commit(repo, "array") as root:
        root.create_array("a", shape=(n,), chunks=(1,), dtype="u1", compressors=None)[0] = 1
    snapshot_file = Path(where) / "snapshots" / repo.lookup_branch("main")
    snapshot = decode_snapshot(snapshot_file.read_bytes())
    (info,) = snapshot.all_manifest_files
    manifest_file = Path(where) / "manifests" / str(info.id)
    manifest = decode_manifest(manifest_file.read_bytes())
    (array,) = manifest.arrays
    zeros = np.zeros(n, "u4")
    refs = replace(
        array.refs,
        coordinates=np.arange(n, dtype="u4").reshape(n, 1),
        kind=np.zeros(n, "u1"),
        chunk_id=np.random.default_rng(seed).integers(0, 256, (n, 12), "u1"),
        offset=np.zeros(n, "u8"),
        length=np.ones(n, "u8"),
        content=replace(array.refs.content, start=zeros, length=zeros),
    )
    data = encode_manifest(replace(manifest, arrays=(replace(array, refs=refs),)))
    manifest_file.write_bytes(data)
    info = replace(info, size_bytes=len(data), num_chunk_refs=n)
    nodes = tuple(_with_extent(node, n) for node in snapshot.nodes)
    snapshot = replace(snapshot, nodes=nodes, manifest_files=(), manifest_files_v2=(info,))
    snapshot_file.write_bytes(encode_snapshot(snapshot))
    repo = open_official(where)
    repo.rewrite_manifests("written by the official package", branch="main")
    if expired:
        repo.expire_snapshots(datetime.now(UTC))
    return repo


def _with_extent(node: Any, chunks: int) -> Any:
    data = node.node_data
    if not isinstance(data, ArrayNodeData):
        return node
    (ref,) = data.manifests
    ref = replace(ref, extents=(ChunkIndexRange(0, chunks),))
    return replace(node, node_data=replace(data, manifests=(ref,)))
