"""The one way to split work into units: parts of similar weight, each for one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")

UNIT_BYTES = 8 * 2**20
"""The approximate size of the files that one task reads."""
MOST_ITEMS = 128
"""Small files per unit: each costs a request."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The items that one task processes; picklable."""

    items: tuple[Any, ...]
    num_rows: int = 0
    """An estimate."""


def split(
    items: Iterable[Item],
    weigh: Callable[[Item], tuple[int, int]] = lambda _: (0, 0),
    *,
    unit_bytes: int = UNIT_BYTES,
    most_items: int = MOST_ITEMS,
) -> list[Unit]:
    """Split the items, in their order; `weigh` returns the bytes and the rows of an item."""
    units: list[Unit] = []
    waiting: list[Item] = []
    size = rows = 0
    for item in items:
        item_size, item_rows = weigh(item)
        if waiting and (size + item_size > unit_bytes or len(waiting) == most_items):
            units.append(Unit(tuple(waiting), rows))
            waiting, size, rows = [], 0, 0
        waiting.append(item)
        size += item_size
        rows += item_rows
    if waiting:
        units.append(Unit(tuple(waiting), rows))
    return units
