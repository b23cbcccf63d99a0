"""validate and stats on Spark beside a real S3 server: what the local engine says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from icectl.checks.rules import Level
from icectl.model.ids import ChunkId
from icectl.ops.stats.run import StatsOptions
from icectl.ops.validate.run import ValidateOptions
from icectl.pipeline.engine import Engine
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from icectl.storage.sharded_listing import SMALL_DIRECTORY, plan_shards_of
from tests.engines.comparisons import check_equal_findings, check_equal_stats
from tests.official import ic, zarr
from tests.servers.s3 import S3Server
from tests.spark import MARKS

pytestmark = [*MARKS, pytest.mark.server, pytest.mark.slow]
CHUNKS = SMALL_DIRECTORY + 200
CHUNKS_LEVEL = ValidateOptions(level=Level.CHUNKS)


@pytest.fixture(scope="module")
def storage(seaweedfs_server: S3Server) -> Storage:
    """A repository whose chunk files the official package wrote, too many for one page."""
    name = "validate-spark"
    config = ic.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 16
    repo = ic.Repository.create(seaweedfs_server.official_storage(name), config)
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    for name_, length, chunk in (("many", 8 * CHUNKS, 8), ("inline", 8, 2)):
        array = root.create_array(
            name_, shape=(length,), chunks=(chunk,), dtype="i8", compressors=None
        )
        array[...] = np.arange(1, length + 1)
    session.commit("many chunks")
    repo.create_tag("first", repo.lookup_branch("main"))
    session = repo.writable_session("main")
    zarr.open_group(session.store)["many"][: 8 * 50] = -1
    session.commit("some again")
    # The executors have credentials in their environment; where the server is, they are told.
    return open_storage(
        f"s3://{seaweedfs_server.bucket}/{name}", {"endpoint_url": seaweedfs_server.url}
    )


@pytest.fixture(autouse=True)
def credentials(seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)


def test_seaweedfs(storage: Storage, spark_engine: Engine) -> None:
    assert len(plan_shards_of(storage, "chunks", 16)) == 16
    sound = check_equal_findings(storage, spark_engine, CHUNKS_LEVEL)
    assert sound.engine == "spark"
    assert sound.findings == ()
    assert sound.checked.chunks == CHUNKS + 50
    check_equal_stats(
        storage, spark_engine, StatsOptions(by_branch=True, by_tag=True, by_snapshot=True)
    )
    check_equal_stats(storage, spark_engine, StatsOptions(ref="main"))

    chunks = sorted(info.path for info in storage.list("chunks"))
    gone, shorter, longer = chunks[:400], chunks[500], chunks[-1]
    list(storage.delete_many(gone))
    for path, change in ((shorter, lambda data: data[1:]), (longer, lambda data: data + b"x")):
        old = storage.read_versioned(path)
        storage.put_if_match(path, change(old.data), old.version)
    names = [f"chunks/{ChunkId.generate()}" for _ in range(SMALL_DIRECTORY)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: storage.put_if_absent(name, b"orphan"), names))
    storage.put_if_absent("chunks/notes.txt", b"foreign")
    found = check_equal_findings(storage, spark_engine, CHUNKS_LEVEL).findings
    by_code = {one.code: [two.object for two in found if two.code == one.code] for one in found}
    assert by_code == {
        "ICE0401": gone,
        "ICE0402": [shorter],
        "ICE0403": [longer],
        "ICE0404": ["chunks/"],
        "ICE0405": ["chunks/"],
    }
    check_equal_stats(storage, spark_engine, StatsOptions())
