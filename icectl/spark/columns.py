"""Columns between numpy and Spark, which has no unsigned integers.

Numbers whose order matters travel with their first bit flipped, so that the order of the signed
numbers is that of the unsigned ones. Others keep their bits. Smaller types fit as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icectl.pipeline.engine import KEYS, Column, Columns, Table
from icectl.pipeline.id_columns import IdSet, sort_order
from icectl.pipeline.objects import Garbage, ObjectKind

OBJECT_COLUMNS = ("high", "low", "size", "created_at")
PACKED_SQL = ", ".join(f"{name} binary" for name in OBJECT_COLUMNS)
_FIRST_BIT = np.uint64(1 << 63)
_KEY = Column("uint64", "min")


def is_flipped(column: Column) -> bool:
    return column.type == "uint64" and column.reduce in ("min", "max")


def to_signed(values: NDArray[Any], column: Column) -> NDArray[np.int64]:
    if column.type != "uint64":
        return values.astype(np.int64)
    bits = values.astype(np.uint64)
    return (bits ^ _FIRST_BIT if is_flipped(column) else bits).view(np.int64)


def from_signed(values: NDArray[np.int64], column: Column) -> NDArray[Any]:
    if column.type != "uint64":
        return values.astype(column.type)
    bits = values.view(np.uint64)
    return bits ^ _FIRST_BIT if is_flipped(column) else bits


def id_columns_of(ids: IdSet) -> Columns:
    return {"high": to_signed(ids.high, _KEY), "low": ids.low.astype(np.int64)}


def to_ids(high: NDArray[np.int64], low: NDArray[np.int64]) -> IdSet:
    return IdSet(from_signed(high, _KEY), low.astype(np.uint32))


def batch_ids(batch: Any) -> IdSet:
    """The ids in an Arrow batch or table, in its order."""
    return to_ids(*(column_of(batch, name) for name in KEYS))


def column_of(batch: Any, name: str) -> Any:
    column = batch.column(name)
    if isinstance(column, pa.ChunkedArray):
        return column.to_numpy()
    return column.to_numpy(zero_copy_only=False)


def to_garbage(kind: ObjectKind, columns: Columns) -> Garbage:
    ids = to_ids(columns["high"], columns["low"])
    order = sort_order(ids)
    return Garbage(kind, ids[order], columns["size"][order], columns["created_at"][order])


@dataclass(frozen=True, slots=True)
class RowSchema:
    """How the rows of several tables, and notes, are rows of one DataFrame."""

    tables: Mapping[str, Table]
    has_notes: bool

    @property
    def labels(self) -> list[str]:
        """The columns that tell tables and notes apart; few, because every row has them."""
        return ["table"] * (len(self.tables) > 1) + ["note"] * self.has_notes

    @property
    def values(self) -> dict[str, Column]:
        return {name: column for table in self.tables.values() for name, column in table.items()}

    @property
    def _names(self) -> list[str]:
        return [*KEYS, *self.values] if self.tables else []

    @property
    def sql(self) -> str:
        types = {"table": "string", "note": "binary"}
        labels = [f"`{name}` {types[name]}" for name in self.labels]
        return ", ".join([*labels, *(f"`{name}` bigint" for name in self._names)])

    def batch(self, table: str, columns: Columns) -> Any:
        """Rows of one table."""
        count = len(columns[KEYS[0]])
        types = dict.fromkeys(KEYS, _KEY) | dict(self.tables[table])
        # Chunk ids have a part of 4 bytes, which fits as it is; parts of other keys have 8.
        if columns["low"].dtype != np.uint64:
            types["low"] = Column("uint32", "min")
        found: dict[str, Any] = {
            name: pa.array(to_signed(columns[name], type_)) for name, type_ in types.items()
        }
        return self._batch(found | {"table": pa.repeat(pa.scalar(table), count)}, count)

    def note_batch(self, notes: list[bytes]) -> Any:
        return self._batch({"note": pa.array(notes, pa.binary())}, len(notes))

    def _batch(self, columns: dict[str, Any], count: int) -> Any:
        types = {"table": pa.string(), "note": pa.binary()}
        return pa.RecordBatch.from_pydict(
            {
                name: columns[name]
                if name in columns
                else pa.nulls(count, types.get(name, pa.int64()))
                for name in (*self.labels, *self._names)
            }
        )

    def read(self, table: str, batch: Any, names: Any = None) -> Columns:
        """The value columns, or some of them, of rows of one table."""
        return {
            name: from_signed(column_of(batch, name), column)
            for name, column in self.tables[table].items()
            if names is None or name in names
        }
