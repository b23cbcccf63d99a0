"""What the reading commands say is what the official package says, V1 and V2."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from icectl.render.json import to_json
from tests.command_line import Icectl

official = pytest.importorskip("tests.official")


@pytest.fixture(scope="module", params=[1, 2], ids=["v1", "v2"])
def zoo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return official.built(tmp_path_factory, official.build_zoo, request.param)


def microseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)


def test_log(icectl: Icectl, zoo: Path) -> None:
    theirs = official.open_official(zoo)
    for ref in ["main", *sorted(theirs.list_branches())]:
        document = icectl("log", ref, "--json", "-r", str(zoo)).document
        assert document["ref"] == ref
        ancestry = list(theirs.ancestry(branch=ref))
        assert [(entry["id"], entry["parent_id"]) for entry in document["snapshots"]] == [
            (info.id, info.parent_id) for info in ancestry
        ]
        for ours, info in zip(document["snapshots"], ancestry, strict=True):
            assert ours["message"] == info.message
            assert ours["metadata"] == to_json(info.metadata)
            assert microseconds(ours["flushed_at"]) == round(info.written_at.timestamp() * 1e6)
            assert ours["branches"] == [
                name
                for name in sorted(theirs.list_branches())
                if theirs.lookup_branch(name) == info.id
            ]
            assert ours["tags"] == [
                name for name in sorted(theirs.list_tags()) if theirs.lookup_tag(name) == info.id
            ]


def test_log_of_everything_has_the_detached_snapshots_too(icectl: Icectl, zoo: Path) -> None:
    theirs = official.open_official(zoo)
    document = icectl("log", "--all", "--json", "-r", str(zoo)).document
    assert document["ref"] is None
    ids = [entry["id"] for entry in document["snapshots"]]
    assert sorted(ids) == sorted(official.all_snapshot_ids(theirs))
    drawn = icectl("log", "--all", "--graph", "--oneline", "-r", str(zoo)).out
    assert sum("*" in line for line in drawn.splitlines()) == len(ids)


def test_show(icectl: Icectl, zoo: Path) -> None:
    theirs = official.open_official(zoo)
    for info in theirs.ancestry(branch="main"):
        shown = icectl("show", info.id, "--json", "-r", str(zoo)).document["snapshot"]
        assert shown["manifest_files"] == [
            {"id": file.id, "size_bytes": file.size_bytes, "num_chunk_refs": file.num_chunk_refs}
            for file in sorted(theirs.list_manifest_files(info.id), key=lambda file: file.id)
        ]
        nodes = theirs.inspect_snapshot(info.id)["nodes"]
        kinds = [node["node_type"] for node in nodes]
        assert shown["num_groups"] == kinds.count("group")
        assert shown["num_arrays"] == kinds.count("array")
        if info.parent_id is not None:
            diff = theirs.diff(from_snapshot_id=info.parent_id, to_snapshot_id=info.id)
            assert shown["changes"] == change_counts(official.diff_facts(diff))


def change_counts(facts: dict[str, Any]) -> dict[str, int]:
    counts = {name: len(values) for name, values in facts.items()}
    return counts | {"updated_chunks": sum(map(len, facts["updated_chunks"].values()))}


def test_ls(icectl: Icectl, zoo: Path) -> None:
    import zarr

    theirs = official.open_official(zoo)
    document = icectl("ls", "--json", "-r", str(zoo)).document
    tip = theirs.lookup_branch("main")
    assert document["snapshot_id"] == tip
    nodes = {node["path"]: node for node in document["nodes"]}
    expected = theirs.inspect_snapshot(tip)["nodes"]
    assert sorted(nodes) == sorted(node["path"] for node in expected)
    store = theirs.readonly_session(branch="main").store
    for node in expected:
        ours = nodes[node["path"]]
        assert (ours["type"], ours["id"]) == (node["node_type"], node["id"])
        if ours["type"] == "array":
            array = zarr.open_array(store, path=node["path"], mode="r")
            assert tuple(ours["shape"]) == array.shape
            assert tuple(ours["chunk_shape"]) == array.chunks
            assert ours["data_type"] == str(array.dtype)
            assert ours["num_chunks"] == [size["num_chunks"] for size in node["shape"]]
            assert ours["manifests"] == list(
                dict.fromkeys(reference["id"] for reference in node["manifest_refs"])
            )
            names = array.metadata.dimension_names
            assert ours["dimension_names"] == (None if names is None else list(names))


def test_refs(icectl: Icectl, zoo: Path) -> None:
    theirs = official.open_official(zoo)
    branches = icectl("branch", "list", "--json", "-r", str(zoo)).document["branches"]
    assert {branch["name"]: branch["snapshot_id"] for branch in branches} == {
        name: theirs.lookup_branch(name) for name in theirs.list_branches()
    }
    for branch in branches:
        info = theirs.lookup_snapshot(branch["snapshot_id"])
        assert branch["message"] == info.message
    tags = icectl("tag", "list", "--json", "-r", str(zoo)).document
    assert {tag["name"]: tag["snapshot_id"] for tag in tags["tags"]} == {
        name: theirs.lookup_tag(name) for name in theirs.list_tags()
    }
    assert tags["deleted_tags"] == ["gone"]


def test_ops_log(icectl: Icectl, zoo: Path) -> None:
    theirs = official.open_official(zoo)
    if theirs.spec_version < 2:
        outcome = icectl("ops-log", "-r", str(zoo))
        assert outcome.code == 15
        assert "log --all" in outcome.err
        return
    document = icectl("ops-log", "--json", "-r", str(zoo)).document
    assert document["beyond_reach"] is None
    expected = list(theirs.ops_log())
    assert [
        (microseconds(update["updated_at"]), update["backup_path"])
        for update in document["updates"]
    ] == [(round(e.updated_at.timestamp() * 1e6), e.backup_path) for e in expected]
    kinds = [update["kind"].replace("_", "") for update in document["updates"]]
    theirs_kinds = [
        type(entry.kind).__name__.lower().removesuffix("update").replace("_", "")
        for entry in expected
    ]
    assert kinds == theirs_kinds
    created = [u for u in document["updates"] if u["kind"] in ("branch_created", "branch_reset")]
    assert created and all(update["target_snapshot_id"] for update in created)


def test_status_metadata_and_flags(icectl: Icectl, zoo: Path) -> None:
    theirs = official.open_official(zoo)
    status = icectl("status", "--json", "-r", str(zoo)).document
    assert status["availability"] == "online"
    if theirs.spec_version < 2:
        assert icectl("metadata", "get", "--json", "-r", str(zoo)).document == {"metadata": {}}
        assert icectl("flags", "list", "-r", str(zoo)).code == 15
        return
    metadata = icectl("metadata", "get", "--json", "-r", str(zoo)).document
    assert metadata == {"metadata": theirs.get_metadata()}
    flags = icectl("flags", "list", "--json", "-r", str(zoo)).document["flags"]
    assert flags == [
        {"id": flag.id, "name": flag.name, "enabled": flag.enabled, "setting": flag.setting}
        for flag in sorted(theirs.feature_flags(), key=lambda flag: flag.id)
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("test-repo-alpha4", "test-repo-alpha8", "test-repo-alpha15", "test-repo-0.1.0"),
        *("test-repo-v1", "test-repo-v2-migrated"),
    ],
)
def test_every_generation_can_be_read(icectl: Icectl, shared_fixtures: Path, name: str) -> None:
    location = str(shared_fixtures / name)
    log = icectl("log", "--json", "-r", location)
    assert log.code == 0, log.err
    assert log.document["snapshots"][-1]["parent_id"] is None
    for call in (
        ["ls"],
        ["show"],
        ["branch", "list"],
        ["tag", "list"],
        ["status"],
        ["config", "get"],
        ["stats"],
        ["diff", "main~1", "main"],
        ["validate", "--level", "data", "--fail-on", "warning"],
    ):
        outcome = icectl(*call, "-r", location)
        assert outcome.code == 0, outcome.err
    for file in shared_fixtures.glob(f"{name}/[smt]*/*"):
        outcome = icectl("inspect-file", str(file), "--json")
        assert outcome.code == 0, (file, outcome.err)
