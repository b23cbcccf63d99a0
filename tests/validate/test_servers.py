"""On an object store: sizes come from listings, and etags tell whether a source changed."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from icectl.checks.rules import Level
from icectl.cli.main import run
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.official import built, ic, zarr
from tests.official.histories import create
from tests.servers.gcs import GcsServer
from tests.servers.s3 import S3Server
from tests.validate.damage import Patient, build

pytestmark = pytest.mark.server


@pytest.fixture
def bucket(seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for key, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(key, value)
    return f"s3://{seaweedfs_server.bucket}/{uuid4().hex}"


def codes(storage: Storage, **options: object) -> list[str]:
    settings = ValidateOptions(level=Level.DATA, **options)  # type: ignore[arg-type]
    return sorted(finding.code for finding in validate(storage, settings)[0].findings)


def test_repository(bucket: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    local = built(tmp_path_factory, build, 2)
    storage = open_storage(bucket)
    for path in local.rglob("*"):
        if path.is_file():
            storage.put_if_absent(str(path.relative_to(local)), path.read_bytes())
    # The settings that are right on local disk, where the repository was made.
    assert codes(storage) == ["ICE0023"]
    chunk = Patient(local).chunk_of("/g/native").relative_to(local)
    data = storage.read_versioned(str(chunk))
    storage.put_if_match(str(chunk), data.data[:-1], data.version)
    assert codes(storage) == ["ICE0023", "ICE0402", "ICE0501"]
    list(storage.delete_many([str(chunk)]))
    assert codes(storage) == ["ICE0023", "ICE0401"]


def write_references(where: Path, bucket: str, store: Any, **checksum: Any) -> None:
    """A repository with an array whose chunks lie in the file data.bin of the bucket."""
    container = ic.VirtualChunkContainer(f"{bucket}/", store)
    repo = create(where, 2, virtual_chunk_containers={f"{bucket}/": container})
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").create_array(
        "v", shape=(16,), chunks=(4,), dtype="u1", compressors=None
    )
    refs = [ic.VirtualChunkSpec([i], f"{bucket}/data.bin", 4 * i, 4, **checksum) for i in range(4)]
    assert session.store.set_virtual_refs("v", refs) is None
    session.commit("virtual")


def test_sources(bucket: str, tmp_path: Path) -> None:
    sources = open_storage(bucket)
    sources.put_if_absent("data.bin", bytes(64))
    etag = sources.info("data.bin").etag
    assert etag
    store = ic.s3_store(region="us-east-1")
    write_references(tmp_path / "repo", bucket, store, etag_checksum=etag)
    storage = open_storage(str(tmp_path / "repo"))
    assert codes(storage, open_source=open_storage) == []
    old = sources.read_versioned("data.bin")
    sources.put_if_match("data.bin", bytes(range(64)), old.version)
    assert codes(storage, open_source=open_storage) == ["ICE0603"]
    list(sources.delete_many(["data.bin"]))
    assert codes(storage, open_source=open_storage) == ["ICE0601"]


@pytest.fixture
def gcs_bucket(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> str:
    for key, value in gcs_server.environment.items():
        monkeypatch.setenv(key, value)
    return f"gs://{gcs_server.bucket}/{uuid4().hex}"


def test_gcs_sources(gcs_bucket: str, tmp_path: Path) -> None:
    sources = open_storage(gcs_bucket)
    sources.put_if_absent("data.bin", bytes(64))
    moment = datetime.now(UTC)
    write_references(tmp_path / "repo", gcs_bucket, ic.gcs_store(), last_updated_at_checksum=moment)
    storage = open_storage(str(tmp_path / "repo"))
    assert codes(storage, open_source=open_storage) == []
    time.sleep(1.1)  # stored times have whole seconds
    old = sources.read_versioned("data.bin")
    new = sources.put_if_match("data.bin", bytes(range(64)), old.version)
    assert codes(storage, open_source=open_storage) == ["ICE0603"]
    sources.put_if_match("data.bin", bytes(8), new)
    assert codes(storage, open_source=open_storage) == ["ICE0602", "ICE0603"]
    list(sources.delete_many(["data.bin"]))
    assert codes(storage, open_source=open_storage) == ["ICE0601"]


def test_gcs_etags(gcs_bucket: str, tmp_path: Path) -> None:
    """This storage tells no etags, and that is said."""
    sources = open_storage(gcs_bucket)
    sources.put_if_absent("data.bin", bytes(64))
    write_references(tmp_path / "repo", gcs_bucket, ic.gcs_store(), etag_checksum="another")
    result, _ = validate(
        open_storage(str(tmp_path / "repo")), ValidateOptions(open_source=open_storage)
    )
    assert result.findings == ()
    assert result.notes == (
        "1 virtual source was not compared with the stored etag, since the storage tells none",
    )


KEYS = ("unsafe_use_conditional_create", "unsafe_use_conditional_update", "unsafe_use_metadata")


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("mend", ["config", "repair"])
def test_a_repository_from_local_disk_loses_no_commits(
    seaweedfs_server: S3Server,
    bucket: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spec_version: int,
    mend: str,
) -> None:
    """The official client stores what is right on local disk, and it comes along to S3."""
    local = tmp_path / "repo"
    create(local, spec_version)

    def icectl(*words: str, where: str = bucket) -> tuple[int, Any]:
        capsys.readouterr()
        code = run([*words, "--json", "-r", where], dict(os.environ))
        return code, json.loads(capsys.readouterr().out)

    def stored() -> Any:
        return ic.Repository.fetch_config(official).storage  # type: ignore[union-attr]

    def validate_at(where: str) -> tuple[int, list[tuple[str, str]]]:
        code, document = icectl("validate", "--fail-on", "warning", where=where)
        return code, [(one["code"], one["severity"]) for one in document["findings"]]

    assert validate_at(str(local)) == (0, [])
    assert icectl("repair", "--yes", where=str(local))[1]["steps"] == []
    storage = open_storage(bucket)
    for path in local.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            storage.put_if_absent(str(path.relative_to(local)), path.read_bytes())
    official = seaweedfs_server.official_storage(bucket.rpartition("/")[2])
    assert stored().unsafe_use_conditional_update is False
    assert validate_at(bucket) == (3, [("ICE0023", "warning")])
    code, doctor = icectl("doctor")
    check = next(one for one in doctor["checks"] if one["name"] == "repair")
    assert (code, check["state"], check["hint"]) == (0, "warning", f"icectl repair -r {bucket}")
    if mend == "config":
        for key in KEYS:
            assert icectl("config", "set", f"storage.{key}", "null")[0] == 0
    else:
        code, document = icectl("repair", "--yes")
        assert (code, document["left"]) == (0, [])
        assert [one["action"] for one in document["steps"]] == ["reset_storage_settings"]
    assert validate_at(bucket) == (0, [])
    assert [getattr(stored(), key) for key in KEYS] == [None, None, None]

    # Two sessions at once: one of them learns that it is too late.
    sessions = [ic.Repository.open(official).writable_session("main") for _ in range(2)]
    for number, session in enumerate(sessions):
        zarr.open_group(session.store, mode="a").attrs["number"] = number
    sessions[0].commit("first")
    with pytest.raises(ic.ConflictError):
        sessions[1].commit("second")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: create_tag(official, f"t{number}"), range(24)))
    assert len(ic.Repository.open(official).list_tags()) == 24


def create_tag(storage: ic.Storage, name: str) -> None:
    repo = ic.Repository.open(storage)
    repo.create_tag(name, repo.lookup_branch("main"))
