"""Write blocks as plain aligned text, for pipes, files and long streams.

Text is never truncated. Lines are streamed, because the `log` of a long history uses this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from icectl.render.blocks import Block, Column, Share, Table, Tree
from icectl.render.text import display_width, escape_controls

GAP = "  "
BAR_WIDTH = 20


def plain_lines(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, str):
            yield escape_controls(block)
        elif isinstance(block, Table):
            yield from align(block.columns, block.rows())
        elif isinstance(block, Tree):
            yield from _draw_tree(block)
        else:
            yield "".join(
                escape_controls(part if isinstance(part, str) else part[0]) for part in block
            ).rstrip()


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


def _draw_tree(tree: Tree) -> Iterator[str]:
    """Draw with rich on a console that is too wide for any line to wrap."""
    import io

    from rich.console import Console

    from icectl.render.screen import make_tree

    console = Console(file=io.StringIO(), width=100_000, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(make_tree(tree), soft_wrap=True)
    yield from (line.rstrip() for line in capture.get().splitlines())
