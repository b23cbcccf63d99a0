"""On an object store: sizes come from listings, and etags tell whether a source changed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from icectl.ops.validate.rule import Level
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
    assert codes(storage) == []
    chunk = Patient(local).chunk_of("/g/native").relative_to(local)
    data = storage.read_versioned(str(chunk))
    storage.put_if_match(str(chunk), data.data[:-1], data.version)
    assert codes(storage) == ["ICE0402", "ICE0501"]
    list(storage.delete_many([str(chunk)]))
    assert codes(storage) == ["ICE0401"]


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
