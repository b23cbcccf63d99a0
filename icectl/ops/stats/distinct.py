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
BLOCKS_LOOKED_AT = 16
ROWS_FOR_SLOTS = range(2**15, 2**21)
_MIXER = np.uint64(0x9E3779B97F4A7C15)


class Distinct:
    """Key columns, and value columns with how values of one key are joined; None: any of them."""

    def __init__(self, keys: Sequence[str], values: Mapping[str, np.ufunc | None]) -> None:
        self._keys = tuple(keys)
        self._reduce = dict(values)
        self._names = (*keys, *values)
        self._blocks: list[dict[str, Column]] = []
        self._pending = 0
        self._compacted = 0

    def add(self, block: Mapping[str, Column]) -> None:
        """Value columns belong to this object then: later rows are joined into them."""
        rows = len(block[self._keys[0]])
        if not rows:
            return
        block = self._without_known({name: block[name] for name in self._names})
        rows = len(block[self._keys[0]])
        if not rows:
            return
        self._blocks.append(block)
        self._pending += rows
        if self._pending > max(FEWEST_PENDING, self._compacted):
            self.compact()

    def _without_known(self, block: dict[str, Column]) -> dict[str, Column]:
        """The rows whose keys are not at the same places of a block before.

        A manifest is mostly an older one with a few changes: such rows need no sorting.
        """
        before = self._find_like(block)
        if before is None:
            return block
        rows = min(len(before[self._keys[0]]), len(block[self._keys[0]]))
        same = np.logical_and.reduce(
            [before[key][:rows] == block[key][:rows] for key in self._keys]
        )
        for name, reduce in self._reduce.items():
            if reduce is not None:
                known = before[name][:rows]
                reduce(known, block[name][:rows], out=known, where=same)
        new = np.concatenate([np.flatnonzero(~same), np.arange(rows, len(block[self._keys[0]]))])
        return {name: column[new] for name, column in block.items()}

    def _find_like(self, block: dict[str, Column]) -> dict[str, Column] | None:
        for before in reversed(self._blocks[-BLOCKS_LOOKED_AT:]):
            rows = min(len(before[self._keys[0]]), len(block[self._keys[0]]))
            for row in (0, rows // 2, rows - 1):
                if all(before[key][row] == block[key][row] for key in self._keys):
                    return before
        return None

    def compact(self) -> dict[str, Column]:
        """One row for each key, in no order."""
        if not self._blocks:
            return {name: np.empty(0, np.uint64) for name in self._names}
        columns = self._blocks[0]
        if len(self._blocks) > 1:
            columns = {
                name: np.concatenate([block[name] for block in self._blocks])
                for name in self._names
            }
        if self._pending:
            columns = self._unique(columns)
        self._blocks = [columns]
        self._compacted, self._pending = len(columns[self._keys[0]]), 0
        return columns

    def _unique(self, columns: dict[str, Column]) -> dict[str, Column]:
        keys = [columns[name] for name in self._keys]
        if _ascends(keys):
            return columns
        first = _representative(keys)
        # Finding the order of all rows takes many times as long.
        if not _has_repeats(first):
            return columns
        order, repeats = _order(keys, first)
        starts = np.flatnonzero(np.concatenate([[True], ~repeats]))
        chosen = order[starts]

        def joined(name: str, column: Column) -> Column:
            reduce = self._reduce.get(name)
            return column[chosen] if reduce is None else reduce.reduceat(column[order], starts)

        return {name: joined(name, column) for name, column in columns.items()}


def _ascends(keys: list[Column]) -> bool:
    """Whether each row is above the one before: then no key repeats."""
    same = np.ones(len(keys[0]) - 1, np.bool_)
    for key in keys:
        if (same & (key[1:] < key[:-1])).any():
            return False
        same &= key[1:] == key[:-1]
        if not same.any():
            return True
    return False


def _representative(keys: list[Column]) -> Column:
    """One column in place of all: rows that share its value are nearly always equal."""
    first = keys[0]
    if len(keys) > 2:
        first = np.zeros(len(first), np.uint64)
        for key in keys:
            first = (first ^ key.astype(np.uint64)) * _MIXER
    return first


def _has_repeats(values: Column) -> bool:
    """Whether a value is there twice.

    Values fall into as many slots as there are values, by some of their bits. The last one in
    each slot stays there and is compared with the others, which go on to the next round with
    other bits: ids are random, so that few do. As long as the slots fit the processor's cache,
    this takes half as long as sorting.
    """
    unused = 64
    while len(values) in ROWS_FOR_SLOTS and (bits := len(values).bit_length()) <= unused:
        unused -= bits
        slots = ((values >> np.uint64(unused)) & np.uint64(2**bits - 1)).view(np.int64)
        rows = np.arange(len(values), dtype=np.uint32)
        last = np.empty(2**bits, np.uint32)
        last[slots] = rows
        last = last[slots]
        others = np.flatnonzero(last != rows)
        if (values[last[others]] == values[others]).any():
            return True
        values = values[others]
    ordered = np.sort(values)
    return bool((ordered[1:] == ordered[:-1]).any())


def _order(keys: list[Column], first: Column) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """An order with equal keys side by side, and which rows of it repeat the one before."""
    order = np.argsort(first)
    repeats = first[order[1:]] == first[order[:-1]]
    rows = np.flatnonzero(repeats)
    before, after = order[rows], order[rows + 1]
    if all((key[before] == key[after]).all() for key in keys):
        return order, repeats
    order = np.lexsort(keys[::-1])
    before, after = order[:-1], order[1:]
    repeats = np.logical_and.reduce([key[before] == key[after] for key in keys])
    return order, repeats
