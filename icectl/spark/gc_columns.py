"""Ids between Arrow and the columns of `icectl.ops.gc`.

Spark has no unsigned integers: `high` travels with its first bit turned, so that the order of
the signed numbers is the order of the ids; `low` fits as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icectl.pipeline.id_columns import IdSet, sort_order
from icectl.pipeline.objects import Garbage, ObjectKind

KEYS = ["high", "low"]
GARBAGE = pa.schema([(name, pa.int64()) for name in ("high", "low", "size", "created_at")])
PACKED_SQL = "high binary, low binary, size binary, created_at binary"
_TURN = np.uint64(1 << 63)


def to_columns(ids: IdSet) -> dict[str, NDArray[np.int64]]:
    return {"high": (ids.high ^ _TURN).view(np.int64), "low": ids.low.astype(np.int64)}


def to_table(ids: IdSet) -> Any:
    return pa.table(to_columns(ids))


def to_ids(high: NDArray[np.int64], low: NDArray[np.int64]) -> IdSet:
    return IdSet(high.view(np.uint64) ^ _TURN, low.astype(np.uint32))


def batch_ids(batch: Any) -> IdSet:
    return to_ids(*(batch.column(name).to_numpy(zero_copy_only=False) for name in KEYS))


def to_garbage(kind: ObjectKind, columns: dict[str, NDArray[np.int64]]) -> Garbage:
    ids = to_ids(columns["high"], columns["low"])
    order = sort_order(ids)
    return Garbage(kind, ids[order], columns["size"][order], columns["created_at"][order])
