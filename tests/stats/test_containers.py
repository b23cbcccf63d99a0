"""Locations relative to a virtual chunk container, `vcc://NAME/path`, in every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.ops.stats.result import ContainerStats
from icectl.ops.stats.run import StatsOptions, measure
from icectl.pipeline.engine import ChooseEngine
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.official import ic, open_official, zarr
from tests.official.histories import create

Capture = pytest.CaptureFixture[str]


@pytest.fixture(params=[1, 2])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    where = tmp_path / "repo"
    relative_locations(where, request.param)
    return where


def relative_locations(where: Path, spec_version: int) -> None:
    """Chunks in two files of a container, by relative and by absolute locations."""
    source = where.parent / "files"
    source.mkdir()
    for name in ("one.bin", "two and a half.bin"):
        (source / name).write_bytes(bytes(range(64)))
    prefix = f"file://{source}/"
    container = ic.VirtualChunkContainer(prefix, ic.local_filesystem_store(str(source)), "files")
    repo = create(where, spec_version, virtual_chunk_containers={prefix: container})
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array("array", shape=(32,), chunks=(8,), dtype="u1", compressors=None)
    refs = [
        ic.VirtualChunkSpec([0], "vcc://files/one.bin", 0, 8),
        ic.VirtualChunkSpec([1], "vcc://files/two%20and%20a%20half.bin", 8, 8),
        ic.VirtualChunkSpec([2], f"{prefix}one.bin", 16, 8),
        ic.VirtualChunkSpec([3], f"{prefix}one.bin", 0, 8),
    ]
    assert session.store.set_virtual_refs("array", refs) is None
    session.commit("virtual")
    assert root["array"][:].tolist() == [*range(24), *range(8)]


def answer(arguments: list[str], capsys: Capture) -> tuple[int, dict[str, Any]]:
    code = run([*arguments, "--json"], {})
    return code, json.loads(capsys.readouterr().out)


def test_sources_are_found(repository: Path, capsys: Capture) -> None:
    command = ["validate", "-r", str(repository), "--level", "chunks", "--virtual"]
    command += ["--allow-source", f"file://{repository.parent}/files"]
    code, document = answer([*command, "--fail-on", "warning"], capsys)
    assert (code, document["findings"]) == (0, [])
    assert document["checked"]["virtual_sources"] == 2


def test_sources_are_looked_at(repository: Path, capsys: Capture) -> None:
    source = repository.parent / "files"
    (source / "one.bin").write_bytes(bytes(10))
    (source / "two and a half.bin").unlink()
    command = ["validate", "-r", str(repository), "--virtual", "--allow-source", "file:///"]
    code, document = answer(command, capsys)
    assert code == 3
    assert [finding["code"] for finding in document["findings"]] == ["ICE0601", "ICE0602"]


def test_counted_under_their_container(repository: Path, choose_engine: ChooseEngine) -> None:
    options = StatsOptions(choose_engine=choose_engine)
    result = measure(open_repository(LocalStorage(repository)), options)
    # The first and the last reference name the same bytes, in two ways.
    prefix = f"file://{repository.parent}/files/"
    expected = ContainerStats(prefix, configured=True, bytes=24, num_chunks=3, num_objects=2)
    assert result.containers == (expected,)
    assert result.virtual_bytes == 24


def test_name_that_no_container_has(repository: Path, capsys: Capture) -> None:
    repo = open_official(repository)
    config = repo.config
    config.clear_virtual_chunk_containers()
    ic.Repository.open(ic.local_filesystem_storage(str(repository)), config=config).save_config()
    command = ["validate", "-r", str(repository), "--virtual", "--fail-on", "warning"]
    code, document = answer(command, capsys)
    assert code == 3
    found = {(finding["code"], finding["object"]) for finding in document["findings"]}
    assert found == {("ICE0604", "vcc://files/"), ("ICE0604", "file:///")}
    _, document = answer(["stats", "-r", str(repository)], capsys)
    assert [(one["url_prefix"], one["configured"]) for one in document["containers"]] == [
        ("file:///", False),
        ("vcc://files/", False),
    ]
