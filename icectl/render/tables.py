"""Plain tables: aligned columns, fast for thousands of rows, cut to fit a terminal.

On a pipe nothing is ever cut. Cells are escaped here, so rows may hold untrusted text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from icectl.render.style import PLAIN, Role, Style
from icectl.render.text import display_width, escape_controls, pad, truncate

GAP = "  "
SMALLEST = 8
"""A column that gives way to fit the terminal keeps this many columns."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    role: Role | None = None
    right: bool = False
    shrink: bool = False
    """Gives way first when the terminal is too narrow."""

    @property
    def identifies(self) -> bool:
        """Tells which thing the row is about, and so gives way last."""
        return self.role in ("id", "branch", "tag", "path") and not self.shrink


def render_table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], style: Style = PLAIN
) -> Iterator[str]:
    """The header and one line per row; None is an empty cell. Nothing for no rows."""
    cells = [
        ["" if value is None else escape_controls(str(value)) for value in row] for row in rows
    ]
    if not cells:
        return
    titles = [column.title for column in columns]
    widths = [max(map(display_width, values)) for values in zip(titles, *cells, strict=True)]
    if style.width is not None:
        widths = _fit(
            columns, widths, [*map(_smallest, columns, zip(*cells, strict=True))], style.width
        )
    yield _line(columns, titles, widths, style, header=True)
    for row in cells:
        yield _line(columns, row, widths, style, header=False)


def _line(
    columns: Sequence[Column],
    row: Sequence[str],
    widths: Sequence[int],
    style: Style,
    *,
    header: bool,
) -> str:
    parts = []
    for column, text, width in zip(columns, row, widths, strict=True):
        # The end of a path tells it from its neighbours.
        from_start = column.role == "path" and not header
        fitted = truncate(text, width, style.ellipsis, from_start=from_start)
        padded = pad(fitted, width, right=column.right)
        role: Role | None = "title" if header else column.role
        parts.append(padded.replace(fitted, style.paint(fitted, role), 1) if fitted else padded)
    return GAP.join(parts).rstrip()


def _smallest(column: Column, cells: Sequence[str]) -> int:
    """How narrow it gets before all else is: of a number only the title is cut."""
    return max(SMALLEST, *map(display_width, cells)) if column.right else SMALLEST


def _fit(
    columns: Sequence[Column], widths: Sequence[int], smallest: Sequence[int], limit: int
) -> list[int]:
    """Narrow the widest column that may give way until the line fits, or none is left."""
    fitted = list(widths)
    excess = sum(fitted) + len(GAP) * (len(fitted) - 1) - limit
    turns = [0 if column.shrink else 2 if column.identifies else 1 for column in columns]
    for turn in range(4):
        least = smallest if turn < 3 else [SMALLEST] * len(columns)
        candidates = [index for index, own in enumerate(turns) if own <= turn]
        while excess > 0:
            wide = [index for index in candidates if fitted[index] > least[index]]
            if not wide:
                break
            fitted[max(wide, key=fitted.__getitem__)] -= 1
            excess -= 1
    return fitted
