"""`icectl export` with the local engine."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.pipeline.table_files import _json_lines
from icectl.storage.local import LocalStorage
from icectl.tables.scan import TableScan, read_table
from icectl.tables.schemas import INTEGER, INTEGERS, SCHEMAS, TEXT, TEXTS
from tests.command_line import Icectl, environ, icectl
from tests.tables.repositories import find_repository

__all__ = ["environ", "icectl"]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_repository("zoo-2", tmp_path_factory)


def local_table(path: Path, table: str) -> Any:
    scan = TableScan(LocalStorage(path), table)
    return pa.Table.from_batches(read_table(scan), scan.schema)


def test_parquet_of_every_table(icectl: Icectl, zoo: Path, tmp_path: Path) -> None:
    outcome = icectl("export", "all", "-r", str(zoo), "--to", str(tmp_path / "x"), "--json")
    assert outcome.code == 0, outcome.err
    document = outcome.document
    assert (document["engine"], document["format"]) == ("local", "parquet")
    assert [entry["table"] for entry in document["tables"]] == list(SCHEMAS)
    for entry in document["tables"]:
        found = pq.read_table(entry["path"], partitioning=None)
        assert found.equals(local_table(zoo, entry["table"]))
        assert found.num_rows == entry["num_rows"]


def test_csv_and_jsonl(icectl: Icectl, zoo: Path, tmp_path: Path) -> None:
    for format_ in ("csv", "jsonl"):
        arguments = ("-r", str(zoo), "--to", str(tmp_path / format_), "--format", format_)
        outcome = icectl("export", "chunk_refs", "snapshots", *arguments)
        assert outcome.code == 0, outcome.err
        assert f"snapshots: {tmp_path / format_ / 'snapshots'}" in outcome.out
    whole = local_table(zoo, "chunk_refs").to_pylist()
    lines = (tmp_path / "jsonl/chunk_refs/part-00000.jsonl").read_text().splitlines()
    for row, line in zip(whole, lines, strict=True):
        row["last_modified"] = row["last_modified"] and row["last_modified"].strftime(
            "%Y-%m-%dT%H:%M:%S.%fZ"
        )
        assert json.loads(line) == row
    with (tmp_path / "csv/chunk_refs/part-00000.csv").open(newline="") as file:
        for row, cells in zip(whole, csv.DictReader(file), strict=True):
            assert json.loads(cells["coordinates"]) == row["coordinates"]
            for name in ("path", "chunk_id", "location", "offset", "last_modified"):
                assert cells[name] == ("" if row[name] is None else str(row[name]))


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "text": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
                "number": st.none() | st.integers(-(2**63), 2**63 - 1),
                "numbers": st.none() | st.lists(st.integers(0, 2**40)),
                'te"xts': st.none() | st.lists(st.none() | st.text('ab,"\\\n\0é☃')),
            }
        )
    )
)
def test_json_lines_are_those_of_json(rows: list[dict[str, Any]]) -> None:
    schema = pa.schema({"text": TEXT, "number": INTEGER, "numbers": INTEGERS, 'te"xts': TEXTS})
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    ordered = [{name: row[name] for name in schema.names} for row in rows]
    expected = [
        json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in ordered
    ]
    assert bytes(_json_lines(batch)).decode() == "".join(expected)
    # A part of a batch has its buffers and begins elsewhere.
    assert bytes(_json_lines(batch.slice(2))).decode() == "".join(expected[2:])


def test_versions(icectl: Icectl, zoo: Path, tmp_path: Path) -> None:
    def ids(name: str, *arguments: str) -> set[str]:
        to = tmp_path / name
        assert icectl("export", "nodes", "-r", str(zoo), "--to", str(to), *arguments).code == 0
        return set(pq.read_table(to / "nodes", partitioning=None)["snapshot_id"].to_pylist())

    assert len(ids("one", "--ref", "main~1")) == 1
    assert len(ids("two", "--ref", "main~1", "--ref", "main")) == 2
    assert len(ids("every", "--all-snapshots")) > 10
    assert len(ids("now", "--as-of", "0s")) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("chunks",), 2, "there is no table 'chunks'"),
        (("nodes", "--ref", "nobody"), 12, "nobody"),
        (("nodes", "--ref", "main", "--all-snapshots"), 2, "combined"),
        (("nodes", "--format", "xml"), 2, "xml"),
        (("nodes", "--as-of", "2001-01-01"), 12, "no snapshot as old"),
    ],
)
def test_mistakes(
    icectl: Icectl, zoo: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    outcome = icectl("export", *arguments, "-r", str(zoo), "--to", str(tmp_path / "x"), "--json")
    assert outcome.code == code
    assert message in outcome.error["message"]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("format_", ["parquet", "csv"])
@pytest.mark.parametrize("to", ["s3://bucket/tables", "gs://b/t", "s3a://b/t", "hdfs://h/x", ""])
def test_a_target_that_is_no_directory(
    icectl: Icectl,
    zoo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    to: str,
    format_: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("export", "refs", "-r", str(zoo), "--to", to, "--format", format_, "--json")
    outcome = icectl(*words)
    assert outcome.code == 2
    if to:
        assert outcome.error["message"].startswith("the local engine writes only to directories")
        assert outcome.error["hint"] == "add --engine spark to write to a URL"
    assert list(tmp_path.iterdir()) == []


def test_a_file_url_is_its_path(icectl: Icectl, zoo: Path, tmp_path: Path) -> None:
    to = tmp_path / "here and there"
    outcome = icectl("export", "refs", "-r", str(zoo), "--to", to.as_uri(), "--json")
    assert outcome.document["tables"][0]["path"] == str(to / "refs")
    assert [file.name for file in (to / "refs").iterdir()] == ["part-00000.parquet"]


def test_nothing_is_overwritten(icectl: Icectl, zoo: Path, tmp_path: Path) -> None:
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "mine").write_text("precious")
    outcome = icectl("export", "nodes", "refs", "-r", str(zoo), "--to", str(tmp_path), "--json")
    assert (outcome.code, outcome.error["kind"]) == (16, "refused")
    assert [file.name for file in tmp_path.iterdir() if file.name != "config"] == ["refs"]


def test_a_damaged_file_leaves_nothing_behind(icectl: Icectl, zoo: Path, tmp_path: Path) -> None:
    from tests.official import copied

    mine = copied(zoo, tmp_path / "repo")
    for file in (mine / "manifests").iterdir():
        file.write_bytes(file.read_bytes()[:-3])
    to = tmp_path / "x"
    outcome = icectl("export", "nodes", "chunk_refs", "-r", str(mine), "--to", str(to), "--json")
    assert (outcome.code, outcome.error["kind"]) == (13, "damaged")
    assert [file.name for file in to.iterdir()] == ["nodes"]


def test_without_pyarrow(zoo: Path, tmp_path: Path) -> None:
    code = (
        "import sys, os; sys.modules['pyarrow'] = None\n"
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'pyarrow' else find(name, *rest)\n"
        "from icectl.cli.main import run; sys.exit(run(sys.argv[1:], os.environ))"
    )

    def export(table: str) -> subprocess.CompletedProcess[str]:
        words = ["export", table, "-r", str(zoo), "--to", str(tmp_path / "x")]
        return subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
        )

    assert "there is no table 'reffs'" in export("reffs").stderr
    done = export("refs")
    assert done.returncode == 15
    assert "the tables need pyarrow, which is not installed" in done.stderr
    assert "icectl[spark]" in done.stderr
