"""Rows with a key, each key kept once, and what is known about it gathered from all of them.

Rows are collected in blocks and compacted when as many are pending as are there already, so
that memory follows the number of distinct keys and the work stays close to linear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
FEWEST_PENDING = 2**21

_REDUCE = {
    "length": None,
    "array": np.minimum,
    "first": np.minimum,
    "last": np.maximum,
    "mask": np.bitwise_or,
}
"""How values of one key are joined, by the beginning of the column's name; None: any of them."""


class Distinct:
    """Key columns first, value columns behind; a block has all of them, of equal length."""

    def __init__(self, keys: Sequence[str], values: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self._names = (*keys, *values)
        self._blocks: list[dict[str, Column]] = []
        self._pending = 0
        self._compacted = 0

    def add(self, block: Mapping[str, Column]) -> None:
        rows = len(block[self._keys[0]])
        if not rows:
            return
        self._blocks.append({name: block[name] for name in self._names})
        self._pending += rows
        if self._pending > max(FEWEST_PENDING, self._compacted):
            self.compact()

    def compact(self) -> dict[str, Column]:
        """One row for each key, in ascending order."""
        if not self._blocks:
            return {name: np.empty(0, np.uint64) for name in self._names}
        columns = self._blocks[0]
        if len(self._blocks) > 1:
            columns = {
                name: np.concatenate([block[name] for block in self._blocks])
                for name in self._names
            }
        if self._pending:
            columns = _unique(columns, self._keys)
        self._blocks = [columns]
        self._compacted, self._pending = len(columns[self._keys[0]]), 0
        return columns


def _unique(columns: dict[str, Column], keys: Sequence[str]) -> dict[str, Column]:
    new = _begins(columns, keys)
    if new is None:
        order = _order([columns[name] for name in keys])
        columns = {name: column[order] for name, column in columns.items()}
        new = _begins(columns, keys)
        assert new is not None
    if new.all():
        return columns
    starts = np.flatnonzero(new)
    return {name: _reduced(name, column, starts) for name, column in columns.items()}


def _begins(columns: dict[str, Column], keys: Sequence[str]) -> NDArray[np.bool_] | None:
    """Where another key begins; None when the keys do not ascend."""
    rows = len(columns[keys[0]])
    above, same = np.zeros(rows - 1, np.bool_), np.ones(rows - 1, np.bool_)
    for name in keys:
        column = columns[name]
        above |= same & (column[1:] > column[:-1])
        same &= column[1:] == column[:-1]
        if not (above | same).all():
            return None
        if not same.any():
            break
    return np.concatenate([[True], above])


def _order(keys: list[Column]) -> NDArray[np.intp]:
    order = np.argsort(keys[0])
    first = keys[0][order]
    if (first[1:] == first[:-1]).any():
        return np.lexsort(keys[::-1])
    return order


def _reduced(name: str, column: Column, starts: NDArray[np.intp]) -> Column:
    reduce = _REDUCE.get(name.split("_")[0])
    return column[starts] if reduce is None else reduce.reduceat(column, starts)
