"""Inline chunks, whose bytes are in the manifest, are decoded as chunk files are."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from icectl.checks.rules import Level
from icectl.ops.validate.report import Finding
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.pipeline.engine import ChooseEngine
from icectl.pipeline.local_engine import local_engine
from icectl.storage.local import LocalStorage
from tests.official import built, copied, zarr
from tests.official.histories import commit, create
from tests.validate.damage import Patient


def build(where: Path, spec_version: int) -> None:
    repo = create(where, spec_version, inline_chunk_threshold_bytes=512)
    with commit(repo, "arrays") as root:
        root.create_array("packed", shape=(64, 8), chunks=(32, 8), dtype="i8")[...] = 5
        plain = root.create_array("plain", shape=(8,), chunks=(4,), dtype="i8", compressors=None)
        plain[...] = np.arange(8)
    with commit(repo, "resized") as root:
        root["packed"].resize((96, 8))
        root["packed"][64:] = 6


@pytest.fixture(params=[1, 2])
def patient(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Patient:
    whole = built(tmp_path_factory, build, request.param)
    assert not (whole / "chunks").exists() or not list((whole / "chunks").iterdir())
    return Patient(copied(whole, tmp_path / "repo"))


def found(
    patient: Patient, *, decode: bool = True, choose_engine: ChooseEngine = local_engine
) -> dict[str, Finding]:
    options = ValidateOptions(level=Level.DATA, decode=decode, choose_engine=choose_engine)
    result, _ = validate(LocalStorage(patient.where), options)
    return {finding.code: finding for finding in result.findings}


def spoil(refs: list[object]) -> None:
    for ref in refs[1:]:
        ref.inline = bytes(len(ref.inline))  # type: ignore[attr-defined]


def test_sound(patient: Patient) -> None:
    assert found(patient) == {}


def test_damaged_bytes(patient: Patient, choose_engine: ChooseEngine) -> None:
    patient.manifest("/packed", spoil)
    finding = found(patient, choose_engine=choose_engine)["ICE0502"]
    assert finding.object == f"manifests/{patient.manifest_of('/packed')}"
    assert finding.path == "/packed"
    assert finding.severity == "error"
    assert finding.branches == ("main",)
    assert finding.detail.startswith("the inline chunk [1, 0], and 1 more: ")
    assert str(finding.last_sound_version) == patient.history[1]
    assert "ICE0502" not in found(patient, decode=False)


def test_bytes_cut_off(patient: Patient) -> None:
    """Without compression, only the number of bytes can be wrong."""

    def cut(refs: list[object]) -> None:
        refs[0].inline = refs[0].inline[:-1]  # type: ignore[attr-defined]

    patient.manifest("/plain", cut)
    assert found(patient)["ICE0502"].detail.startswith("the inline chunk [0]: ")


@pytest.mark.parametrize("inline_limit", [0, 512])
def test_codecs_and_type_changed_in_place(tmp_path: Path, inline_limit: int) -> None:
    """The node stays: each version's chunks are decoded by a zarr.json that applies to them."""
    repo = create(tmp_path, inline_chunk_threshold_bytes=inline_limit)
    with commit(repo, "packed") as root:
        root.create_array("x", shape=(8,), chunks=(4,), dtype="i8")[...] = 5
    session = repo.writable_session("main")
    prototype = zarr.core.buffer.default_buffer_prototype()

    async def change() -> None:
        stored = await session.store.get("x/zarr.json", prototype)
        assert stored is not None
        document = json.loads(stored.to_bytes())
        document |= {"codecs": document["codecs"][:1], "data_type": "int16"}
        data = zarr.core.buffer.cpu.Buffer.from_bytes(json.dumps(document).encode())
        await session.store.set("x/zarr.json", data)

    asyncio.run(change())
    zarr.open_array(session.store, path="x")[...] = 7
    session.commit("plain")
    patient = Patient(tmp_path)
    assert found(patient) == {}
    if inline_limit:
        patient.manifest("/x", spoil)
        assert "ICE0502" not in found(patient)  # any bytes of the right number will do
    else:
        old = min((tmp_path / "chunks").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        old.write_bytes(bytes(old.stat().st_size))
        assert found(patient)["ICE0502"].path == "/x"


def test_codec_that_is_not_installed(patient: Patient) -> None:
    for snapshot_id in patient.history[:2]:
        patient.node(
            "/packed",
            lambda node: replace(node, user_data=node.user_data.replace(b'"zstd"', b'"nope"')),
            snapshot_id,
        )
    codes = found(patient)
    assert codes["ICE0503"].path == "/packed"
    assert "ICE0502" not in codes
