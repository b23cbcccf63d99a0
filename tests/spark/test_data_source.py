"""What Spark reads is what the local engine reads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from icectl.tables.scan import TableScan, read_table
from icectl.tables.schemas import SCHEMAS
from icectl.tables.scope import Scope
from tests.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.spark import MARKS
from tests.tables.expected import comparable
from tests.tables.repositories import FIXTURES, WRITTEN, find_repository

pytestmark = MARKS


def load(spark: Any, path: object, table: str, **options: str) -> Any:
    return spark.read.format("icechunk").options(table=table, **options).load(str(path))


def rows_of(frame: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def local_rows(path: Path, table: str, scope: Scope | None = None) -> list[dict[str, Any]]:
    scan = TableScan(LocalStorage(path), table, scope or Scope())
    rows: list[dict[str, Any]] = pa.Table.from_batches(read_table(scan), scan.schema).to_pylist()
    return rows


@pytest.mark.parametrize("name", (*WRITTEN, *FIXTURES))
def test_every_table_equals_the_local_one(
    spark: Any, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = find_repository(name, tmp_path_factory)

    def compare(table: str) -> None:
        found = rows_of(load(spark, path, table, snapshot="all"))
        expected = local_rows(path, table, Scope(all_snapshots=True))
        assert comparable(found) == comparable(expected), table
        assert found or (table == "ops_log" and name.endswith("1"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compare, SCHEMAS))


def test_schemas_are_those_of_the_tables(spark: Any, zoo: Path) -> None:
    def check(table: str) -> None:
        arrow = load(spark, zoo, table).limit(0).toArrow().schema
        assert arrow.equals(SCHEMAS[table]), table

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, SCHEMAS))


def test_versions(spark: Any, zoo: Path) -> None:
    repository = open_repository(LocalStorage(zoo))
    branches = repository.branches()
    other = next(name for name in branches if name != "main")
    older = list(repository.ancestry(branches["main"]))[3]

    def ids(**options: str) -> set[str]:
        return {row["snapshot_id"] for row in rows_of(load(spark, zoo, "nodes", **options))}

    main, second = str(branches["main"]), str(branches[other])
    assert ids() == {main}
    assert ids(ref=f"main, {other}") == {main, second}
    assert ids(snapshot=f"{older.id},{second}") == {str(older.id), second}
    from tests.tables.expected import moment

    assert ids(as_of=moment(older.flushed_at).isoformat()) == {str(older.id)}


def test_columns_that_are_not_wanted_are_not_made(spark: Any, zoo: Path) -> None:
    whole = local_rows(zoo, "chunk_refs")
    expected = sorted((row["length"], row["path"]) for row in whole)
    by_schema = spark.read.format("icechunk").schema("length bigint, path string")
    by_schema = by_schema.option("table", "chunk_refs").load(str(zoo))
    by_option = load(spark, zoo, "chunk_refs", columns="length, path")
    for frame in (by_schema, by_option):
        assert frame.columns == ["length", "path"]
        assert sorted((row.length, row.path) for row in frame.collect()) == expected


@pytest.mark.parametrize(
    ("condition", "keeps"),
    [
        ("path = '/native'", lambda row: row["path"] == "/native"),
        ("path in ('/native', '/mixed') and kind = 'native'", lambda row: row["path"] in ("/native", "/mixed") and row["kind"] == "native"),
        ("path like '/nat%'", lambda row: row["path"].startswith("/nat")),
        ("path <=> '/native' and length > 0", lambda row: row["path"] == "/native"),
    ],
)  # fmt: skip
def test_manifests_that_cannot_match_are_not_read(
    spark: Any,
    zoo: Path,
    tmp_path: Path,
    condition: str,
    keeps: Callable[[dict[str, Any]], bool],
) -> None:
    """All other manifests are taken away: reading one of them would fail."""
    from tests.official import copied

    mine = copied(zoo, tmp_path / "repo")
    expected = [row for row in local_rows(mine, "chunk_refs") if keeps(row)]
    needed = {
        row["manifest_id"]
        for row in local_rows(mine, "chunk_refs")
        if row["path"] in ("/native", "/mixed")
    }
    for file in (mine / "manifests").iterdir():
        if file.name not in needed:
            file.unlink()
    found = rows_of(load(spark, mine, "chunk_refs").where(condition))
    assert comparable(found) == comparable(expected)
    assert expected
    with pytest.raises(Exception, match="manifests/"):
        load(spark, mine, "chunk_refs").where("length > 0").count()


def test_snapshot_files_that_cannot_match_are_not_read(
    spark: Any, zoo: Path, tmp_path: Path
) -> None:
    from tests.official import copied

    mine = copied(zoo, tmp_path / "repo")
    tip = str(open_repository(LocalStorage(mine)).branches()["main"])
    expected = local_rows(mine, "nodes")
    for file in (mine / "snapshots").iterdir():
        if file.name != tip:
            file.unlink()
    found = rows_of(load(spark, mine, "nodes", snapshot="all").where(f"snapshot_id = '{tip}'"))
    assert comparable(found) == comparable(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "chunks"}, "'chunks'"),
        ({"table": "refs", "secret_access_key": "hunter2"}, "secret_access_key"),
        ({"table": "refs", "storage.token": "hunter2"}, "token"),
        ({"table": "refs", "as_of": "yesterday"}, "as_of"),
        ({"table": "refs", "ref": "main", "snapshot": "all"}, "snapshot"),
        ({}, "table"),
    ],
)
def test_wrong_options(spark: Any, zoo: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message) as raised:
        spark.read.format("icechunk").options(**options).load(str(zoo)).count()
    assert "hunter2" not in str(raised.value)


def test_a_location_with_a_password(spark: Any) -> None:
    with pytest.raises(Exception, match="a user name or a password") as raised:
        load(spark, "s3://me:hunter2@bucket/repo", "refs").count()
    assert "hunter2" not in str(raised.value)


@pytest.mark.server
def test_storage_options_reach_the_executors_and_credentials_stay_out(
    spark: Any, seaweedfs_server: S3Server, event_logs: Path, tmp_path: Path
) -> None:
    from tests.official import build_zoo

    build_zoo(seaweedfs_server.official_storage("spark/zoo"), 2, source=tmp_path / "virtual")
    options = {
        "storage.endpoint_url": seaweedfs_server.url,
        "storage.force_path_style": "true",
        "storage.region": "us-east-1",
    }
    frame = load(spark, f"s3://{seaweedfs_server.bucket}/spark/zoo", "chunk_refs", **options)
    assert len(rows_of(frame)) > 100
    objects = load(spark, f"s3://{seaweedfs_server.bucket}/spark/zoo", "objects", **options)
    assert objects.where("kind = 'chunk'").count() > 50
    plans = "".join(
        frame._jdf.queryExecution().explainString(
            spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString(mode)
        )
        for mode in ("extended", "formatted")
    )
    (log,) = event_logs.iterdir()
    text = log.read_text(errors="replace")
    assert "BatchScan icechunk" in plans and "BatchScan icechunk" in text
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret not in plans and secret not in text
