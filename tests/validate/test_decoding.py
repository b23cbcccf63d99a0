"""`validate --decode` on whatever codecs healthy arrays have: nothing is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs.zarr3 as numcodecs_zarr3
import numpy as np
import pytest
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from icectl.checks.rules import Level
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.storage.local import LocalStorage
from tests.official.histories import commit, create

COMPRESSORS: dict[str, Any] = {
    "zstd": ZstdCodec(),
    "gzip": GzipCodec(),
    "blosc": BloscCodec(),
    "two": (ZstdCodec(), GzipCodec()),
    "none": None,
}


@pytest.mark.filterwarnings("ignore")
def test_healthy_codecs(tmp_path: Path) -> None:
    repo = create(tmp_path / "repo")
    with commit(repo, "arrays") as root:
        for name, compressors in COMPRESSORS.items():
            plain = root.create_array(
                name, shape=(4096,), chunks=(1024,), dtype="i8", compressors=compressors
            )
            plain[:] = np.arange(4096)
            # Equal values compress a thousand times and more.
            equal = root.create_array(
                f"{name}_equal",
                shape=(2**22,),
                chunks=(2**22,),
                dtype="i8",
                compressors=compressors,
            )
            equal[:] = 7
        shards = root.create_array(
            "shards", shape=(4096,), shards=(2048,), chunks=(64,), dtype="f8"
        )
        shards[:] = np.linspace(0, 1, 4096)
        for name in ("LZ4", "Zlib", "BZ2", "LZMA", "Zstd", "Blosc", "GZip"):
            other = root.create_array(
                f"numcodecs_{name}",
                shape=(512,),
                chunks=(256,),
                dtype="i8",
                compressors=getattr(numcodecs_zarr3, name)(),
            )
            other[:] = np.arange(512)
        text = root.create_array("text", shape=(64,), chunks=(16,), dtype=str)
        text[:] = np.array([f"number {i}" * 20 for i in range(64)])
        fixed = root.create_array("fixed", shape=(64,), chunks=(16,), dtype="U8")
        fixed[:] = np.array([f"n{i}" for i in range(64)])
    settings = ValidateOptions(level=Level.DATA, decode=True)
    result, _ = validate(LocalStorage(tmp_path / "repo"), settings)
    assert result.findings == ()
    assert result.checked.chunks_read > 20
