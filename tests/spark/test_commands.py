"""`icectl sql` and `icectl export --engine spark`, in the session of the test process."""

from __future__ import annotations

import csv
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from icectl.cli.main import run
from icectl.spark.tables import check_query, plan_views
from icectl.tables.schemas import SCHEMAS
from tests.command_line import Outcome
from tests.official import copied, open_official
from tests.official.histories import commit
from tests.spark import MARKS
from tests.tables.expected import comparable

pytestmark = MARKS


@pytest.fixture
def icectl(spark: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments], os.environ)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


def test_a_query_in_each_form(icectl: Callable[..., Outcome], zoo: Path) -> None:
    query = (
        "select path, coordinates, offset, last_modified, cast(length as decimal(9, 1)) as size "
        "from chunk_refs where path = '/virtual' order by coordinates"
    )
    document = icectl("sql", query, "-r", zoo, "--json").document
    assert [column["name"] for column in document["columns"]] == [
        "path", "coordinates", "offset", "last_modified", "size"
    ]  # fmt: skip
    assert document["rows"][1:3] == [
        {"path": "/virtual", "coordinates": [1], "offset": 2**33, "last_modified": None, "size": "10.0"},
        {"path": "/virtual", "coordinates": [2], "offset": 5, "last_modified": "2024-02-29T12:00:00.000000Z", "size": "10.0"},
    ]  # fmt: skip
    lines = icectl("sql", query, "-r", zoo, "--jsonl", "-n", "2").out.splitlines()
    assert [json.loads(line) for line in lines] == document["rows"][:2]
    text = icectl("sql", query, "-r", zoo).out.splitlines()
    assert text[0].split() == ["path", "coordinates", "offset", "last_modified", "size"]
    assert text[2].split() == ["/virtual", "[1]", str(2**33), "10.0"]


def test_the_tables_are_views(icectl: Callable[..., Outcome], zoo: Path) -> None:
    rows = icectl("sql", "show tables", "-r", zoo, "--json").document["rows"]
    assert sorted(row["tableName"] for row in rows if row["isTemporary"]) == sorted(SCHEMAS)


def test_a_query_of_the_past(icectl: Callable[..., Outcome], zoo: Path, tmp_path: Path) -> None:
    where = copied(zoo, tmp_path / "repo")
    repo = open_official(where)
    query = "select name from refs where kind = 'branch' order by name"
    before = icectl("sql", query, "-r", where, "--json").document
    repo.create_branch("of today", repo.lookup_branch("main"))
    with commit(repo, "more", branch="of today") as root:
        root.attrs["more"] = True
    after = icectl("sql", query, "-r", where, "--json").document
    assert len(after["rows"]) == len(before["rows"]) + 1
    assert icectl("sql", query, "-r", where, "--json", "--at-op", "@2").document == before
    count = "select count(*) as n from snapshots"
    counts = [
        icectl("sql", count, "-r", where, "--json", "--at-op", f"@{number}").document["rows"][0][
            "n"
        ]
        for number in (0, 1, 2)
    ]
    assert counts == [counts[2] + 1, counts[2], counts[2]]


def test_versions_of_a_query(icectl: Callable[..., Outcome], zoo: Path) -> None:
    query = "select count(distinct snapshot_id) as n from nodes"

    def count(*arguments: str) -> int:
        rows = icectl("sql", query, "-r", zoo, "--json", *arguments).document["rows"]
        return int(rows[0]["n"])

    assert count() == 1
    assert count("--ref", "main", "--ref", "main~1") == 2
    assert count("--all-snapshots") > 10


@pytest.mark.parametrize(
    ("query", "arguments", "code", "message"),
    [
        ("select (path from nodes", (), 2, "PARSE_SYNTAX_ERROR"),
        ("", (), 2, "the query is empty"),
        ("/* later */", (), 2, "the query is empty"),
        ("selec path from nodes", (), 2, "none begins with selec"),
        ("drop table refs", (), 2, "none begins with drop"),
        ("/* a query? */ create table x as select 1", (), 2, "none begins with create"),
        (
            "with x as (select 1) insert overwrite directory 'x' select 1",
            (),
            2,
            "only queries can be run",
        ),
        ("select nothing from nodes", (), 2, "UNRESOLVED_COLUMN"),
        ("select path from nodez", (), 2, "nodez"),
        ("select path, path from nodes", (), 2, "two columns of the result are named path"),
        ("select path from nodes", ("--ref", "nobody"), 12, "nobody"),
        ("select path from nodes", ("--ref", "main", "--all-snapshots"), 2, "combined"),
        ("select path from nodes", ("--spark-conf", "memory=2g"), 2, "--spark-conf"),
        ("select path from nodes", ("--spark-master", "a", "--spark-remote", "b"), 2, "combined"),
    ],
)
def test_mistakes(
    icectl: Callable[..., Outcome],
    zoo: Path,
    query: str,
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    outcome = icectl("sql", query, "-r", zoo, "--json", *arguments)
    assert outcome.code == code
    assert message in outcome.error["message"]
    if query == "" or "nodez" in query:
        assert outcome.error["hint"].startswith("the tables are refs, snapshots, ")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "(select 1) union (select 2)",
        "-- a question\nwith x as (select 1) select * from x",
        "select 'insert into' as text from refs",
        "from refs |> select name",
        "table refs",
        "describe refs",
        "explain select 1",
    ],
)
def test_what_is_a_query(query: str) -> None:
    check_query(query)


def test_damage_in_an_executor_keeps_its_exit_code(
    icectl: Callable[..., Outcome], zoo: Path, tmp_path: Path
) -> None:
    from tests.official import copied

    mine = copied(zoo, tmp_path / "repo")
    for file in (mine / "manifests").iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    outcome = icectl("sql", "select count(*) from chunk_refs", "-r", mine, "--json")
    assert outcome.code == 13
    assert outcome.error["kind"] == "damaged"
    assert outcome.error["message"].startswith("manifests/")
    for file in (mine / "manifests").iterdir():
        file.unlink()
    outcome = icectl(
        "export",
        "chunk_refs",
        "-r",
        mine,
        "--to",
        tmp_path / "x",
        "--engine",
        "spark",
        "--json",
        "--quiet",
    )
    # As on the local engine: the repository refers to the file, so the repository is damaged.
    assert (outcome.code, outcome.error["kind"]) == (13, "damaged")
    assert outcome.error["message"].startswith("manifests/")


def parts(directory: Path) -> list[Path]:
    return sorted(file for file in directory.iterdir() if not file.name.startswith(("_", ".")))


@pytest.mark.parametrize("format_", ["parquet", "csv", "jsonl"])
def test_export_equals_the_local_one(
    icectl: Callable[..., Outcome], zoo: Path, tmp_path: Path, format_: str
) -> None:
    tables = ("chunk_refs", "snapshots", "nodes")
    mine = copied(zoo, tmp_path / "repo")
    with commit(open_official(mine), "  spaces around  ") as root:
        root.create_group(" and in ")
    for engine in ("local", "spark"):
        arguments = ("--to", tmp_path / engine, "--format", format_, "--engine", engine)
        outcome = icectl("export", *tables, "-r", mine, "--json", *arguments)
        assert outcome.code == 0, outcome.err
        assert outcome.document["engine"] == engine

    def read(file: Path) -> list[dict[str, Any]]:
        if format_ == "parquet":
            table = pq.read_table(file, partitioning=None)
            assert table.schema.names == SCHEMAS[file.parent.name].names
            rows: list[dict[str, Any]] = table.to_pylist()
            return rows
        with file.open(newline="") as lines:
            return list(csv.DictReader(lines)) if format_ == "csv" else list(map(json.loads, lines))

    for table in tables:
        local, spark = (
            [row for file in parts(tmp_path / engine / table) for row in read(file)]
            for engine in ("local", "spark")
        )
        assert local and comparable(spark) == comparable(local)
    again = icectl(
        "export", "nodes", "-r", zoo, "--to", tmp_path / "spark", "--engine", "spark", "--json"
    )
    assert again.error["kind"] == "refused"


@pytest.mark.usefixtures("spark")
def test_the_session_of_the_tests_leaves_no_credentials_in_this_process() -> None:
    assert [name for name in os.environ if name.startswith("AWS_")] == []


def test_views_have_what_a_query_names() -> None:
    assert plan_views(
        "SELECT path, Count( * ) FROM Chunk_Refs WHERE kind = 'native' GROUP BY 1"
    ) == {"chunk_refs": ("path", "kind")}
    assert plan_views("select count(*) from objects") == {"objects": ("kind",)}
    assert plan_views("select * from refs") == {"refs": ("kind", "name", "snapshot_id")}
    assert set(plan_views("select 1")) == set(SCHEMAS)
    everything = tuple(SCHEMAS["refs"].names)
    assert plan_views("select name from refs natural join nodes")["refs"] == everything
    assert plan_views("table refs")["refs"] == everything
    assert plan_views("from refs |> where kind = 'tag'")["refs"] == everything


def test_java_that_starts_writes_nothing_of_its_own(zoo: Path, tmp_path: Path) -> None:
    """Not even its warning of incubator modules: an error is one JSON object."""

    def call(query: str, *arguments: str) -> Outcome:
        words = ["sql", query, "-r", str(zoo), "--json", *arguments]
        done = subprocess.run(
            [sys.executable, "-m", "icectl.cli.main", *words],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    outcome = call("select foo from refs")
    assert outcome.code == 2
    assert "UNRESOLVED_COLUMN" in outcome.error["message"]
    assert list(tmp_path.iterdir()) == []
    outcome = call("select 1", "--spark-conf", "spark.driver.memory=much")
    assert outcome.code == 1
    assert outcome.error["message"].startswith("Spark did not start: Invalid maximum heap size")
    outcome = call("select 1", "--spark-master", "nobody://host")
    assert outcome.error["message"].startswith("Spark did not start: Master must ")


def test_export_chooses_its_engine_as_other_commands_do(
    icectl: Callable[..., Outcome], zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count()

    def chosen(*more: str) -> str:
        to = tmp_path / str(next(numbers))
        outcome = icectl("export", "chunk_refs", "-r", zoo, "--to", to, "--json", *more)
        assert outcome.code == 0, outcome.err
        engine: str = outcome.document["engine"]
        return engine

    assert chosen() == "local"
    with monkeypatch.context() as few_are_enough:
        few_are_enough.setattr("icectl.cli.engines.ROWS_FOR_SPARK", 1)
        assert chosen() == "spark"
        assert chosen("--engine", "local") == "local"
    with monkeypatch.context() as submitted:
        submitted.setenv("PYSPARK_GATEWAY_PORT", "1")
        assert chosen() == "spark"
    words = ("export", "refs", "-r", zoo, "--to", tmp_path / "none", "--engine", "local")
    assert icectl(*words, "--spark-master", "local").code == 2


def test_without_java(zoo: Path, tmp_path: Path) -> None:
    def call(*arguments: object, **variables: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "icectl.cli.main", *map(str, arguments), "--json"],
            env={"PATH": str(tmp_path), "HOME": str(tmp_path), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    outcome = call("sql", "select 1", "-r", zoo)
    assert outcome.code == 15
    assert outcome.error["message"] == "icectl sql needs Spark: Java is not installed"
    assert outcome.error["hint"].startswith("install Java 17 or newer")
    # Spark would take it, though there may be a Java in PATH.
    outcome = call("sql", "select 1", "-r", zoo, PATH=os.environ["PATH"], JAVA_HOME="/nope")
    assert outcome.code == 15
    assert outcome.error["message"].endswith("JAVA_HOME is /nope, which has no bin/java")
    outcome = call("export", "refs", "-r", zoo, "--to", tmp_path / "x", "--engine", "spark")
    assert (outcome.code, outcome.error["kind"]) == (15, "unsupported")
    # Without Java the local engine still works.
    assert call("export", "refs", "-r", zoo, "--to", tmp_path / "y").document["engine"] == "local"
