"""Sets of 12-byte object ids as sorted integer columns.

An id is two big-endian integers, so that integer order is byte order. Sorting and joining such
columns is several times faster and smaller than Python sets, and names are decoded and encoded
by columns too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.model.ids import ALPHABET

NAME_LENGTH = 20
# Rows at once: temporaries of this size stay in the processor's cache.
BLOCK = 16384
_U = np.uint64
_NAME = np.dtype([("first", ">u8"), ("second", ">u8"), ("last", ">u4")])
_INVALID = 255
_VALUES = np.full(256, _INVALID, np.uint8)
_VALUES[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(32)
_LETTERS = np.frombuffer(ALPHABET.encode(), np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class IdSet:
    """Distinct ids in ascending order: 8 bytes of each in `high`, 4 in `low`."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, rows: NDArray[Any]) -> IdSet:
        """A subset, by a mask or by ascending row numbers."""
        return IdSet(self.high[rows], self.low[rows])

    def contains(self, ids: IdSet) -> NDArray[np.bool_]:
        """For each of `ids`, whether it is in this set."""
        found = np.empty(len(ids), np.bool_)
        for start in range(0, len(ids), BLOCK):
            block = slice(start, start + BLOCK)
            found[block] = self._find(ids.high[block], ids.low[block]) >= 0
        return found

    def find(self, ids: IdSet) -> NDArray[np.intp]:
        """The row of each of `ids` in this set, -1 where it is not in it."""
        return self._find(ids.high, ids.low)

    def _find(self, high: NDArray[np.uint64], low: NDArray[np.uint32]) -> NDArray[np.intp]:
        rows = np.searchsorted(self.high, high)
        found = np.full(len(high), -1, np.intp)
        open_ = np.flatnonzero(rows < len(self))
        while len(open_):
            at = rows[open_]
            same_high = self.high[at] == high[open_]
            hit = same_high & (self.low[at] == low[open_])
            found[open_[hit]] = at[hit]
            # Ids that share their first 8 bytes stand beside each other.
            open_ = open_[same_high & ~hit]
            rows[open_] += 1
            open_ = open_[rows[open_] < len(self)]
        return found

    def to_bytes(self) -> list[bytes]:
        rows = np.empty(len(self), [("high", ">u8"), ("low", ">u4")])
        rows["high"] = self.high
        rows["low"] = self.low
        data = rows.tobytes()
        return [data[start : start + 12] for start in range(0, len(data), 12)]

    def to_names(self) -> list[str]:
        """The base32 texts, which are the file names."""
        names: list[str] = []
        for start in range(0, len(self), BLOCK):
            high, low = self.high[start : start + BLOCK], self.low[start : start + BLOCK]
            wide = low.astype(np.uint64)
            text = np.empty(len(high), _NAME)
            text["first"] = _spread(high >> _U(24))
            text["second"] = _spread((high & _U(0xFFFFFF)) << _U(16) | wide >> _U(16))
            text["last"] = _spread((wide & _U(0xFFFF)) << _U(24)) >> _U(32)
            joined = _LETTERS[text.view(np.uint8)].tobytes().decode("ascii")
            names += [joined[at : at + NAME_LENGTH] for at in range(0, len(joined), NAME_LENGTH)]
        return names


_BIG_ENDIAN = np.dtype([("high", ">u8"), ("low", ">u4")])
FEW_IDS = 64
EMPTY = IdSet(np.empty(0, np.uint64), np.empty(0, np.uint32))


def id_columns(ids: NDArray[np.uint8]) -> IdSet:
    """The columns of (n, 12) bytes, in the order given: not a set yet."""
    if not len(ids):
        return EMPTY
    rows = np.ascontiguousarray(ids).view(_BIG_ENDIAN).reshape(-1)
    return IdSet(rows["high"].astype(np.uint64), rows["low"].astype(np.uint32))


def sort_order(columns: IdSet) -> NDArray[np.intp]:
    """The rows in ascending order; equal rows stay beside each other."""
    order = np.argsort(columns.high)
    high = columns.high[order]
    if (high[1:] == high[:-1]).any():
        return np.lexsort((columns.low, columns.high))
    return order


def find_repeats(columns: IdSet) -> NDArray[np.bool_]:
    """For each row but the first of sorted columns, whether it equals the one before."""
    same: NDArray[np.bool_] = columns.high[1:] == columns.high[:-1]
    if same.any():
        same &= columns.low[1:] == columns.low[:-1]
    return same


def join(parts: Sequence[IdSet]) -> IdSet:
    """The columns one behind the other."""
    if len(parts) == 1:
        return parts[0]
    return IdSet(
        np.concatenate([EMPTY.high, *(part.high for part in parts)]),
        np.concatenate([EMPTY.low, *(part.low for part in parts)]),
    )


def union(sets: Sequence[IdSet]) -> IdSet:
    """The distinct ids of several columns, sorted or not."""
    joined = join(sets)
    joined = joined[sort_order(joined)]
    same = find_repeats(joined)
    return joined[np.concatenate([[True], ~same])] if same.any() else joined


def id_set(ids: Iterable[bytes]) -> IdSet:
    data = b"".join(ids)
    return union([id_columns(np.frombuffer(data, np.uint8).reshape(-1, 12))])


def decode_names(names: Sequence[str]) -> tuple[IdSet, NDArray[np.bool_]]:
    """The ids of file names in their order, and which names are ids at all.

    The ids of names that are none are left out.
    """
    good = np.ones(len(names), np.bool_)
    if set(map(len, names)) != {NAME_LENGTH}:
        good[:] = [len(name) == NAME_LENGTH for name in names]
        names = [name for name in names if len(name) == NAME_LENGTH]
    # A character outside ASCII becomes "?", which is in no id.
    text = np.frombuffer("".join(names).encode("ascii", "replace"), np.uint8)
    values = _VALUES[text].reshape(-1, NAME_LENGTH)
    valid = (values.max(axis=1, initial=0) < 32) & (values[:, -1] & 15 == 0)
    if not valid.all():
        good[good] = valid
        values = values[valid]
    parts = values.reshape(-1).view(_NAME)
    first = _gather(parts["first"].astype(np.uint64))
    second = _gather(parts["second"].astype(np.uint64))
    last = _gather(parts["last"].astype(np.uint64))
    low = (second & _U(0xFFFF)) << _U(16) | last >> _U(4)
    return IdSet(first << _U(24) | second >> _U(16), low.astype(np.uint32)), good


def _gather(letters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Eight values of 5 bits, a byte each, as one of 40 bits: neighbours are joined three times."""
    pairs = (letters & _U(0x1F001F001F001F00)) >> _U(3) | letters & _U(0x001F001F001F001F)
    fours = (pairs & _U(0x03FF000003FF0000)) >> _U(6) | pairs & _U(0x000003FF000003FF)
    return fours >> _U(12) & _U(0xFFFFF00000) | fours & _U(0xFFFFF)


def _spread(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The other way round."""
    fours = (bits & _U(0xFFFFF00000)) << _U(12) | bits & _U(0xFFFFF)
    pairs = (fours & _U(0x000FFC00000FFC00)) << _U(6) | fours & _U(0x000003FF000003FF)
    return (pairs & _U(0x03E003E003E003E0)) << _U(3) | pairs & _U(0x001F001F001F001F)
