"""Ids dealt out to buckets, many of them in each row of a DataFrame.

A row for each id would cost Spark several times as much as reading and comparing the ids does. So a
row has the ids of one bucket that one task found, as the bytes of their columns; Spark moves rows
of the same bucket to one task, which compares them as the local engine does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icectl.pipeline.distinct import Distinct
from icectl.pipeline.engine import KEYS, Columns, Table
from icectl.pipeline.id_columns import IdSet, sort_order
from icectl.pipeline.listings import Listing
from icectl.pipeline.objects import ObjectKind

REFERENCES_PER_BUCKET = 250_000
FEWEST_BUCKETS = 64
"""There may be far more objects than references to them."""
MOST_BUCKETS = 4096
MOST_ROWS = 2**20
"""Ids that are packed together: a row of Spark must not become too large."""
LISTED = {"size": "int64", "created_at": "int64"}
"""The columns of listed objects, which not every storage lists."""


@dataclass(frozen=True, slots=True)
class Buckets:
    count: int
    table: Table
    """The value columns of references."""

    @classmethod
    def for_references(cls, num_expected: int, table: Table) -> Buckets:
        count = num_expected // REFERENCES_PER_BUCKET
        return cls(max(FEWEST_BUCKETS, min(count, MOST_BUCKETS)), table)

    @property
    def _types(self) -> dict[str, str]:
        values = {name: column.type for name, column in self.table.items()}
        return {"high": "uint64", "low": "uint32", **LISTED, **values}

    @property
    def sql(self) -> str:
        columns = "".join(f", `{name}` binary" for name in self._types)
        return f"bucket int, is_listed boolean, foreign string{columns}"

    def pack(self, columns: Columns, *, is_listed: bool) -> Iterator[Any]:
        """Rows for the buckets that some of the ids are in."""
        for start in range(0, len(columns["high"]), MOST_ROWS):
            rows = slice(start, start + MOST_ROWS)
            some = {name: column[rows] for name, column in columns.items()}
            yield self._pack(some, is_listed=is_listed)

    def _pack(self, columns: Columns, *, is_listed: bool) -> Any:
        numbers = self._number(columns["high"], columns["low"])
        counts = np.bincount(numbers, minlength=self.count)
        used = np.flatnonzero(counts)
        ends = np.concatenate([[0], np.cumsum(counts[used])])
        order = np.argsort(numbers, kind="stable")
        found: dict[str, Any] = {
            "bucket": pa.array(used, pa.int32()),
            "is_listed": pa.repeat(pa.scalar(is_listed), len(used)),
        }
        for name, type_ in self._types.items():
            if name in columns:
                values = columns[name].astype(type_, copy=False)[order]
                offsets = (ends * values.itemsize).astype(np.int32)
                buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
                found[name] = pa.Array.from_buffers(pa.binary(), len(used), buffers)
        return self._batch(found, len(used))

    def pack_foreign(self, names: Sequence[str]) -> Any:
        """A row for each name, in any bucket."""
        rows = {
            "bucket": pa.array(np.arange(len(names)) % self.count, pa.int32()),
            "is_listed": pa.repeat(pa.scalar(True), len(names)),
            "foreign": pa.array(names, pa.string()),
        }
        return self._batch(rows, len(names))

    def _number(self, high: NDArray[Any], low: NDArray[Any]) -> NDArray[np.uint16]:
        # Ids are random, but nobody enforces it.
        mixed = (high.astype(np.uint64) ^ low.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        return ((mixed >> np.uint64(32)) * np.uint64(self.count) >> np.uint64(32)).astype(np.uint16)

    def _batch(self, columns: dict[str, Any], count: int) -> Any:
        types = {"bucket": pa.int32(), "is_listed": pa.bool_(), "foreign": pa.string()}
        types |= dict.fromkeys(self._types, pa.binary())
        return pa.RecordBatch.from_pydict(
            {name: columns.get(name, pa.nulls(count, type_)) for name, type_ in types.items()}
        )

    def references(self, rows: Any) -> tuple[IdSet, Columns]:
        """The distinct references in rows of one bucket, by ascending id, and their values."""
        distinct = Distinct(self.table)
        distinct.add({name: self._join(rows, name) for name in (*KEYS, *self.table)})
        columns = distinct.columns(in_order=True)
        ids = IdSet(columns["high"], columns["low"].astype(np.uint32, copy=False))
        return ids, {name: columns[name] for name in self.table}

    def listing(self, kind: ObjectKind, rows: Any) -> Listing:
        """The listed objects in rows of one bucket."""
        ids = IdSet(self._join(rows, "high"), self._join(rows, "low"))
        order = sort_order(ids)
        # A storage lists all of them with sizes and times, or none.
        is_told = all(rows.column(name).null_count < rows.num_rows for name in LISTED)
        size, created_at = (self._join(rows, name)[order] if is_told else None for name in LISTED)
        return Listing(kind, ids[order], size, created_at, ())

    def _join(self, rows: Any, name: str) -> NDArray[Any]:
        data = b"".join(rows.column(name).drop_null().to_pylist())
        return np.frombuffer(data, self._types[name])
