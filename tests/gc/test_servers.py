"""The same on object stores, and while official writers are at work there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from icectl.storage.open import open_storage
from tests.gc.servers import SOURCES, check_concurrency, check_like_official_on_server
from tests.official import built
from tests.patience import PATIENCE_SECONDS
from tests.servers.gcs import GcsServer
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.server


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, *request.param)


def test_seaweedfs(
    seaweedfs_server: S3Server, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    check_like_official_on_server(
        source,
        f"gc-{source.parent.name}",
        lambda prefix: open_storage(f"s3://{seaweedfs_server.bucket}/{prefix}", {}),
        seaweedfs_server.official_storage,
    )


def test_fake_gcs(gcs_server: GcsServer, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in gcs_server.environment.items():
        monkeypatch.setenv(name, value)
    check_like_official_on_server(
        source,
        f"gc-{source.parent.name}",
        lambda prefix: open_storage(f"gs://{gcs_server.bucket}/{prefix}", {}),
        gcs_server.official_storage,
    )


def test_official_writers_at_work(
    seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    meanwhile, _ = check_concurrency(seaweedfs_server, "gc-concurrent", 6)
    assert meanwhile > 0


def test_official_writers_that_never_pause(
    seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow machine gc may lose every race for `repo`: it ends in time, and harms nothing."""
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    started = time.monotonic()
    meanwhile, afterwards = check_concurrency(seaweedfs_server, "gc-never-pause", 3, pause=0)
    assert meanwhile + afterwards > 0
    assert time.monotonic() - started < PATIENCE_SECONDS


@pytest.mark.slow
def test_official_writers_at_work_for_long(
    seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    meanwhile, _ = check_concurrency(seaweedfs_server, "gc-concurrent-long", 60)
    assert meanwhile > 0
