"""The output of renderers: lines, tables and trees.

A renderer turns a result into blocks and is independent of the terminal. `render.screen` draws
blocks with rich on a terminal; `plain_lines` writes them as aligned text to pipes and files, as
a stream, and cuts nothing. Both escape all text, so blocks may contain untrusted text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from icectl.render.text import display_width, escape_controls, format_size, format_time_short

Role = Literal["id", "branch", "tag", "path", "time", "good", "bad", "warning", "title", "dim"]
"""The meaning of a piece of text; `render.screen` defines its style."""

Part = str | tuple[str, Role]
Line = str | tuple[Part, ...]
"""One line of text, as a string or as parts with optional roles."""


@dataclass(frozen=True, slots=True)
class GraphLine:
    """A line to the right of a commit graph, which continues if the line wraps."""

    graph: str
    graph_below: str
    line: Line


@dataclass(frozen=True, slots=True)
class Share:
    """A fraction between 0 and 1, drawn as a bar."""

    value: float


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    cell: Callable[[Any], object]
    """The value in the row of an item: text, a number, a `Share`, a text with its role, or None."""
    role: Role | None = None
    right: bool = False
    wraps: bool = False
    """Wraps if the terminal is too narrow; other columns keep their width."""
    optional: bool = False
    """Omitted if the terminal is too narrow for all columns."""


def size_column(title: str, name: str, *, optional: bool = False) -> Column:
    """A column of the bytes in the attribute `name` of each item."""
    return Column(title, lambda one: format_size(getattr(one, name)), right=True, optional=optional)


def count_column(title: str, name: str) -> Column:
    return Column(title, lambda one: f"{getattr(one, name):,}", right=True)


def time_column(title: str, name: str) -> Column:
    """A column of times; an item without one has an empty cell."""

    def cell(one: object) -> str | None:
        moment = getattr(one, name)
        return None if moment is None else format_time_short(moment)

    return Column(title, cell, "time")


@dataclass(frozen=True, slots=True)
class Table:
    """One row per item; a table without items is not drawn."""

    columns: Sequence[Column]
    items: Iterable[Any]

    def rows(self) -> list[list[object]]:
        return [[column.cell(item) for column in self.columns] for item in self.items]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    path: str
    """Absolute, with `/` between the names."""
    note: str = ""
    """Follows the name, such as shape and data type."""
    role: Role | None = None
    mark: str = ""
    """Precedes the name, such as the `+` of a diff."""
    details: tuple[str, ...] = ()
    """Lines below the name."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The entries below the path `root`, in order; missing groups are added."""

    root: str
    entries: Iterable[TreeEntry]


Block = Line | GraphLine | Table | Tree

GAP = "  "
BAR_WIDTH = 20


def plain_lines(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Table):
            yield from align(block.columns, block.rows())
        elif isinstance(block, Tree):
            yield from _draw_tree(block)
        elif isinstance(block, GraphLine):
            yield f"{block.graph}{_plain_line(block.line)}".rstrip()
        else:
            yield _plain_line(block)


def _plain_line(line: Line) -> str:
    if isinstance(line, str):
        return escape_controls(line)
    parts = (escape_controls(part if isinstance(part, str) else part[0]) for part in line)
    return "".join(parts).rstrip()


def plain_cell(value: object) -> str:
    """Return the text of a table cell."""
    if value is None:
        return ""
    if isinstance(value, Share):
        share = min(max(value.value, 0.0), 1.0)
        return "#" * (max(1, round(share * BAR_WIDTH)) if share else 0)
    if isinstance(value, tuple):
        value = value[0]
    return escape_controls(str(value))


def align(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    cells = [[plain_cell(value) for value in row] for row in rows]
    if not cells:
        return
    titles = [column.title for column in columns]
    widths = [max(map(display_width, values)) for values in zip(titles, *cells, strict=True)]
    for row in (titles, *cells):
        parts = []
        for column, text, width in zip(columns, row, widths, strict=True):
            spaces = " " * (width - display_width(text))
            parts.append(spaces + text if column.right else text + spaces)
        yield GAP.join(parts).rstrip()


@dataclass(slots=True)
class Branch:
    """A node of a tree; `entry` is None for a group that is only implied."""

    name: str
    entry: TreeEntry | None = None
    below: list[Branch] = field(default_factory=list)

    @property
    def marked_name(self) -> str:
        mark = self.entry.mark if self.entry is not None else ""
        return escape_controls(f"{mark} {self.name}" if mark else self.name)


def nest(tree: Tree) -> Branch:
    """Return the root with everything below it."""
    top = Branch(tree.root)
    found: dict[tuple[str, ...], Branch] = {}
    depth = len(_names(tree.root))
    for entry in tree.entries:
        names = tuple(_names(entry.path)[depth:])
        branch = top
        for end in range(1, len(names) + 1):
            path = names[:end]
            if path not in found:
                found[path] = Branch(path[-1])
                branch.below.append(found[path])
            branch = found[path]
        branch.entry = entry
    return top


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _draw_tree(tree: Tree) -> Iterator[str]:
    """Draw as rich does, which takes a millisecond for each line of a long tree."""
    stack = [(nest(tree), "", "")]
    while stack:
        branch, first, rest = stack.pop()
        entry = branch.entry or TreeEntry("")
        note = f"{GAP}{escape_controls(entry.note)}" if entry.note else ""
        yield f"{first}{branch.marked_name}{note}".rstrip()
        for line in entry.details:
            yield f"{rest}    {escape_controls(line)}".rstrip()
        guides = [("├── ", "│   ")] * (len(branch.below) - 1) + [("└── ", "    ")]
        below = [
            (one, rest + guide, rest + next_guide)
            for one, (guide, next_guide) in zip(branch.below, guides, strict=False)
        ]
        stack += reversed(below)
