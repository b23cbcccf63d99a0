"""The Spark engines of validate and stats: what the local engines say, from the cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from icectl.checks.rules import Level
from icectl.cli.main import run
from icectl.errors import FormatError
from icectl.ops.expire.policy import Policy
from icectl.ops.stats.run import StatsOptions, measure
from icectl.ops.validate.run import ValidateOptions
from icectl.pipeline.engine import Engine
from icectl.pipeline.sampling import Sample
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.compat.identifiers import strip_identifiers
from tests.engines.comparisons import check_equal_findings, check_equal_stats
from tests.gc.repositories import messy_repository, now
from tests.official import built, copied
from tests.spark import MARKS
from tests.tables.repositories import find_repository
from tests.validate.damage import Patient, build, copied_with_source
from tests.validate.damages import DAMAGES

pytestmark = MARKS
REPOSITORIES = ("zoo-1", "zoo-2", "random-1", "random-2", "test-repo-alpha8")
DAMAGED_TOGETHER = (
    ("ICE0404", "ICE0405", "ICE0502"),
    ("ICE0313", "ICE0316", "ICE0401"),
    ("ICE0310", "ICE0402", "ICE0503"),
    ("ICE0309",),
)
"""Damages of manifests and chunks that do not hide each other.

Beside a manifest that cannot be read (ICE0309), nothing is called unreferenced (ICE0404)."""


@pytest.fixture(scope="module", params=REPOSITORIES)
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_repository(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, messy_repository, 2)


def test_stats_are_the_same(spark_engine: Engine, repository: Path) -> None:
    check_equal_stats(
        LocalStorage(repository),
        spark_engine,
        StatsOptions(by_branch=True, by_tag=True, by_snapshot=True, by_growth=True),
    )


def test_stats_of_what_could_go_and_of_one_version_are_the_same(
    spark_engine: Engine, messy: Path
) -> None:
    check_equal_stats(
        LocalStorage(messy), spark_engine, StatsOptions(policy=Policy(older_than=now()))
    )
    check_equal_stats(LocalStorage(messy), spark_engine, StatsOptions(ref="main"))


def test_stats_name_the_manifest_that_is_damaged(
    spark_engine: Engine, messy: Path, tmp_path: Path
) -> None:
    mine = copied(messy, tmp_path / "repo")
    opened = open_repository(LocalStorage(mine))
    snapshot = opened.read_snapshot(opened.resolve("main").snapshot_id)
    name = f"manifests/{snapshot.all_manifest_files[0].id}"
    (mine / name).write_bytes(b"no manifest")
    with pytest.raises(FormatError) as failure:
        measure(
            open_repository(LocalStorage(mine)), StatsOptions(choose_engine=lambda _: spark_engine)
        )
    assert failure.value.path == name


def test_validation_is_the_same(spark_engine: Engine, repository: Path) -> None:
    options = ValidateOptions(level=Level.DATA, decode=True)
    told = check_equal_findings(LocalStorage(repository), spark_engine, options)
    assert told.engine == ("local" if "alpha" in repository.name else "spark")
    assert told.errors == 0


def test_files_without_the_identifier(
    spark_engine: Engine, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mine = copied(built(tmp_path_factory, build, 2), tmp_path / "repo")
    strip_identifiers(mine, 2)
    told = check_equal_findings(
        LocalStorage(mine), spark_engine, ValidateOptions(level=Level.CHUNKS)
    )
    assert (told.engine, told.findings) == ("spark", ())
    check_equal_stats(LocalStorage(mine), spark_engine, StatsOptions())


def test_a_sample_is_the_same(spark_engine: Engine, messy: Path) -> None:
    for text in ("1/3", "2kB"):
        options = ValidateOptions(level=Level.DATA, sample=Sample.parse(text), now=now())
        told = check_equal_findings(LocalStorage(messy), spark_engine, options)
        assert 0 < told.checked.chunks_read < told.checked.chunks


@pytest.mark.parametrize(
    ("spec_version", "damaged"), [(1, DAMAGED_TOGETHER[1:2]), (2, DAMAGED_TOGETHER)]
)
def test_damage_below_the_metadata_is_found_on_spark(
    spark_engine: Engine,
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
        told = check_equal_findings(LocalStorage(mine), spark_engine, options)
        assert told.engine == "spark"
        found |= {finding.code for finding in told.findings}
    assert {code for codes in damaged for code in codes} <= found


@pytest.mark.parametrize("words", [("stats",), ("validate", "--level", "chunks")])
def test_commands_run_on_spark(
    spark_engine: Engine, messy: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
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
