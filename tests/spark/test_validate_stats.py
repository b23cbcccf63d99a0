"""The Spark engines of validate and stats: what the local engines say, from the cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.errors import FormatError
from icectl.ops.expire.policy import Policy
from icectl.ops.stats.result import StatsResult
from icectl.ops.stats.run import StatsOptions, measure
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.gc.repositories import messy_repository, now
from tests.official import built, copied
from tests.spark import MARKS
from tests.tables.repositories import find_repository

pytestmark = MARKS
REPOSITORIES = ("zoo-1", "zoo-2", "random-1", "random-2", "test-repo-alpha8")


@pytest.fixture(scope="module", params=REPOSITORIES)
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_repository(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, messy_repository, 2)


def measure_on_spark(spark: Any, where: Path, options: StatsOptions) -> StatsResult:
    from icectl.spark.stats import SparkStatsEngine

    options = replace(options, choose_engine=lambda num_chunk_refs: SparkStatsEngine(spark))
    return measure(open_repository(LocalStorage(where)), options)


def check_equal_stats(spark: Any, where: Path, options: StatsOptions) -> None:
    told = measure_on_spark(spark, where, options)
    assert told.engine == "spark"
    expected = measure(open_repository(LocalStorage(where)), options)
    assert replace(told, engine="local") == expected


def test_stats_are_the_same(spark: Any, repository: Path) -> None:
    check_equal_stats(spark, repository, StatsOptions(by_ref=True, by_snapshot=True))


def test_stats_of_what_could_go_and_of_one_version_are_the_same(spark: Any, messy: Path) -> None:
    check_equal_stats(spark, messy, StatsOptions(policy=Policy(older_than=now())))
    check_equal_stats(spark, messy, StatsOptions(ref="main"))


def test_stats_name_the_manifest_that_is_damaged(spark: Any, messy: Path, tmp_path: Path) -> None:
    mine = copied(messy, tmp_path / "repo")
    opened = open_repository(LocalStorage(mine))
    snapshot = opened.read_snapshot(opened.resolve("main").snapshot_id)
    name = f"manifests/{snapshot.all_manifest_files[0].id}"
    (mine / name).write_bytes(b"no manifest")
    with pytest.raises(FormatError) as failure:
        measure_on_spark(spark, mine, StatsOptions())
    assert failure.value.path == name
