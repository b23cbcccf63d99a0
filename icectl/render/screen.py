"""Draw blocks on a terminal with rich.

On a narrow terminal ids are shortened to a prefix that is still a valid REF, optional columns are
omitted, and only text columns wrap: ids, numbers and names are never broken.
"""

from __future__ import annotations

import re
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
_SPACES = re.compile(r"\s+")
_AFTER_SLASH = re.compile(r"(?<=/)")


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
    columns = []
    for one, fitting in _fitting_columns(table.columns, zip(*rows, strict=True), width):
        column = one.column
        is_path = column.role == "path" and fitting < one.width
        columns.append([_fold_path(cell, fitting) for cell in one.cells] if is_path else one.cells)
        drawn.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            style=column.role or "",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
            width=fitting,
        )
    for row in zip(*columns, strict=True):
        drawn.add_row(*row)
    yield drawn


@dataclass(frozen=True, slots=True)
class _Shown:
    """A column and its cells."""

    column: Column
    width: int
    """The width of its title and of every cell, without wrapping."""
    longest_word: int
    cells: list[Text | Bar]

    def width_within(self, limit: int, *, break_words: bool) -> int:
        if not self.column.wraps:
            return self.width
        return min(self.width, limit if break_words else max(limit, self.longest_word))


def _fitting_columns(
    columns: Sequence[Column], values: Iterable[Sequence[object]], width: int
) -> list[tuple[_Shown, int]]:
    """Return the columns to draw and their widths.

    Optional columns are omitted from the right until the rest fits. Words are broken only if there
    is no other way. rich would cut the lines of a table off if its own widths for columns that
    wrap were too large together.
    """
    every = [_shown(column, cells, width) for column, cells in zip(columns, values, strict=True)]
    for break_words in (False, True):
        shown = every[:]
        for one in reversed(every):
            if one.column.optional and not _widths(shown, SMALLEST_TEXT, width, break_words):
                shown.remove(one)
        for limit in range(width, 0, -1):
            if found := _widths(shown, limit, width, break_words):
                return [*zip(shown, found, strict=True)]
    return [(one, one.width_within(1, break_words=True)) for one in shown]


def _widths(columns: Sequence[_Shown], limit: int, most: int, break_words: bool) -> list[int]:
    """Return the widths of columns that wrap at `limit`, or nothing if these are too large."""
    widths = [one.width_within(limit, break_words=break_words) for one in columns]
    return widths if sum(widths) + len(GAP) * (len(columns) - 1) <= most else []


def _shown(column: Column, values: Sequence[object], width: int) -> _Shown:
    cells = [_cell(column, value, width) for value in values]
    widths = (cell.cell_len if isinstance(cell, Text) else BAR_WIDTH for cell in cells)
    longest_word = 0
    if column.wraps:
        between = _AFTER_SLASH if column.role == "path" else _SPACES
        words = {word for cell in cells for word in between.split(str(cell))}
        longest_word = min(max(map(display_width, words), default=0), width * 2 // 3)
    return _Shown(column, max(display_width(column.title), *widths), longest_word, cells)


def _fold_path(path: Text | Bar, width: int) -> Text | Bar:
    """Break a path after a slash."""
    if isinstance(path, Bar):
        return path
    lines = [""]
    for part in _AFTER_SLASH.split(path.plain):
        if lines[-1] and display_width(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(lines), path.style)


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
