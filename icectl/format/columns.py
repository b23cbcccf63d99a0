"""Read a vector of flatbuffers tables as columns, with the same checks as `reader`.

The tables of a vector share a few vtables. Rows are read in blocks that fit the processor's
cache, grouped by vtable. Within a group each field has one offset, so a few array operations
check and gather it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl import limits
from icectl.errors import FormatError
from icectl.format.reader import Plan, Reader, Table

# Temporary arrays of this many rows stay in the second-level cache.
BLOCK = 16384
FEW_VTABLES = 8

Positions = NDArray[np.int64]
Rows = slice | NDArray[np.intp]


class ColumnReader:
    """Reads fields of many tables in one payload."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.size = reader.size
        self.bytes = np.frombuffer(reader.data, np.uint8)
        self._words: NDArray[np.uint32] = self.bytes[: self.size & ~3].view("<u4")
        self._signed = self.bytes[: self.size & ~3].view("<i4")
        self._longs: NDArray[np.uint64] = self.bytes[: self.size & ~7].view("<u8")

    def groups(
        self, table: Table, start: int, count: int
    ) -> Iterator[tuple[Rows, Positions, tuple[int, ...]]]:
        """Yield rows of the vector at `start`, their positions, and the offset of each field.

        The offset of an absent field is 0. The caller has checked the vector; this method checks
        the tables and their vtables.
        """
        for first in range(0, count, BLOCK):
            rows = min(BLOCK, count - first)
            base = start + 4 * first
            slots = np.arange(base, base + 4 * rows, 4, dtype=np.int64)
            positions = self._follow(slots, self._words[base >> 2 : (base >> 2) + rows])
            for chosen, group, plan in self._plans(table, positions):
                if isinstance(chosen, slice):
                    yield slice(first, first + rows), group, plan.places
                else:
                    yield chosen + first, group, plan.places

    def tables(self, table: Table, positions: Positions) -> Iterator[tuple[Rows, Positions, Plan]]:
        """Yield rows of the tables at `positions`, which `follow` has checked, and their plan.

        Charges each as a table that would become an object.
        """
        for first in range(0, len(positions), BLOCK):
            block = positions[first : first + BLOCK]
            self.reader.spend_tables(len(block), int(block[0]))
            for chosen, group, plan in self._plans(table, block):
                if isinstance(chosen, slice):
                    yield slice(first, first + len(block)), group, plan
                else:
                    yield chosen + first, group, plan

    def _plans(self, table: Table, positions: Positions) -> Iterator[tuple[Rows, Positions, Plan]]:
        """Yield the rows of each vtable; a slice if all have the same."""
        vtables = positions - self._signed[positions >> 2]
        one = int(vtables[0])
        if (vtables == one).all():
            yield slice(None), positions, self._plan(table, one, positions)
            return
        for vtable in _distinct(vtables):
            chosen = np.flatnonzero(vtables == vtable)
            group = positions[chosen]
            yield chosen, group, self._plan(table, vtable, group)

    def _plan(self, table: Table, vtable: int, positions: Positions) -> Plan:
        plan = self.reader.plan(table, vtable, int(positions[0]))
        if int(positions.max()) + plan.table_size > self.size:
            raise FormatError(
                f"a {table.name} does not fit into the file", offset=int(positions.max())
            )
        if plan.phase is not None:
            self._demand((positions & 7) == plan.phase, positions, f"a {table.name} is not aligned")
        self.reader.spend(plan.table_size * len(positions), int(positions[0]))
        self.reader.note_unknown(table, plan, len(positions))
        return plan

    def follow(self, slots: Positions) -> Positions:
        """Return the targets of the offsets at `slots`, checked."""
        return self._follow(slots, self._words[slots >> 2]) if len(slots) else slots

    def _demand(self, holds: NDArray[np.bool_], positions: Positions, message: str) -> None:
        if not holds.all():
            raise FormatError(message, offset=int(positions[int(np.argmin(holds))]))

    def _follow(self, slots: Positions, offsets: NDArray[np.uint32]) -> Positions:
        targets = slots + offsets
        # Usually one pass is enough; the details matter only if a check failed.
        if int(targets.max()) > self.size - 4 or int(offsets.min()) < 4:
            self._demand(
                (offsets >= 4) & (targets <= self.size - 4), slots, "an offset is out of bounds"
            )
        if int(np.bitwise_or.reduce(targets)) & 3:
            self._demand((targets & 3) == 0, slots, "an offset points to an unaligned byte")
        return targets

    def vectors(
        self, slots: Positions, size: int, what: str, *, align: int = 4, terminated: bool = False
    ) -> tuple[Positions, NDArray[np.uint32]]:
        """Return first byte and length of the vectors whose offsets are at `slots`, checked."""
        targets = self._follow(slots, self._words[slots >> 2])
        counts = self._words[targets >> 2]
        starts = targets + 4
        ends = starts + counts.astype(np.int64) * size
        limit = self.size - 1 if terminated else self.size
        if int(ends.max()) > limit:
            self._demand(ends <= limit, targets, f"{what} does not fit into the file")
        if terminated and self.bytes[ends].any():
            self._demand(self.bytes[ends] == 0, starts, f"{what} does not end in a zero byte")
        if align > 4:
            fits = (counts == 0) | (starts % align == 0)
            self._demand(fits, targets, f"the elements of {what} are not aligned")
        self.reader.spend(int((ends - targets).sum()), int(targets[0]))
        return starts, counts

    def strings(self, slots: Positions, what: str) -> tuple[Positions, NDArray[np.uint32]]:
        """Return first byte and length of the strings whose offsets are at `slots`, checked."""
        starts, counts = self.vectors(slots, 1, what, terminated=True)
        text = self.bytes[spread(starts, counts)]
        if len(text) and int(text.max()) >= 0x80:
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
                try:
                    self.reader.data[start : start + count].decode()
                except UnicodeDecodeError as error:
                    raise FormatError(
                        f"{what} is not valid UTF-8", offset=start + error.start
                    ) from None
        return starts, counts

    def words(self, positions: Positions) -> NDArray[np.uint32]:
        found: NDArray[np.uint32] = self._words[positions >> 2]
        return found

    def longs(self, positions: Positions) -> NDArray[np.uint64]:
        found: NDArray[np.uint64] = self._longs[positions >> 3]
        return found

    def structs(self, positions: Positions, size: int) -> NDArray[np.uint8]:
        """Return (n, size) bytes. Structs of bytes need no alignment."""
        windows: NDArray[Any] = np.ndarray(
            (max(self.size - size + 1, 0),), f"V{size}", self.bytes, strides=(1,)
        )
        return windows[positions].view(np.uint8).reshape(len(positions), size)

    def coordinates(self, slots: Positions, dimensions: int | None) -> NDArray[np.uint32]:
        """Return the uint32 vectors at `slots` as rows; all must have the same length."""
        starts, counts = self.vectors(slots, 4, "a coordinate")
        expected = int(counts[0]) if dimensions is None else dimensions
        limits.require("DIMENSIONS", expected, limits.DIMENSIONS, "the number of dimensions is")
        if int(counts.min()) != expected or int(counts.max()) != expected:
            message = f"a coordinate does not have {expected} dimensions"
            self._demand(counts == expected, starts, message)
        rows = np.empty((len(slots), expected), np.uint32)
        words = starts >> 2
        for dimension in range(expected):
            rows[:, dimension] = self._words[words + dimension]
        return rows


def spread(starts: Positions, counts: NDArray[Any], step: int = 1) -> Positions:
    """Return the positions of all elements of many vectors, one vector after the other."""
    counts = counts.astype(np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - step * (ends - counts), counts) + step * np.arange(total)


def _distinct(values: Positions) -> list[int]:
    """Return the distinct values. If there are few, searching for each is faster than sorting."""
    found: list[int] = []
    while len(values) and len(found) < FEW_VTABLES:
        found.append(int(values[0]))
        values = values[values != values[0]]
    # `unique` makes numpy import its masked arrays, which takes longer than reading most files.
    return [*found, *np.unique(values).tolist()] if len(values) else found
