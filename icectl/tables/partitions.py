"""Work cut into partitions: parts that one task reads, of about the same weight."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")

WEIGHT = 8 * 2**20
"""Bytes of files, about, that one task reads."""
LEAST = WEIGHT // 128
"""What the smallest file weighs: each costs a request."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one task reads: items that the table's own module understands, and picklable."""

    items: tuple[Any, ...]
    num_rows: int = 0
    """As well as it is known beforehand."""


def pack(items: Iterable[Item], weigh: Callable[[Item], tuple[int, int]]) -> list[Work]:
    """The items in their order, cut where their weight is reached; `weigh` tells rows, too."""
    packed: list[Work] = []
    waiting: list[Item] = []
    weight = rows = 0
    for item in items:
        item_weight, item_rows = weigh(item)
        item_weight = max(item_weight, LEAST)
        if waiting and weight + item_weight > WEIGHT:
            packed.append(Work(tuple(waiting), rows))
            waiting, weight, rows = [], 0, 0
        waiting.append(item)
        weight += item_weight
        rows += item_rows
    if waiting:
        packed.append(Work(tuple(waiting), rows))
    return packed
