"""gc on Spark beside object stores: sharded listings, deletes by executors, no secrets,
and official writers at work."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.errors import FormatError
from icectl.model.ids import ChunkId
from icectl.ops.gc.run import GcOptions, collect_garbage
from icectl.pipeline.engine import Engine
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from icectl.storage.sharded_listing import SMALL_DIRECTORY, plan_shards_of
from tests.engines.comparisons import check_equal_plans
from tests.failures import raises
from tests.gc.repositories import live_paths, messy_repository, paths, upload
from tests.gc.servers import SOURCES, check_concurrency, check_like_official_on_server
from tests.official import built
from tests.servers.gcs import GcsServer
from tests.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.spark import MARKS

pytestmark = [*MARKS, pytest.mark.server, pytest.mark.slow]


@pytest.fixture
def on_spark(spark_engine: Engine) -> dict[str, Any]:
    return {"choose_engine": lambda num_chunk_refs: spark_engine}


@pytest.fixture
def seaweedfs(seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    return seaweedfs_server


def s3_storage(server: S3Server, prefix: str) -> Storage:
    # The executors have credentials in their environment; where the server is, they are told.
    return open_storage(f"s3://{server.bucket}/{prefix}", {"endpoint_url": server.url})


def test_seaweedfs(
    seaweedfs: S3Server,
    on_spark: dict[str, Any],
    spark_engine: Engine,
    event_logs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    source = built(tmp_path_factory, messy_repository, 2)
    storage = s3_storage(seaweedfs, "gc-spark")
    with ThreadPoolExecutor(8) as pool:
        names = [f"chunks/{ChunkId.generate()}" for _ in range(SMALL_DIRECTORY + 200)]
        list(pool.map(lambda name: storage.put_if_absent(name, b"garbage"), names))
    assert len(plan_shards_of(storage, "chunks", 16)) == 16
    check_like_official_on_server(
        source,
        "gc-spark",
        partial(s3_storage, seaweedfs),
        seaweedfs.official_storage,
        partial(check_equal_plans, engine=spark_engine),
        **on_spark,
    )
    (log,) = event_logs.iterdir()
    text = log.read_text(errors="replace")
    assert "MapInArrow" in text
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in text


@pytest.mark.parametrize("built_by", SOURCES)
def test_fake_gcs(
    gcs_server: GcsServer,
    on_spark: dict[str, Any],
    spark_engine: Engine,
    tmp_path_factory: pytest.TempPathFactory,
    built_by: tuple[Any, ...],
) -> None:
    source = built(tmp_path_factory, *built_by)
    options = {"endpoint_url": gcs_server.url, "anonymous": "true"}
    check_like_official_on_server(
        source,
        f"gc-spark-{source.parent.name}",
        lambda prefix: open_storage(f"gs://{gcs_server.bucket}/{prefix}", options),
        gcs_server.official_storage,
        partial(check_equal_plans, engine=spark_engine),
        **on_spark,
    )


def test_official_writers_at_work(seaweedfs: S3Server, on_spark: dict[str, Any]) -> None:
    meanwhile, _ = check_concurrency(seaweedfs, "gc-spark-concurrent", 60, **on_spark)
    assert meanwhile > 0


def shorten(storage: Storage, path: str) -> None:
    data = storage.read(path)
    assert all(error is None for _, error in storage.delete_many([path]))
    storage.put_if_absent(path, data[:-1])


def test_a_chunk_that_is_too_short(
    seaweedfs: S3Server,
    on_spark: dict[str, Any],
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = built(tmp_path_factory, messy_repository, 2)
    storage = s3_storage(seaweedfs, "gc-spark-short")
    upload(source, storage)
    short, other = sorted(path for path in live_paths(source) if path.startswith("chunks/"))[:2]
    shorten(storage, short)
    there = paths(storage)
    time.sleep(2.1)
    cutoff = storage.read_clock() + 1_000_000
    told = []
    for options in (GcOptions(cutoff), GcOptions(cutoff, **on_spark)):
        with raises(FormatError, path=short) as caught:
            collect_garbage(storage, options, lambda run: None)
        told.append(str(caught.value))
    assert told[0] == told[1]
    words = ["gc", "-r", storage.location, "--storage-option", f"endpoint_url={seaweedfs.url}"]
    words += ["--older-than", "0s", "--allow-recent", "--yes", "--engine", "spark"]
    assert run(words, os.environ) == 13
    assert short in capsys.readouterr().err
    shorten(storage, other)
    known = GcOptions(cutoff, known_missing=frozenset([short]), **on_spark)
    with pytest.raises(FormatError) as caught:
        collect_garbage(storage, known, lambda run: None)
    assert caught.value.path == other
    assert paths(storage) == there
