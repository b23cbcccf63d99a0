"""Every table says what the files say, in each generation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icectl.errors import FormatError, RefNotFoundError, UnsupportedError, UsageError
from icectl.ops.ops_log import OpsLogOptions, read_filtered_ops_log
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from icectl.tables.names import TABLES
from icectl.tables.scan import TableScan, read_table
from icectl.tables.schemas import SCHEMAS
from icectl.tables.scope import Condition, Scope
from tests.failures import raises
from tests.tables.expected import EXPECTED, comparable, moment
from tests.tables.repositories import FIXTURES, LEGACY, WRITTEN, find_repository

Row = dict[str, Any]


def rows_of(scan: TableScan) -> list[Row]:
    batches = list(read_table(scan))
    table = pa.Table.from_batches(batches, scan.schema)
    table.validate(full=True)
    rows: list[Row] = table.to_pylist()
    return rows


@pytest.fixture(scope="module", params=(*WRITTEN, *FIXTURES))
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_repository(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_repository("zoo-2", tmp_path_factory)


@pytest.mark.parametrize("every", [False, True], ids=["main", "every snapshot"])
@pytest.mark.parametrize("table", EXPECTED)
def test_rows_are_those_of_the_files(path: Path, table: str, every: bool) -> None:
    storage = LocalStorage(path)
    found = rows_of(TableScan(storage, table, Scope(all_snapshots=every)))
    expected = list(EXPECTED[table](open_repository(storage), every))
    assert comparable(found) == comparable(expected)
    if table != "objects":
        assert found or table in ("manifests", "chunk_refs")


def test_ops_log(path: Path) -> None:
    repository = open_repository(LocalStorage(path))
    found = rows_of(TableScan(repository.storage, "ops_log"))
    if repository.info is None:
        assert found == []
        return
    entries: list[Any] = list(read_filtered_ops_log(repository, OpsLogOptions()))
    assert [
        (row["position"], row["kind"], row["updated_at"], row["backup_path"]) for row in found
    ] == [
        (
            position,
            entry.update.update_type.kind,
            moment(entry.update.updated_at),
            entry.update.backup_path,
        )
        for position, entry in enumerate(entries)
    ]
    for row, entry in zip(found, entries, strict=True):
        update = entry.update.update_type
        assert row["ref"] == getattr(update, "name", getattr(update, "branch", None))
        target = getattr(update, "new_snap_id", entry.target)
        assert row["snapshot_id"] == (None if target is None else str(target))
        previous = getattr(update, "previous_snap_id", None)
        assert row["previous_snapshot_id"] == (None if previous is None else str(previous))
        assert isinstance(json.loads(row["details"]), dict)


@pytest.mark.parametrize("name", LEGACY)
def test_legacy_generations(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    storage = LocalStorage(find_repository(name, tmp_path_factory))
    repository = open_repository(storage)
    for table in ("refs", "snapshots", "nodes", "chunk_refs"):
        found = rows_of(TableScan(storage, table, Scope(all_snapshots=True)))
        if table == "nodes":
            assert {row["path"] for row in found} >= {"/"}
        else:
            assert comparable(found) == comparable(list(EXPECTED[table](repository, True)))
    if repository.layout.transactions is None:
        with pytest.raises(UnsupportedError):
            rows_of(TableScan(storage, "changes"))


def test_official_package_sees_the_same_chunks(zoo: Path) -> None:
    import asyncio

    from tests.official import open_official

    store = open_official(zoo).readonly_session("main")
    found: dict[str, set[tuple[int, ...]]] = {}
    for row in rows_of(TableScan(LocalStorage(zoo), "chunk_refs")):
        found.setdefault(row["path"], set()).add(tuple(row["coordinates"]))

    async def official(path: str) -> set[tuple[int, ...]]:
        return {tuple(one) async for one in store.chunk_coordinates(path)}

    assert len(found) > 5
    for path, coordinates in found.items():
        assert asyncio.run(official(path)) == coordinates


def test_scope_by_ref_and_time(zoo: Path) -> None:
    storage = LocalStorage(zoo)
    repository = open_repository(storage)
    history = list(repository.ancestry(repository.branches()["main"]))
    older = history[2]

    def ids(table: str, **scope: Any) -> set[str]:
        return {row["snapshot_id"] for row in rows_of(TableScan(storage, table, Scope(**scope)))}

    other = next(name for name in repository.branches() if name != "main")
    assert ids("nodes", refs=("main",)) == {str(history[0].id)}
    assert ids("nodes", refs=("main~2", other)) == {
        str(older.id),
        str(repository.branches()[other]),
    }
    assert ids("nodes", as_of=older.flushed_at) == {str(older.id)}
    assert ids("nodes", as_of=older.flushed_at + 1) == {str(older.id)}
    assert ids("snapshots", refs=("main",)) == {str(info.id) for info in history}
    assert ids("snapshots", refs=("main~2",)) == {str(info.id) for info in history[2:]}
    assert ids("snapshots") == {str(info.id) for info in repository.all_snapshots()}
    assert ids("snapshots", as_of=older.flushed_at) == {
        str(info.id) for info in repository.all_snapshots() if info.flushed_at <= older.flushed_at
    }
    with pytest.raises(RefNotFoundError):
        ids("nodes", as_of=1)
    with pytest.raises(RefNotFoundError):
        ids("nodes", refs=("nobody",))


@pytest.mark.parametrize("table", SCHEMAS)
def test_columns_in_any_order(zoo: Path, table: str) -> None:
    storage = LocalStorage(zoo)
    whole = rows_of(TableScan(storage, table))
    names = tuple(reversed(SCHEMAS[table].names))[:2]
    chosen = rows_of(TableScan(storage, table, columns=names))
    assert chosen == [{name: row[name] for name in names} for row in whole]


@pytest.mark.parametrize(
    ("table", "condition"),
    [
        ("chunk_refs", Condition("path", ("/native", "/nowhere"))),
        ("chunk_refs", Condition("path", prefix="/s")),
        ("chunk_refs", Condition("kind", ("virtual",))),
        ("changes", Condition("kind", ("moved_node", "updated_chunk"))),
        ("changes", Condition("path", ("/native",))),
        ("nodes", Condition("kind", ("group",))),
        ("objects", Condition("kind", ("chunk", "repo"))),
        ("refs", Condition("kind", ("tag",))),
        ("ops_log", Condition("kind", ("new_commit",))),
    ],
    ids=str,
)
def test_a_condition_loses_no_row_that_matches(zoo: Path, table: str, condition: Condition) -> None:
    storage = LocalStorage(zoo)
    whole = rows_of(TableScan(storage, table))
    found = rows_of(TableScan(storage, table, conditions=(condition,)))
    matching = [row for row in whole if condition.admits(row[condition.column])]
    assert [row for row in found if condition.admits(row[condition.column])] == matching
    assert matching and len(found) < len(whole)


def test_every_table_is_described() -> None:
    assert list(TABLES) == list(SCHEMAS)


def test_names_that_are_none(zoo: Path) -> None:
    with pytest.raises(UsageError, match="chunk_reffs") as raised:
        TableScan(LocalStorage(zoo), "chunk_reffs")
    assert raised.value.hint == "did you mean chunk_refs?"
    with pytest.raises(UsageError, match="lenght"):
        TableScan(LocalStorage(zoo), "chunk_refs", columns=("lenght",))


def test_a_damaged_manifest_is_named(zoo: Path, tmp_path: Path) -> None:
    from tests.official import copied

    mine = copied(zoo, tmp_path / "repo")
    scan = TableScan(
        LocalStorage(mine), "chunk_refs", conditions=(Condition("path", ("/native",)),)
    )
    (use,) = scan.plan()[0].unit.items
    file = mine / "manifests" / str(use.id)
    file.write_bytes(file.read_bytes()[:-20])
    with raises(FormatError, path=f"manifests/{use.id}"):
        rows_of(scan)
