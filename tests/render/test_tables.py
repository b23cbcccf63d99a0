"""Columns line up, fit the terminal, and are never cut on a pipe."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from icectl.render.style import Style
from icectl.render.tables import SMALLEST, Column, render_table
from icectl.render.text import display_width, escape_controls


def test_golden() -> None:
    columns = [Column("NAME"), Column("SIZE", right=True), Column("NOTE")]
    rows = [("main", 1, "x"), ("日本", 20000, None), (None, None, "only")]
    assert list(render_table(columns, rows)) == [
        "NAME   SIZE  NOTE",
        "main      1  x",
        "日本  20000",
        "             only",
    ]


def test_no_rows_no_table() -> None:
    assert list(render_table([Column("NAME")], [])) == []


def test_the_willing_column_gives_way_first() -> None:
    columns = [Column("ID"), Column("MESSAGE", shrink=True)]
    rows = [("1CECHNKREP0F1RSTCMT0", "a very long message that does not fit at all")]
    narrow = list(render_table(columns, rows, Style(width=40)))
    assert narrow[1] == "1CECHNKREP0F1RSTCMT0  a very long messa…"
    assert list(render_table(columns, rows))[1].endswith("fit at all")


def test_what_identifies_a_row_gives_way_last() -> None:
    columns = [Column("PATH", "path"), Column("BYTES ADDED", right=True), Column("SHAPE")]
    columns.append(Column("DIMENSIONS", shrink=True))
    rows = [(f"/ocean/{name}", 1234567890, "100 x 200 x 300", "time, y, x") for name in "uv"]
    assert list(render_table(columns, rows, Style(width=40))) == [
        "PATH      BYTES ADD…  SHAPE     DIMENSI…",
        "/ocean/u  1234567890  100 x 2…  time, y…",
        "/ocean/v  1234567890  100 x 2…  time, y…",
    ]
    rows = [(f"/ocean/deep/{name}", *row) for name, (_, *row) in zip("uv", rows, strict=True)]
    # Numbers are whole, and of a path the end is shown.
    assert list(render_table(columns, rows, Style(width=40)))[1:] == [
        "…/deep/u  1234567890  100 x 2…  time, y…",
        "…/deep/v  1234567890  100 x 2…  time, y…",
    ]


def test_colours_do_not_move_the_columns() -> None:
    columns = [Column("A", "id", right=True), Column("B", "branch")]
    rows = [("x", "b"), ("long", "c")]
    coloured = list(render_table(columns, rows, Style(colour=True)))
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured]
    assert coloured != plain
    assert plain == list(render_table(columns, rows))


@given(
    st.lists(st.tuples(st.text(max_size=60), st.text(max_size=60), st.integers()), min_size=1),
    st.integers(3 * SMALLEST + 4, 120),
)
def test_lines_fit_and_line_up(rows: list[tuple[str, str, int]], width: int) -> None:
    columns = [Column("A"), Column("B", shrink=True), Column("C", right=True)]
    lines = list(render_table(columns, rows, Style(width=width)))
    assert len(lines) == len(rows) + 1
    assert max(map(display_width, lines)) <= width
    for line, row in zip(list(render_table(columns, rows))[1:], rows, strict=True):
        assert line.endswith(str(row[2]))
        assert line.startswith(escape_controls(row[0]).rstrip())


def test_two_thousand_rows_are_quick() -> None:
    columns = [Column("ID", "id"), Column("TIME"), Column("MESSAGE", shrink=True)]
    rows = [("1CECHNKREP0F1RSTCMT0", "2024-01-31 12:00:00Z", f"commit {n}") for n in range(2000)]
    start = time.perf_counter()
    assert len(list(render_table(columns, rows))) == 2001
    assert time.perf_counter() - start < 0.5
