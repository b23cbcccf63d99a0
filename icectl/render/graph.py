"""Draw the commit graph in characters, as git does.

Icechunk has no merges: each snapshot has at most one parent, so lines only join towards the
bottom. Children must precede their parents; `order_for_graph` sorts the rows.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from icectl.render.blocks import Block, GraphLine, Line


@dataclass(frozen=True, slots=True)
class GraphRow:
    id: Hashable
    parent_id: Hashable | None
    lines: Sequence[Line] = ()
    """The text next to the commit."""
    time: int = 0


def order_for_graph(rows: Iterable[GraphRow]) -> list[GraphRow]:
    """Sort children before their parents, and otherwise newest first.

    The clocks of writers differ, so sorting by time could put a parent first. Rows in a cycle,
    which only a damaged repository has, come last.
    """
    waiting = {row.id: row for row in rows}
    position = {row_id: index for index, row_id in enumerate(waiting)}
    children = Counter(row.parent_id for row in waiting.values())
    ready = [(-row.time, position[row.id]) for row in waiting.values() if not children[row.id]]
    heapq.heapify(ready)
    by_position = list(waiting.values())
    ordered = []
    while ready:
        row = by_position[heapq.heappop(ready)[1]]
        ordered.append(waiting.pop(row.id))
        children[row.parent_id] -= 1
        parent = waiting.get(row.parent_id)
        if parent is not None and not children[parent.id]:
            heapq.heappush(ready, (-parent.time, position[parent.id]))
    return ordered + list(waiting.values())


def assign_lanes(rows: Iterable[GraphRow]) -> list[int]:
    """The column of each row, in which its line continues down to its parent.

    A line that joins another one leaves its column to the next line that begins.
    """
    waiting: dict[Hashable, list[int]] = {}
    free: list[int] = []
    width = 0
    lanes = []
    for row in rows:
        here = waiting.pop(row.id, [])
        if not here:
            here = [heapq.heappop(free) if free else width]
            width = max(width, here[0] + 1)
        lane = min(here)
        lanes.append(lane)
        ended = [one for one in here if one != lane]
        if row.parent_id is None:
            ended.append(lane)
        else:
            waiting.setdefault(row.parent_id, []).append(lane)
        for one in ended:
            heapq.heappush(free, one)
    return lanes


def render_graph(rows: Iterable[GraphRow]) -> Iterator[Block]:
    """Yield the lines of the graph with the text of each row; joins have separate lines."""
    columns: list[Hashable] = []
    """The id at the lower end of each vertical line."""
    for row in rows:
        if row.id not in columns:
            columns.append(row.id)
        here = columns.index(row.id)
        marks = ["*" if index == here else "|" for index in range(len(columns))]
        graph = f"{' '.join(marks)} "
        marks[here] = " " if row.parent_id is None else "|"
        below = f"{' '.join(marks)} "
        for line in row.lines or ("",):
            yield GraphLine(graph, below, line)
            graph = below
        yield from _continue(columns, here, row.parent_id)


def _continue(columns: list[Hashable], here: int, parent_id: Hashable | None) -> Iterator[str]:
    """Continue the line at `here` to the parent: straight, joining another line, or ending."""
    if parent_id is None:
        del columns[here]
        if here < len(columns):
            yield _lines(here, [2 * index + 1 for index in range(here, len(columns))])
        return
    if parent_id not in columns:
        columns[here] = parent_id
        return
    there = columns.index(parent_id)
    left, right = min(here, there), max(here, there)
    columns[left] = parent_id
    del columns[right]
    # The right line joins the one to its left, and the lines after it move left.
    yield _lines(right, [2 * index + 1 for index in range(right - 1, len(columns))])
    for position in range(right - 2, left - 1, -1):
        yield _lines(len(columns), [2 * position + 1])


def _lines(count: int, slashes: Sequence[int]) -> str:
    """Draw `count` vertical lines, and slashes at these positions."""
    characters = [" "] * (2 * count + max(slashes) + 1)
    characters[: 2 * count : 2] = "|" * count
    for position in slashes:
        characters[position] = "/"
    return "".join(characters).rstrip()
