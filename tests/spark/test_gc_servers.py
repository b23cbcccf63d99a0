"""gc on Spark beside a real S3 server: sharded listings, deletes by executors, no secrets."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from icectl.model.ids import ChunkId
from icectl.ops.gc.collect import GcOptions, collect_garbage, plan_run
from icectl.spark.gc_engine import SparkEngine
from icectl.storage.open import open_storage
from icectl.storage.sharded_listing import SMALL_DIRECTORY, plan_shards_of
from tests.gc.repositories import live, messy_repository
from tests.gc.test_faults import live_paths, paths
from tests.gc.test_servers import upload
from tests.official import built
from tests.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.spark import MARKS
from tests.spark.test_gc import check_equal_plans

pytestmark = [*MARKS, pytest.mark.server, pytest.mark.slow]


def test_seaweedfs(
    seaweedfs_server: S3Server,
    spark: Any,
    event_logs: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    source = built(tmp_path_factory, messy_repository, 2)
    # The executors have credentials in their environment; where the server is, they are told.
    location = f"s3://{seaweedfs_server.bucket}/gc-spark"
    storage = open_storage(location, {"endpoint_url": seaweedfs_server.url})
    upload(source, storage)
    with ThreadPoolExecutor(8) as pool:
        names = [f"chunks/{ChunkId.generate()}" for _ in range(SMALL_DIRECTORY + 200)]
        list(pool.map(lambda name: storage.put_if_absent(name, b"garbage"), names))
    assert len(plan_shards_of(storage, "chunks", 16)) == 16
    time.sleep(2.1)  # times have whole seconds here
    cutoff = storage.read_clock() + 1_000_000
    official = seaweedfs_server.official_storage("gc-spark")
    before = live(official)
    engine = SparkEngine(spark)
    on_spark: dict[str, Any] = {"choose_engine": lambda num_chunk_refs: engine}
    check_equal_plans(storage, cutoff, on_spark)
    _, deleted = collect_garbage(storage, GcOptions(cutoff, **on_spark), lambda run: None)
    assert not deleted.failures
    assert paths(storage) == live_paths(source)
    assert live(official) == before
    assert plan_run(storage, GcOptions(cutoff, **on_spark)).plan.num_objects == 0
    (log,) = event_logs.iterdir()
    text = log.read_text(errors="replace")
    assert "MapInArrow" in text
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in text
