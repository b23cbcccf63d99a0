"""`icectl upgrade --to`: older generations become repositories that the official package opens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from icectl.cli.main import run
from icectl.errors import RepositoryNotFoundError, StorageError
from icectl.ops.import_legacy.execute import import_repository
from icectl.pipeline.progress import Progress
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.command_line import Icectl
from tests.compat import test_legacy_repositories as alphas
from tests.faults.killing import kill_at_every_step
from tests.faults.storage import FaultyStorage, fail_after
from tests.official import (
    build_zoo,
    built,
    copied,
    ic,
    open_official,
    random_history,
    read_everything,
    zarr,
)
from tests.official.histories import create
from tests.servers.s3 import S3Server
from tests.upgrade.drafts import ATTRIBUTES, EMPTY, MESSAGES, SCALAR, VIRTUAL, T, X, Y, draft

FIXTURES = ("test-repo-alpha4", "test-repo-alpha8", "test-repo-alpha15", "test-repo-0.1.0")
BUILDERS = {
    "alpha.4": alphas.alpha_4,
    "alpha.15": alphas.alpha_15,
    "draft": draft,
    "draft with header": lambda root: draft(root, header=True),
}
MOST_STEPS = 400


def read(icectl: Icectl, where: Path, *arguments: str) -> Any:
    done = icectl(*arguments, "--json", "-r", str(where))
    assert done.code == 0, done.err
    return done.document


def imported(icectl: Icectl, source: Path, target: Path, *options: str) -> Any:
    return read(icectl, source, "upgrade", "--to", str(target), *options)


def refused(icectl: Icectl, source: Path, target: Path) -> tuple[int, Any]:
    done = icectl("upgrade", "--to", str(target), "--json", "-r", str(source))
    return done.code, done.error


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def history(icectl: Icectl, where: Path) -> Any:
    """What both repositories must say, whatever their generation."""
    names = {
        kind: [one["name"] for one in read(icectl, where, kind, "list")[key]]
        for kind, key in (("branch", "branches"), ("tag", "tags"))
    }
    logs = {
        ref: [
            {name: one[name] for name in ("message", "flushed_at", "metadata")}
            for one in read(icectl, where, "log", ref)["snapshots"]
        ]
        for ref in (*(f"branch:{one}" for one in names["branch"]), *names["tag"])
    }
    nodes = {
        ref: [
            {name: value for name, value in node.items() if name not in ("id", "manifests")}
            for node in read(icectl, where, "ls", ref)["nodes"]
        ]
        for ref in logs
    }
    return names, logs, nodes


@pytest.fixture(params=[*FIXTURES, "test-repo-v1", *BUILDERS])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param in BUILDERS:
        return BUILDERS[request.param](tmp_path / "source")
    fixtures: Path = request.getfixturevalue("shared_fixtures")
    return fixtures / request.param


def test_the_result_is_sound_and_has_the_same_history(
    icectl: Icectl, source: Path, tmp_path: Path
) -> None:
    before = files(source)
    target = tmp_path / "target"
    planned = imported(icectl, source, target, "--dry-run")
    assert not target.exists() or not files(target)
    result = imported(icectl, source, target)
    assert planned == result | {"dry_run": True, "written_objects": 0}
    assert files(source) == before
    checked = read(icectl, target, "validate", "--level", "data", "--decode")
    assert checked["findings"] == []
    assert checked["checked"]["chunks"] == result["chunks"] > 0
    assert history(icectl, target) == history(icectl, source)
    assert read(icectl, target, "gc", "--older-than", "0s", "--allow-recent", "--dry-run")
    if all(len(name) == 20 for name in _names(source, "snapshots")):
        for ref in ("main", *result["tags"]):
            old, new = (read(icectl, where, "log", ref) for where in (source, target))
            for one, other in zip(old["snapshots"], new["snapshots"], strict=True):
                assert (one["id"], one["parent_id"]) == (other["id"], other["parent_id"])
        assert _names(target, "chunks") == _names(source, "chunks")
    # Chunks are the same bytes, whatever their names.
    chunks = source / ("chunks" if (source / "chunks").exists() else "c")
    assert sorted(files(chunks).values()) == sorted(files(target / "chunks").values())


def _names(root: Path, directory: str) -> set[str]:
    return set(files(root / directory)) if (root / directory).exists() else {"draft"}


def test_a_second_run_changes_nothing(icectl: Icectl, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    assert imported(icectl, source, target)["written_objects"] > 0
    before = files(target)
    assert imported(icectl, source, target)["written_objects"] == 0
    assert files(target) == before
    lost = next(iter((target / "manifests").iterdir()))
    lost.unlink()
    assert imported(icectl, source, target)["written_objects"] == 1
    assert files(target) == before


def blocks(array: Any) -> dict[str, Any]:
    """The bytes of each chunk as numbers in memory; virtual ones cannot be read here."""
    found = {}
    for place in np.ndindex(*array.cdata_shape):
        try:
            found[str(place)] = np.asarray(array.blocks[place]).tobytes()
        except ic.IcechunkError:
            found[str(place)] = b"virtual"
    return found


def content(repo: ic.Repository, **version: str) -> dict[str, Any]:
    store = repo.readonly_session(**version).store
    try:
        root = zarr.open_group(store, mode="r")
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = {"/": root.attrs.asdict()}
    for path, node in root.members(max_depth=None):
        found[path] = node.attrs.asdict()
        if isinstance(node, zarr.Array):
            found[path] = (node.attrs.asdict(), str(node.dtype), node.shape, blocks(node))
    return found


@pytest.mark.parametrize("name", [*FIXTURES, "test-repo-v1"])
def test_the_official_package_reads_what_every_release_wrote(
    icectl: Icectl, shared_fixtures: Path, tmp_path: Path, name: str
) -> None:
    """The official test suite wrote the same history with each release."""
    imported(icectl, shared_fixtures / name, tmp_path / "target")
    theirs = open_official(copied(shared_fixtures / "test-repo-v1", tmp_path / "v1"))
    ours = open_official(tmp_path / "target")
    assert ours.spec_version == 2
    for branch in ("main", "my-branch"):
        old, new = (list(repo.ancestry(branch=branch)) for repo in (theirs, ours))
        assert [one.message for one in old] == [one.message for one in new]
        for one, other in zip(old, new, strict=True):
            assert content(ours, snapshot_id=other.id) == content(theirs, snapshot_id=one.id)
    # The files themselves, decoded without any of the two packages.
    decoded = {_decompress(data) for data in files(shared_fixtures / name / "chunks").values()}
    found = {
        block
        for one in ours.ancestry(branch="main")
        for node in content(ours, snapshot_id=one.id).values()
        if isinstance(node, tuple) and node[1] == "float32"
        for block in node[3].values()
        if block != b"virtual"
    }
    assert decoded <= found


def _decompress(data: bytes) -> bytes:
    if not data.startswith(b"\x28\xb5\x2f\xfd"):
        return data
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=1000)


@pytest.mark.parametrize("header", [False, True])
def test_the_official_package_reads_the_drafts(
    icectl: Icectl, tmp_path: Path, header: bool
) -> None:
    imported(icectl, draft(tmp_path / "source", header=header), tmp_path / "target")
    prefix = f"file://{tmp_path}/source.virtual/"
    config = ic.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        ic.VirtualChunkContainer(prefix, ic.local_filesystem_store(f"{tmp_path}/source.virtual"))
    )
    repo = ic.Repository.open(
        ic.local_filesystem_storage(str(tmp_path / "target")),
        config=config,
        authorize_virtual_chunk_access={prefix: ic.credentials.LocalFileSystemAccess},
    )
    assert [one.message for one in repo.ancestry(branch="main")] == MESSAGES[2::-1]
    assert [one.metadata for one in repo.ancestry(tag="v1")] == [
        {"author": MESSAGES[1]},
        {"author": MESSAGES[0]},
    ]
    main = zarr.open_group(repo.readonly_session("main").store, mode="r")
    dev = zarr.open_group(repo.readonly_session("dev").store, mode="r")
    assert dict(main["t"].attrs) == ATTRIBUTES
    special = {"scalar": SCALAR, "empty": EMPTY, "virtual": VIRTUAL}
    for group, expected in ((main, {"t": T, "y": Y, **special}), (dev, {"t": T, "x": X})):
        assert {name for name, _ in group.members()} == expected.keys()
        for name, values in expected.items():
            assert np.array_equal(group[name][...], values)
    tips = [repo.lookup_branch(name) for name in ("main", "dev")]
    ids = [
        {node["path"]: node["id"] for node in repo.inspect_snapshot(tip)["nodes"]} for tip in tips
    ]
    assert ids[0]["/t"] == ids[1]["/t"]
    assert ids[0]["/y"] != ids[1]["/x"]


@pytest.mark.parametrize("name", ["alpha.4", "alpha.15"])
def test_the_official_package_reads_the_alphas(icectl: Icectl, tmp_path: Path, name: str) -> None:
    imported(icectl, BUILDERS[name](tmp_path / "source"), tmp_path / "target")
    repo = open_official(tmp_path / "target")
    big = np.zeros((4, 4), "int8")
    big[:2, :2] = np.frombuffer(b"four", "int8").reshape(2, 2)
    for version, small in ((repo.lookup_tag("v1"), b"sss"), (repo.lookup_branch("main"), b"ss\0")):
        group = zarr.open_group(repo.readonly_session(snapshot_id=version).store, mode="r")
        assert np.array_equal(group["big"][...], big)
        assert group["small"][...].tobytes() == small
    diff = repo.diff(from_tag="v1", to_branch="main")
    assert diff.updated_chunks == {"/big": [[0, 0]], "/small": [[2]]}


def test_the_official_package_continues(icectl: Icectl, source: Path, tmp_path: Path) -> None:
    imported(icectl, source, tmp_path / "target")
    repo = open_official(tmp_path / "target")
    before = [one.message for one in repo.ancestry(branch="main")]
    kept = content(repo, branch="main")
    session = repo.writable_session("main")
    new = zarr.open_group(session.store, mode="a").create_array(
        "new", shape=(4,), chunks=(2,), dtype="int32"
    )
    new[...] = [1, 2, 3, 4]
    session.commit("new")
    repo = open_official(tmp_path / "target")
    assert [one.message for one in repo.ancestry(branch="main")] == ["new", *before]
    now = next(iter(repo.ancestry(branch="main"))).written_at
    repo.expire_snapshots(now)
    repo.garbage_collect(now)
    after = content(open_official(tmp_path / "target"), branch="main")
    assert {path: after[path] for path in kept} == kept
    assert "new" in after
    assert read(icectl, tmp_path / "target", "validate", "--level", "data")["findings"] == []
    assert refused(icectl, source, tmp_path / "target")[0] == 16


@pytest.mark.parametrize("build", [build_zoo, random_history], ids=["zoo", "random"])
def test_version_1_becomes_version_2(
    icectl: Icectl, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, build: Any
) -> None:
    arguments = (1,) if build is build_zoo else (5, 60, 1)
    old = built(tmp_path_factory, build, *arguments)
    imported(icectl, old, tmp_path / "target")
    theirs = read_everything(open_official(old))
    ours = read_everything(open_official(tmp_path / "target"))
    assert ours == theirs
    assert read(icectl, tmp_path / "target", "validate", "--level", "data")["findings"] == []


def test_an_empty_repository(icectl: Icectl, tmp_path: Path) -> None:
    create(tmp_path / "source", 1)
    target = str(tmp_path / "target")
    assert icectl("upgrade", "-r", str(tmp_path / "source"), "--to", target).code == 0
    assert icectl("validate", "-r", target, "--fail-on", "warning").code == 0


def test_deleted_tags_stay_deleted(icectl: Icectl, shared_fixtures: Path, tmp_path: Path) -> None:
    result = imported(icectl, shared_fixtures / "test-repo-0.1.0", tmp_path / "target")
    assert result["deleted_tags"] == ["deleted"]
    repo = open_official(tmp_path / "target")
    with pytest.raises(ic.IcechunkError):
        repo.create_tag("deleted", repo.lookup_branch("main"))
    kinds = [type(one.kind).__name__ for one in repo.ops_log()]
    assert kinds[0] == "RepoMigrated"
    assert kinds.count("NewCommit") == 5
    assert (kinds.count("TagCreated"), kinds.count("TagDeleted")) == (3, 1)


def test_version_2_is_refused(icectl: Icectl, tmp_path: Path) -> None:
    assert icectl("init", str(tmp_path / "source")).code == 0
    code, error = refused(icectl, tmp_path / "source", tmp_path / "target")
    assert (code, "icectl copy" in error["hint"]) == (2, True)


def test_another_target_is_refused(icectl: Icectl, tmp_path: Path) -> None:
    source, target = draft(tmp_path / "source"), tmp_path / "target"
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    code, error = refused(icectl, source, target)
    assert (code, "notes.txt" in error["message"]) == (16, True)
    assert files(target) == {"notes.txt": b"mine"}
    assert refused(icectl, source, source)[0] == 16
    assert refused(icectl, source, source / "inside")[0] == 2
    assert not (source / "inside").exists()
    other = tmp_path / "other"
    imported(icectl, source, other)
    (other / "repo").unlink()
    snapshot = next(iter((other / "snapshots").iterdir()))
    snapshot.write_bytes(b"something else")
    assert refused(icectl, source, other)[0] == 16


def test_every_lost_or_damaged_object_is_named(
    icectl: Icectl, source: Path, tmp_path: Path
) -> None:
    """What a ref needs: nothing is written without it."""
    target = tmp_path / "target"
    manifests = _used_manifests(icectl, source)
    renamed = open_repository(LocalStorage(str(source)))._renamed_first.values()
    for path in files(source):
        directory, _, name = path.partition("/")
        if directory not in ("snapshots", "chunks", "s", "c") and name not in manifests:
            continue
        for damage in ("lost", "cut"):
            broken = tmp_path / f"{damage}-{name}"
            shutil.copytree(source, broken)
            if damage == "lost":
                (broken / path).unlink()
            else:
                (broken / path).write_bytes((broken / path).read_bytes()[:-1])
            code, error = refused(icectl, broken, target)
            # The first file of alpha.4 is not named by the id that its descendants give.
            named = path in error["message"] or (
                directory == "snapshots" and name in map(str, renamed)
            )
            assert (code, named) == (13, True), (damage, path, error)
            assert not target.exists() or not files(target)
            shutil.rmtree(broken)


def _used_manifests(icectl: Icectl, source: Path) -> set[str]:
    ids = {one["id"] for one in read(icectl, source, "log", "--all")["snapshots"]}
    return {
        manifest
        for id_ in ids
        for node in read(icectl, source, "ls", id_)["nodes"]
        for manifest in node.get("manifests", ())
    }


def test_attribute_files_are_refused(icectl: Icectl, tmp_path: Path) -> None:
    reference = {"Ref": {"object_id": [9] * 16, "location": 1, "flags": []}}
    source = draft(tmp_path / "source", attributes=reference)
    code, error = refused(icectl, source, tmp_path / "target")
    assert (code, "/t " in error["message"]) == (15, True)


def test_what_is_left_out_is_listed(icectl: Icectl, tmp_path: Path) -> None:
    source = alphas.alpha_15(tmp_path / "source")
    shutil.rmtree(source / "refs/tag.v1")
    for newest in sorted((source / "refs/branch.main").iterdir())[:1]:
        newest.unlink()
    config = "storage:\n  concurrency: null\nvirtual_chunk_containers: {}\n"
    (source / "config.yaml").write_text(config + "unsafe_overwrite_refs: true\n")
    result = imported(icectl, source, tmp_path / "target")
    assert result["unreachable_snapshots"] == [str(alphas.NAMES[2])]
    assert [(one["id"], one["message"]) for one in result["detached"]] == [
        (str(alphas.NAMES[2]), alphas.MESSAGES[2])
    ]
    assert result["dropped_settings"] == ["storage", "unsafe_overwrite_refs"]
    assert (result["snapshots"], result["chunks"]) == (2, 1)
    assert open_official(tmp_path / "target").spec_version == 2


def test_unknown_codecs_are_listed(
    icectl: Icectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def array(*arguments: Any) -> list[object]:
        shape, data_type, chunks, separator, fill, codecs, *rest = usual(*arguments)
        return [shape, data_type, chunks, separator, fill, [*codecs, ["secret", None]], *rest]

    usual = alphas.array
    monkeypatch.setattr(alphas, "array", array)
    source = alphas.alpha_15(tmp_path / "source")
    result = imported(icectl, source, tmp_path / "target")
    assert result["unknown_codecs"] == {"secret": ["/big", "/small"]}
    target = open_official(tmp_path / "target").readonly_session("main").store
    assert "big/c/0/0" in _keys(target)


def _keys(store: Any) -> list[str]:
    import asyncio

    async def keys() -> list[str]:
        return [key async for key in store.list()]

    return asyncio.run(keys())


def test_virtual_chunks_get_a_container(
    icectl: Icectl, shared_fixtures: Path, tmp_path: Path
) -> None:
    """The alphas had one for all of s3://, which the official package ignores now."""
    imported(icectl, shared_fixtures / "test-repo-alpha8", tmp_path / "target")
    config = ic.Repository.fetch_config(ic.local_filesystem_storage(str(tmp_path / "target")))
    assert config is not None
    containers = config.virtual_chunk_containers or {}
    assert "s3://testbucket/" in {one.url_prefix for one in containers.values()}
    assert config.inline_chunk_threshold_bytes == 12
    result = imported(icectl, shared_fixtures / "test-repo-alpha4", tmp_path / "other")
    assert result["uncovered_virtual_roots"] == ["s3://testbucket/"]


def test_killed_at_every_step(icectl: Icectl, tmp_path: Path) -> None:
    source = alphas.alpha_4(tmp_path / "source")
    whole = tmp_path / "whole"
    imported(icectl, source, whole)
    expected = files(whole)
    roots = [tmp_path / f"target-{step}" for step in range(MOST_STEPS)]
    killed = kill_at_every_step(f"import:{source}", roots)
    assert len(killed) > 20
    for root in killed:
        root.mkdir(exist_ok=True)
        storage = LocalStorage(str(root))
        if not (root / "repo").exists():
            with pytest.raises(RepositoryNotFoundError):
                open_repository(storage)
        import_repository(open_repository(LocalStorage(str(source))), storage, Progress())
        found = files(root)
        assert found.keys() == expected.keys()
        assert [path for path in found if path != "repo" and found[path] != expected[path]] == []
        opened = open_repository(storage)
        assert opened.info is not None
        assert {ref.name for ref in opened.info.branches} >= {"main"}


def test_failed_at_every_request(icectl: Icectl, tmp_path: Path) -> None:
    source = open_repository(LocalStorage(str(draft(tmp_path / "source"))))
    imported(icectl, tmp_path / "source", tmp_path / "whole")
    expected = files(tmp_path / "whole")
    for step in range(1, 200):
        target = LocalStorage(str(tmp_path / f"target-{step}"))
        faulty = FaultyStorage(target, before=fail_after(step))
        try:
            import_repository(source, faulty, Progress())
        except StorageError:
            # Other threads may still be writing.
            assert not (tmp_path / f"target-{step}" / "repo").exists()
            import_repository(source, target, Progress())
        else:
            break
        assert files(tmp_path / f"target-{step}").keys() == expected.keys()
    assert 10 < step < 199


def test_between_storages(
    seaweedfs_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    source = draft(tmp_path / "source")
    location = f"s3://{seaweedfs_server.bucket}/{tmp_path.name}"
    words = ["upgrade", "--to", location, "-r", str(source), "--json"]
    for written in (True, False):
        capsys.readouterr()
        assert run(words, seaweedfs_server.environment) == 0
        assert bool(json.loads(capsys.readouterr().out)["written_objects"]) == written
    repo = open_official(seaweedfs_server.official_storage(tmp_path.name))
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    assert np.array_equal(group["t"][...], T)
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a")["t"][0, 0] = 99
    session.commit("change")
    assert run(["validate", "--level", "data", "-r", location], seaweedfs_server.environment) == 0
