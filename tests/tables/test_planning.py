"""What is read and what is not, and what travels to an executor."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from icectl.pipeline.units import UNIT_BYTES, Unit, split
from icectl.repository.open import open_repository
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from icectl.tables.scan import TableScan, read_table
from icectl.tables.schemas import SCHEMAS
from icectl.tables.scope import Condition, Scope
from tests.faults.storage import FaultyStorage
from tests.tables.repositories import find_repository


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_repository("zoo-2", tmp_path_factory)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.official import built, native_refs_in_manifests

    return built(tmp_path_factory, native_refs_in_manifests, 450_000, 70_000)


def files_read(storage: Storage, table: str, scope: Scope, *conditions: Condition) -> set[str]:
    watched = FaultyStorage(storage)
    for _ in read_table(TableScan(watched, table, scope, conditions=conditions)):
        pass
    return {request.path for request in watched.requests if "/" in request.path}


def test_manifests_that_cannot_match_are_not_read(zoo: Path) -> None:
    storage = LocalStorage(zoo)
    repository = open_repository(storage)
    tip = repository.branches()["main"]
    every = Scope(all_snapshots=True)
    nodes = {node.path: node for node in repository.read_snapshot(tip).nodes}
    mine = {f"manifests/{ref.object_id}" for ref in nodes["/split"].node_data.manifests}  # type: ignore[union-attr]

    whole = files_read(storage, "chunk_refs", every)
    assert mine < {path for path in whole if path.startswith("manifests/")}
    of_path = files_read(storage, "chunk_refs", Scope(), Condition("path", ("/split",)))
    assert of_path == mine | {f"snapshots/{tip}"}
    of_snapshot = files_read(storage, "chunk_refs", every, Condition("snapshot_id", (str(tip),)))
    assert {path for path in of_snapshot if path.startswith("snapshots/")} == {f"snapshots/{tip}"}
    assert len(of_snapshot) < len(whole)
    assert files_read(storage, "chunk_refs", every, Condition("path", ("/nowhere",))) == {
        path for path in whole if path.startswith("snapshots/")
    }


def test_a_manifest_that_snapshots_share_is_read_once(zoo: Path) -> None:
    watched = FaultyStorage(LocalStorage(zoo))
    for _ in read_table(TableScan(watched, "chunk_refs", Scope(all_snapshots=True))):
        pass
    read = [request.path for request in watched.requests if request.path.startswith("manifests/")]
    assert len(read) == len(set(read))


def test_only_the_directories_of_a_kind_are_listed(zoo: Path) -> None:
    watched = FaultyStorage(LocalStorage(zoo))
    scan = TableScan(watched, "objects", conditions=(Condition("kind", ("snapshot",)),))
    found = [row for batch in read_table(scan) for row in batch.to_pylist()]
    assert {row["kind"] for row in found} == {"snapshot"}
    assert {r.path for r in watched.requests if r.method == "list"} == {"snapshots"}


def test_objects_are_listed_by_ranges_where_that_helps(zoo: Path) -> None:
    class Sharded(LocalStorage):
        def listing_shards(self) -> int:
            return 7

    whole = TableScan(LocalStorage(zoo), "objects")
    sharded = TableScan(Sharded(zoo), "objects")
    assert len(sharded.plan()) == len(whole.plan()) + 6
    paths = [
        sorted(p for b in read_table(scan) for p in b["path"].to_pylist())
        for scan in (whole, sharded)
    ]
    assert paths[0] == paths[1] and len(set(paths[0])) == len(paths[0])


def test_a_local_directory_is_listed_once(zoo: Path) -> None:
    listed = []

    class Watched(LocalStorage):
        def _scan(self, directory: str) -> Iterator[Sequence[os.DirEntry[str]]]:
            listed.append(directory)
            return super()._scan(directory)

    rows = [
        row for batch in read_table(TableScan(Watched(zoo), "objects")) for row in batch["path"]
    ]
    assert len(rows) == sum(path.is_file() for path in zoo.rglob("*"))
    assert len([directory for directory in listed if directory == "chunks"]) == 1


def test_large_arrays_come_in_partitions_and_batches(large: Path) -> None:
    scan = TableScan(LocalStorage(large), "chunk_refs")
    partitions = scan.plan()
    assert len(partitions) == 2
    assert sum(partition.unit.num_rows for partition in partitions) == 450_000
    batches = list(read_table(scan, partitions))
    assert max(batch.num_rows for batch in batches) <= 65536
    table = pa.Table.from_batches(batches)
    assert sorted(value[0] for value in table["coordinates"].to_pylist()) == list(range(450_000))
    assert len(set(table["chunk_id"].to_pylist())) == 450_000


@pytest.mark.parametrize("table", SCHEMAS)
def test_partitions_travel(zoo: Path, table: str) -> None:
    scan = TableScan(LocalStorage(zoo), table, Scope(all_snapshots=True))
    before = [batch for partition in scan.plan() for batch in scan.read(partition)]
    sent = [pickle.dumps((scan, partition)) for partition in scan.plan()]
    assert max(map(len, sent)) < 200_000
    after = [
        batch
        for one in sent
        for scan_, partition in [pickle.loads(one)]
        for batch in scan_.read(partition)
    ]
    assert after == before


def test_no_credentials_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sentinel-secret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "sentinel-key")
    storage = open_storage(
        "s3://bucket/repo", {"endpoint_url": "http://127.0.0.1:9", "region": "x"}
    )
    sent = pickle.dumps(TableScan(storage, "chunk_refs"))
    assert b"127.0.0.1:9" in sent
    assert b"sentinel" not in sent and "sentinel" not in repr(storage)


def test_splitting() -> None:
    def sizes(weights: list[int]) -> list[int]:
        return [len(unit.items) for unit in split(weights, lambda weight: (weight, 1))]

    assert split([]) == []
    assert sizes([1] * 300) == [128, 128, 44], "each file costs a request"
    assert sizes([UNIT_BYTES * 3, 1, UNIT_BYTES, 1]) == [1, 1, 1, 1]
    assert sizes([UNIT_BYTES // 2] * 5) == [2, 2, 1]
    assert split(["a", "b"], lambda _: (1, 5)) == [Unit(("a", "b"), 10)]
    assert [unit.items for unit in split("abc", most_items=2)] == [("a", "b"), ("c",)]
