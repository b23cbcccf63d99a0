"""Draw blocks on a terminal with rich.

On a narrow terminal ids are shortened to a prefix that is still a valid REF, optional columns are
omitted, and only text columns wrap: ids, numbers and names are never broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.bar import Bar
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text
from rich.theme import Theme
from rich.tree import Tree as RichTree

from icectl.render.blocks import (
    BAR_WIDTH,
    GAP,
    Block,
    Branch,
    Column,
    GraphLine,
    Line,
    Role,
    Share,
    Table,
    Tree,
    TreeEntry,
    align,
    nest,
    plain_cell,
)
from icectl.render.text import display_width, escape_controls

THEME = Theme(
    {
        "id": "yellow",
        "branch": "bold green",
        "tag": "bold magenta",
        "path": "cyan",
        "time": "blue",
        "good": "green",
        "bad": "bold red",
        "warning": "yellow",
        "title": "bold",
        "dim": "dim",
    }
)
INDENT = 4
"""The indentation of the second and later lines of a long line."""
SMALLEST_TEXT = 16
"""Optional columns are omitted before a wrapping column becomes narrower than this."""
MOST_ROWS = 2000
"""Longer tables are written as plain text, because rich would take too long."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Do not end the process as rich does: the command line reports it with an exit code."""
        raise BrokenPipeError


def make_console(
    stream: TextIO,
    environ: Mapping[str, str],
    *,
    no_color: bool = False,
    terminal: bool | None = None,
    width: int | None = None,
) -> Console:
    """Return a console without markup."""
    plain = no_color or bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    return _Console(
        file=stream,
        theme=THEME,
        markup=False,
        emoji=False,
        highlight=False,
        color_system=None if plain else "auto",
        force_terminal=terminal,
        # rich does not detect either of them on a dumb terminal.
        width=width,
        height=None if width is None else 25,
        _environ=environ,
    )


def draw(blocks: Iterable[Block], console: Console) -> None:
    for block in blocks:
        if isinstance(block, Table):
            for drawn in _tables(block, console.width):
                console.print(drawn)
        elif isinstance(block, Tree):
            console.print(make_tree(block))
        elif isinstance(block, GraphLine):
            graph = block.graph
            for line in _wrap(block.line, console, console.width - len(graph)):
                console.print(Text(graph).append_text(line))
                graph = block.graph_below
        else:
            for line in _wrap(block, console, console.width):
                console.print(line)


def _wrap(line: Line, console: Console, width: int) -> Iterator[Text]:
    """The line as lines that fit; the second and later ones are indented."""
    text = make_text(line, console.width)
    if text.cell_len <= width:
        yield text
        return
    spaces = len(text.plain) - len(text.plain.lstrip(" "))
    indent = spaces + 2 if spaces else INDENT
    first, *rest = text.wrap(console, max(width - indent, SMALLEST_TEXT))
    yield first
    for part in rest:
        yield Text(" " * indent).append_text(part)


def make_text(line: Line, width: int) -> Text:
    text = Text()
    for part in (line,) if isinstance(line, str) else line:
        shown, role = (part, None) if isinstance(part, str) else part
        if role == "time" and width < 70:
            shown = _shorten(role, shown, width)
        text.append(escape_controls(shown), role)
    return text


def make_tree(tree: Tree) -> RichTree:
    root = nest(tree)
    top = RichTree(_label(root), guide_style="dim")
    open_ = [(root, top)]
    while open_:
        branch, drawn = open_.pop()
        open_ += [(one, drawn.add(_label(one))) for one in branch.below]
    return top


def _label(branch: Branch) -> Text:
    entry = branch.entry or TreeEntry("")
    label = Text()
    label.append(branch.marked_name, style=entry.role or "")
    if entry.note:
        label.append(f"{GAP}{escape_controls(entry.note)}", style="dim")
    for line in entry.details:
        label.append(f"\n    {escape_controls(line)}", style="dim")
    return label


def _tables(table: Table, width: int) -> Iterator[RenderableType]:
    rows = table.rows()
    if not rows:
        return
    if len(rows) > MOST_ROWS:
        yield from map(Text, align(table.columns, rows))
        return
    drawn = RichTable(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="title")
    shown, limit = _fitting_columns(table.columns, zip(*rows, strict=True), width)
    for one in shown:
        column = one.column
        drawn.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            style=column.role or "",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
            width=one.width_within(limit),
        )
    for row in zip(*(one.cells for one in shown), strict=True):
        drawn.add_row(*row)
    yield drawn


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column and its cells."""

    column: Column
    width: int
    """The width of its title and of every cell, without wrapping."""
    cells: list[Text | Bar]

    def width_within(self, limit: int) -> int:
        return min(self.width, limit) if self.column.wraps else self.width


def _fitting_columns(
    columns: Sequence[Column], values: Iterable[Sequence[object]], width: int
) -> tuple[list[_Shown], int]:
    """Return the columns to draw, and the width at which those that wrap do so.

    Optional columns are omitted from the right until the rest fits. rich would cut the lines of a
    table off if its own widths for columns that wrap were too large together.
    """
    shown = []
    for column, of_column in zip(columns, values, strict=True):
        cells = [_cell(column, value, width) for value in of_column]
        widths = (cell.cell_len if isinstance(cell, Text) else BAR_WIDTH for cell in cells)
        shown.append(_Shown(column, max(display_width(column.title), *widths), cells))

    def fits(limit: int) -> bool:
        gaps = len(GAP) * (len(shown) - 1)
        return sum(one.width_within(limit) for one in shown) + gaps <= width

    for one in reversed(shown[:]):
        if fits(SMALLEST_TEXT):
            break
        if one.column.optional:
            shown.remove(one)
    return shown, next((limit for limit in range(width, 1, -1) if fits(limit)), 1)


def _cell(column: Column, value: object, width: int) -> Text | Bar:
    if isinstance(value, Share):
        return Bar(1.0, 0.0, value.value, width=BAR_WIDTH)
    text = _shorten(column.role, plain_cell(value), width)
    return Text(text, style=value[1] if isinstance(value, tuple) else "")


def _shorten(role: Role | None, text: str, width: int) -> str:
    """Shorten ids to a valid REF; drop the seconds of times, then the time of day."""
    if width >= 100:
        return text
    if role == "id":
        return text[: 12 if width >= 70 else 8]
    if role == "time":
        return text[: 16 if width >= 70 else 10]
    return text
