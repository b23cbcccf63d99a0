"""Ids in buckets: each id is in one bucket, with its values, however many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icectl.pipeline.engine import Column, Columns
from icectl.pipeline.objects import ObjectKind
from icectl.spark import buckets as module
from icectl.spark.buckets import FEWEST_BUCKETS, MOST_BUCKETS, Buckets

ENDS = {"end": Column("uint64", "max")}


def random_columns(count: int, names: tuple[str, ...] = ()) -> Columns:
    random = np.random.default_rng(count)
    columns: Columns = {
        "high": random.integers(0, 2**64, count, np.uint64),
        "low": random.integers(0, 2**32, count, np.uint32),
    }
    return columns | {name: random.integers(0, 2**40, count).astype(np.int64) for name in names}


def by_bucket(batches: list[Any]) -> list[Any]:
    table = pa.Table.from_batches(batches)
    numbers = np.asarray(table.column("bucket"))
    return [table.filter(pa.array(numbers == number)) for number in np.unique(numbers)]


def keys_of(columns: Columns) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in columns.values()), strict=True))


@pytest.mark.parametrize("count", [0, 1, 5_000])
@pytest.mark.parametrize("most_rows", [1_000, 2**20])
def test_references(monkeypatch: pytest.MonkeyPatch, count: int, most_rows: int) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", most_rows)
    buckets = Buckets(7, ENDS)
    columns = random_columns(count)
    ends = np.arange(count, dtype=np.uint64)
    # Each id twice: the larger end is needed.
    batches = [
        *buckets.pack(columns | {"end": ends}, is_listed=False),
        *buckets.pack(columns | {"end": ends + np.uint64(1)}, is_listed=False),
    ]
    found: list[tuple[int, ...]] = []
    for rows in by_bucket(batches) if batches else ():
        ids, values = buckets.references(rows)
        assert keys_of({"high": ids.high, "low": ids.low}) == [
            *zip(ids.high.tolist(), ids.low.tolist(), strict=True)
        ]
        found += keys_of({"high": ids.high, "low": ids.low, "end": values["end"]})
    assert sorted(found) == keys_of(columns | {"end": ends + np.uint64(1)})


@pytest.mark.parametrize("names", [(), ("size", "created_at")])
def test_listed_objects(names: tuple[str, ...]) -> None:
    buckets = Buckets(7, ENDS)
    columns = random_columns(3_000, names)
    batches = [
        *buckets.pack(columns, is_listed=True),
        buckets.pack_foreign(["chunks/a", "chunks/b"]),
    ]
    found: list[tuple[int, ...]] = []
    foreign: list[str] = []
    for rows in by_bucket(batches):
        listing = buckets.listing(ObjectKind.CHUNK, rows)
        assert (listing.size is None) == (listing.created_at is None) == (not names)
        parts = {"high": listing.ids.high, "low": listing.ids.low}
        found += keys_of(parts | {name: getattr(listing, name) for name in names})
        foreign += rows.column("foreign").drop_null().to_pylist()
    assert sorted(found) == keys_of(columns)
    assert sorted(foreign) == ["chunks/a", "chunks/b"]


def test_buckets_are_of_similar_size() -> None:
    """Even if the ids are numbers in a row."""
    buckets = Buckets(100, {})
    columns: Columns = {
        "high": np.zeros(100_000, np.uint64),
        "low": np.arange(100_000, dtype=np.uint32),
    }
    (batch,) = buckets.pack(columns, is_listed=True)
    sizes = [len(data) // 4 for data in batch.column("low").to_pylist()]
    assert sum(sizes) == 100_000 and max(sizes) < 2_000


@pytest.mark.parametrize(
    ("references", "count"),
    [(0, FEWEST_BUCKETS), (10**8, 400), (10**12, MOST_BUCKETS)],
)
def test_number_of_buckets(references: int, count: int) -> None:
    assert Buckets.for_references(references, {}).count == count
