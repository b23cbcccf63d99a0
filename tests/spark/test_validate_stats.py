"""The Spark engines of validate and stats: what the local engines say, from the cluster."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.checks.rules import Level
from icectl.cli.main import run
from icectl.errors import FormatError
from icectl.ops.expire.policy import Policy
from icectl.ops.stats.result import StatsResult
from icectl.ops.stats.run import StatsOptions, measure
from icectl.ops.validate.findings import Report
from icectl.ops.validate.result import ValidateResult
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.ops.validate.sampling import Sample
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.compat.test_without_identifier import strip_identifiers
from tests.gc.repositories import messy_repository, now
from tests.official import built, copied
from tests.spark import MARKS
from tests.stats.test_containers import relative_locations
from tests.tables.repositories import find_repository
from tests.validate.damage import Patient, build, copied_with_source
from tests.validate.damages import DAMAGES

pytestmark = MARKS
REPOSITORIES = ("zoo-1", "zoo-2", "random-1", "random-2", "test-repo-alpha8")
DAMAGED_TOGETHER = (
    ("ICE0309", "ICE0404", "ICE0405", "ICE0502"),
    ("ICE0313", "ICE0316", "ICE0401"),
    ("ICE0310", "ICE0402", "ICE0503"),
)
"""Damages of manifests and chunks that do not hide each other."""


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
    check_equal_stats(
        spark, repository, StatsOptions(by_branch=True, by_tag=True, by_snapshot=True)
    )


def test_stats_of_relative_locations_are_the_same(spark: Any, tmp_path: Path) -> None:
    relative_locations(tmp_path / "repo", 2)
    check_equal_stats(spark, tmp_path / "repo", StatsOptions())


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


def validate_on_spark(
    spark: Any, where: Path, options: ValidateOptions
) -> tuple[ValidateResult, Report]:
    from icectl.spark.validate import SparkValidateEngine

    options = replace(options, choose_engine=lambda num_chunk_refs: SparkValidateEngine(spark))
    return validate(LocalStorage(where), options)


def check_equal_findings(spark: Any, where: Path, options: ValidateOptions) -> ValidateResult:
    told, report = validate_on_spark(spark, where, options)
    expected, expected_report = validate(LocalStorage(where), options)
    assert replace(told, engine="local") == expected
    assert sorted(report.missing) == sorted(expected_report.missing)
    assert sorted(report.lost_files) == sorted(expected_report.lost_files)
    return told


def test_validation_is_the_same(spark: Any, repository: Path) -> None:
    options = ValidateOptions(level=Level.DATA, decode=True)
    told = check_equal_findings(spark, repository, options)
    assert told.engine == ("local" if "alpha" in repository.name else "spark")
    assert told.errors == 0


def test_files_without_the_identifier(
    spark: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mine = copied(built(tmp_path_factory, build, 2), tmp_path / "repo")
    strip_identifiers(mine, 2)
    told = check_equal_findings(spark, mine, ValidateOptions(level=Level.CHUNKS))
    assert (told.engine, told.findings) == ("spark", ())
    check_equal_stats(spark, mine, StatsOptions())


def test_a_sample_is_the_same(spark: Any, messy: Path) -> None:
    for text in ("1/3", "2kB"):
        options = ValidateOptions(level=Level.DATA, sample=Sample.parse(text), now=now())
        told = check_equal_findings(spark, messy, options)
        assert 0 < told.checked.chunks_read < told.checked.chunks


@pytest.mark.parametrize(
    ("spec_version", "damaged"), [(1, DAMAGED_TOGETHER[1:2]), (2, DAMAGED_TOGETHER)]
)
def test_damage_below_the_metadata_is_found_on_spark(
    spark: Any,
    spec_version: int,
    damaged: tuple[tuple[str, ...], ...],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    whole = built(tmp_path_factory, build, spec_version)
    found: set[str] = set()
    for number, codes in enumerate(damaged):
        mine = copied_with_source(whole, tmp_path / str(number) / "repo")
        for code in codes:
            DAMAGES[code](Patient(mine))
        options = ValidateOptions(level=Level.DATA, decode=True)
        told = check_equal_findings(spark, mine, options)
        assert told.engine == "spark"
        found |= {finding.code for finding in told.findings}
    assert {code for codes in damaged for code in codes} <= found


@pytest.mark.parametrize("words", [("stats",), ("validate", "--level", "chunks")])
def test_commands_run_on_spark(
    spark: Any, messy: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*words, "--engine", "spark", "--json", "-r", str(messy)], os.environ)
    document = json.loads(capsys.readouterr().out)
    assert (code, document["engine"]) == (0, "spark")


@pytest.mark.parametrize("command", ["stats", "validate"])
def test_without_java_there_is_one_sentence(
    messy: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert run([command, "--engine", "spark", "-r", str(messy)], os.environ) == 15
    assert "Spark cannot be used: Java is not installed" in capsys.readouterr().err
