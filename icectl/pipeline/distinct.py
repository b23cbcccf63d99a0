"""Rows with a key, each key kept once, and the values of its rows combined.

Rows are collected in blocks and compacted when as many are pending as are there already, so
that memory follows the number of distinct keys and the work stays close to linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.pipeline.engine import KEYS, Columns, Table

Values = NDArray[Any]
FEWEST_PENDING = 2**21
SMALL_BLOCK = 4096
"""Smaller blocks are joined: each costs about as much as a thousand rows."""
REDUCTIONS: Mapping[str, np.ufunc | None] = {
    "min": np.minimum,
    "max": np.maximum,
    "or": np.bitwise_or,
    "any": None,
}
BLOCKS_LOOKED_AT = 16


class Distinct:
    def __init__(self, table: Table, *, fewest_pending: int = FEWEST_PENDING) -> None:
        self._reduce = {name: REDUCTIONS[column.reduce] for name, column in table.items()}
        self._names = (*KEYS, *table)
        self._fewest_pending = fewest_pending
        self._small: list[Columns] = []
        self._num_small = 0
        self._blocks: list[Columns] = []
        self._pending = 0
        self._compacted = 0

    def add(self, block: Columns) -> None:
        """The value columns belong to this object from now on: later rows are joined into them."""
        rows = len(block[KEYS[0]])
        if not rows:
            return
        if rows >= SMALL_BLOCK:
            self._add({name: block[name] for name in self._names})
            return
        self._small.append(block)
        self._num_small += rows
        if self._num_small >= SMALL_BLOCK:
            self._add_small()

    def _add_small(self) -> None:
        blocks, self._small, self._num_small = self._small, [], 0
        if blocks:
            self._add(_joined(blocks, self._names))

    def _add(self, block: Columns) -> None:
        block = self._without_known(block)
        rows = len(block[KEYS[0]])
        if not rows:
            return
        self._blocks.append(block)
        self._pending += rows
        if self._pending > max(self._fewest_pending, self._compacted):
            self._compact()

    def _without_known(self, block: Columns) -> Columns:
        """The rows whose keys are not at the same places of an earlier block.

        A manifest is mostly an older one with a few changes: such rows need no sorting.
        """
        before = self._find_similar(block)
        if before is None:
            return block
        rows = min(len(before[KEYS[0]]), len(block[KEYS[0]]))
        same = np.logical_and.reduce([before[key][:rows] == block[key][:rows] for key in KEYS])
        for name, reduce in self._reduce.items():
            if reduce is not None:
                known = before[name][:rows]
                reduce(known, block[name][:rows], out=known, where=same)
        new = np.concatenate([np.flatnonzero(~same), np.arange(rows, len(block[KEYS[0]]))])
        return {name: column[new] for name, column in block.items()}

    def _find_similar(self, block: Columns) -> Columns | None:
        for before in reversed(self._blocks[-BLOCKS_LOOKED_AT:]):
            rows = min(len(before[KEYS[0]]), len(block[KEYS[0]]))
            for row in (0, rows // 2, rows - 1):
                if all(before[key][row] == block[key][row] for key in KEYS):
                    return before
        return None

    def columns(self, *, in_order: bool = False) -> Columns:
        """One row for each key, by ascending key if asked for."""
        self._add_small()
        return self._compact(in_order=in_order)

    def _compact(self, *, in_order: bool = False) -> Columns:
        if not self._blocks:
            return {name: np.empty(0, np.uint64) for name in self._names}
        columns = self._blocks[0]
        if len(self._blocks) > 1:
            columns = _joined(self._blocks, self._names)
        if self._pending or in_order:
            columns = self._unique(columns, in_order=in_order)
        self._blocks = [columns]
        self._compacted, self._pending = len(columns[KEYS[0]]), 0
        return columns

    def _unique(self, columns: Columns, *, in_order: bool) -> Columns:
        high, low = (columns[name] for name in KEYS)
        if _ascends(high, low):
            return columns
        # Finding the order of all rows takes several times as long.
        if not in_order and not _has_repeats(high):
            return columns
        order, repeats = _order(high, low)
        if not repeats.any():
            return {name: column[order] for name, column in columns.items()}
        starts = np.flatnonzero(np.concatenate([[True], ~repeats]))
        chosen = order[starts]

        def joined(name: str, column: Values) -> Values:
            reduce = self._reduce.get(name)
            return column[chosen] if reduce is None else reduce.reduceat(column[order], starts)

        return {name: joined(name, column) for name, column in columns.items()}


def _joined(blocks: list[Columns], names: tuple[str, ...]) -> Columns:
    return {name: np.concatenate([block[name] for block in blocks]) for name in names}


def _ascends(high: Values, low: Values) -> bool:
    """Whether each row is above the one before: then no key repeats."""
    if (high[1:] < high[:-1]).any():
        return False
    same = high[1:] == high[:-1]
    return not (same & (low[1:] <= low[:-1])).any()


def _has_repeats(values: Values) -> bool:
    ordered = np.sort(values)
    return bool((ordered[1:] == ordered[:-1]).any())


def _order(high: Values, low: Values) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The ascending order, and which rows of it repeat the one before."""
    order = np.argsort(high)
    repeats = high[order[1:]] == high[order[:-1]]
    rows = np.flatnonzero(repeats)
    if (low[order[rows]] == low[order[rows + 1]]).all():
        return order, repeats
    order = np.lexsort((low, high))
    before, after = order[:-1], order[1:]
    return order, (high[before] == high[after]) & (low[before] == low[after])
