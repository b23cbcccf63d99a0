"""Repositories in the root of a bucket, and S3 keys that begin with `/` (official issue 2239).

moto keeps such keys, seaweedfs drops the `/` as MinIO does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.command_line import Icectl
from tests.gc.repositories import live, messy_repository
from tests.official import built, ic, zarr
from tests.official.histories import commit
from tests.servers.gcs import ROOT_BUCKET, GcsServer
from tests.servers.s3 import S3Server, create_bucket, s3_client

pytestmark = pytest.mark.server


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, messy_repository, request.param)


def use(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


def new_bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    use(server, monkeypatch)
    fresh = replace(server, bucket=f"root-{uuid4().hex}")
    create_bucket(fresh)
    return fresh


@pytest.fixture
def moto(moto_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    return new_bucket(moto_server, monkeypatch)


@pytest.fixture
def seaweedfs(seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    return new_bucket(seaweedfs_server, monkeypatch)


def upload(source: Path, server: S3Server, root: str) -> None:
    client = s3_client(server)
    for path in source.rglob("*"):
        if path.is_file():
            key = root + path.relative_to(source).as_posix()
            client.put_object(Bucket=server.bucket, Key=key, Body=path.read_bytes())


def keys(server: S3Server) -> set[str]:
    pages = s3_client(server).get_paginator("list_objects_v2").paginate(Bucket=server.bucket)
    return {item["Key"] for page in pages for item in page.get("Contents", ())}


def run_all(icectl: Icectl, location: str) -> Callable[..., Any]:
    def run(*arguments: str) -> Any:
        done = icectl(*arguments, "-r", location, "--json")
        assert done.code == 0, (arguments, done.err)
        return done.document

    return run


def test_rooted_keys_are_read_changed_and_collected(
    icectl: Icectl, moto: S3Server, source: Path
) -> None:
    upload(source, moto, "/")
    theirs = moto.official_storage("")
    before = live(theirs)
    tip = ic.Repository.open(theirs).lookup_branch("main")
    run = run_all(icectl, f"s3://{moto.bucket}")
    assert run("log")["snapshots"][0]["id"] == tip
    assert {"/", "/a", "/b"} <= {node["path"] for node in run("ls")["nodes"]}
    checked = run("validate", "--level", "data")["checked"]
    assert checked["chunks_read"] > 0
    assert run("stats")["num_chunks"] > 0
    run("tag", "create", "rooted")
    assert ic.Repository.open(theirs).lookup_tag("rooted") == tip
    time.sleep(2.1)  # times have whole seconds here
    there = keys(moto)
    done = run("gc", "--older-than", "0s", "--yes", "--allow-recent")
    assert done["chunks_deleted"] > 0
    assert keys(moto) < there | {key for key in keys(moto) if "/overwritten/" in key}
    assert all(key.startswith("/") for key in keys(moto))
    after = live(theirs)
    assert after["snapshots"].keys() == before["snapshots"].keys()
    assert after["snapshots"] == before["snapshots"]
    with commit(ic.Repository.open(theirs), "after gc") as root:
        root["b"][:] = 3
    assert run("log", "-n", "1")["snapshots"][0]["message"] == "after gc"
    run("validate", "--level", "data")


def test_a_prefix_that_begins_with_a_slash(icectl: Icectl, moto: S3Server) -> None:
    repo = ic.Repository.create(moto.official_storage("/foo"))
    with commit(repo, "group") as root:
        root.create_group("g")
    assert "/foo/repo" in keys(moto)
    run = run_all(icectl, f"s3://{moto.bucket}//foo")
    assert run("log")["snapshots"][0]["message"] == "group"
    run("tag", "create", "x")
    run("validate", "--level", "data")
    assert all(key.startswith("/foo/") for key in keys(moto))
    assert icectl("log", "-r", f"s3://{moto.bucket}/foo").code == 10


def test_two_repositories_in_one_root_are_refused(
    icectl: Icectl, moto: S3Server, tmp_path: Path
) -> None:
    for name, root in (("plain", ""), ("rooted", "/")):
        repo = ic.Repository.create(ic.local_filesystem_storage(str(tmp_path / name)))
        with commit(repo, name) as group:
            group.create_group("g")
        upload(tmp_path / name, moto, root)
    with pytest.raises(ic.IcechunkError):
        ic.Repository.open(moto.official_storage(""))
    location = f"s3://{moto.bucket}"
    done = icectl("log", "-r", location, "--json")
    assert (done.code, done.error["kind"]) == (16, "refused")
    for value, name in (("true", "rooted"), ("false", "plain")):
        option = f"legacy_rooted_keys={value}"
        done = icectl("log", "-r", location, "--storage-option", option, "--json")
        assert done.document["snapshots"][0]["message"] == name
    done = icectl("log", "-r", f"{location}/x", "--storage-option", "legacy_rooted_keys=true")
    assert done.code == 2


def test_virtual_sources_beside_rooted_keys(icectl: Icectl, moto: S3Server, tmp_path: Path) -> None:
    """The files of virtual chunks have their own keys, whatever those of the repository are."""
    url = f"s3://{moto.bucket}/"
    config = ic.RepositoryConfig.default()
    config.set_virtual_chunk_container(ic.VirtualChunkContainer(url, ic.s3_store("us-east-1")))
    repo = ic.Repository.create(ic.local_filesystem_storage(str(tmp_path / "source")), config)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(2,), chunks=(2,), dtype="i1")
    session.store.set_virtual_ref("a/c/0", f"{url}data.bin", offset=0, length=2)
    session.commit("virtual")
    upload(tmp_path / "source", moto, "/")
    s3_client(moto).put_object(Bucket=moto.bucket, Key="data.bin", Body=b"ab")
    run = run_all(icectl, f"s3://{moto.bucket}")
    found = run("validate", "--virtual")["findings"]
    assert [one["code"] for one in found] == ["ICE0023"], "it was copied from local disk"


@pytest.mark.parametrize("name", ["moto", "seaweedfs"])
def test_a_repository_in_the_root_of_a_bucket(
    icectl: Icectl, request: pytest.FixtureRequest, name: str, source: Path
) -> None:
    server: S3Server = request.getfixturevalue(name)
    upload(source, server, "")
    theirs = server.official_storage("")
    before = live(theirs)
    run = run_all(icectl, f"s3://{server.bucket}")
    run("tag", "create", "x")
    run("validate", "--level", "data")
    time.sleep(2.1)
    run("gc", "--older-than", "0s", "--yes", "--allow-recent")
    assert not any(key.startswith("/") for key in keys(server))
    assert live(theirs)["snapshots"] == before["snapshots"]


def test_no_repository_in_the_root_of_a_bucket(icectl: Icectl, moto: S3Server) -> None:
    done = icectl("log", "-r", f"s3://{moto.bucket}", "--json")
    assert (done.code, done.error["kind"]) == (10, "repository_not_found")
    assert f"init s3://{moto.bucket}/" in done.error["hint"]


@pytest.mark.parametrize(
    "location", ["s3://bucket", "s3://bucket/", "s3://bucket//", "gs://bucket"]
)
def test_no_repository_is_created_in_the_root_of_a_bucket(
    icectl: Icectl, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before any request, as by the official client."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    done = icectl("init", location, "--json")
    assert (done.code, done.error["kind"]) == (2, "usage")
    assert location.rstrip("/") + "/" in done.error["hint"]


def test_on_google_the_root_of_a_bucket_is_opened_and_not_created(
    icectl: Icectl, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from icectl.storage.open import open_storage

    use(gcs_server, monkeypatch)
    server = replace(gcs_server, bucket=ROOT_BUCKET)
    with pytest.raises(Exception):  # noqa: B017 - of the official package
        ic.Repository.create(server.official_storage(""))
    repo = ic.Repository.create(ic.local_filesystem_storage(str(tmp_path / "source")))
    with commit(repo, "group") as root:
        root.create_group("g")
    storage = open_storage(f"gs://{server.bucket}")
    for path in (tmp_path / "source").rglob("*"):
        if path.is_file():
            name = path.relative_to(tmp_path / "source").as_posix()
            storage.put_if_absent(name, path.read_bytes())
    run = run_all(icectl, f"gs://{server.bucket}")
    run("tag", "create", "x")
    theirs = ic.Repository.open(server.official_storage(""))
    assert theirs.lookup_tag("x") == theirs.lookup_branch("main")
    run("validate", "--level", "data")
