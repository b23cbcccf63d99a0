"""Repositories that are large in nodes, or in the references of one commit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import icechunk as ic
import numpy as np
import zarr
from zarr.core.buffer import cpu

from tests.official.histories import create
from tests.official.large import CONTAINER, split_every, virtual_locations

ARRAYS_IN_GROUP = 100
CHANGED_ARRAYS = 20


def many_arrays(where: str | Path, arrays: int, commits: int) -> ic.Repository:
    """`arrays` arrays of two inline chunks, in groups of 100, and `commits` commits on main.

    The first commit writes all arrays. Each other one rewrites a chunk of 20 arrays and the
    attributes of one. The tag `first` is the first commit.
    """
    repo = create(where, 2)
    paths = [f"group{n // ARRAYS_IN_GROUP}/array{n % ARRAYS_IN_GROUP}" for n in range(arrays)]
    session = repo.writable_session("main")
    group = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode()
    groups = {path.split("/")[0] for path in paths}
    _set_all(
        session.store, {f"{path}zarr.json": group for path in ("", *(f"{g}/" for g in groups))}
    )
    _set_all(session.store, {f"{path}/zarr.json": _array_metadata(0) for path in paths})
    _set_all(session.store, {f"{path}/c/{c}": b"\1\2\3\4" for path in paths for c in (0, 1)})
    repo.create_tag("first", session.commit("all arrays"))
    for number in range(1, commits):
        session = repo.writable_session("main")
        first = number * CHANGED_ARRAYS
        chosen = [paths[(first + n) % arrays] for n in range(CHANGED_ARRAYS)]
        _set_all(session.store, {f"{path}/c/1": number.to_bytes(4) for path in chosen})
        _set_all(session.store, {f"{chosen[0]}/zarr.json": _array_metadata(number)})
        session.commit(f"commit {number}")
    return repo


def _array_metadata(number: int) -> bytes:
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [8],
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": [{"name": "bytes"}],
            "attributes": {"units": "kelvin", "number": number},
            "dimension_names": ["time"],
        }
    ).encode()


def _set_all(store: Any, values: dict[str, bytes]) -> None:
    async def write() -> None:
        items = list(values.items())
        for start in range(0, len(items), 500):
            await asyncio.gather(
                *(
                    store.set(key, cpu.Buffer.from_bytes(value))
                    for key, value in items[start : start + 500]
                )
            )

    asyncio.run(write())


def virtual_refs_in_one_commit(where: str | Path, n: int, manifests: int) -> ic.Repository:
    """The tag `before` has an empty array; the commit after it writes `n` references.

    They are virtual and fill `manifests` manifests.
    """
    container = ic.VirtualChunkContainer(CONTAINER, ic.s3_store(region="us-east-1"))
    repo = create(
        where,
        manifest=ic.ManifestConfig(splitting=split_every(-(-n // manifests))),
        virtual_chunk_containers={CONTAINER: container},
    )
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        "v", shape=(n * 100,), chunks=(100,), dtype="f4", compressors=None
    )
    repo.create_tag("before", session.commit("array"))
    session = repo.writable_session("main")
    rejected = session.store.set_virtual_refs_arr(
        "v",
        (n,),
        virtual_locations(n, max(1, n // 100)),
        np.arange(n, dtype="u8") % 100 * 400 + 8,
        np.full(n, 400, dtype="u8"),
    )
    assert rejected is None
    session.commit("virtual references")
    return repo
