"""Tables, trees and progress, as plain text and drawn by rich."""

from __future__ import annotations

import io
from collections import Counter
from operator import itemgetter
from random import Random

import pytest

from icectl.model.snapshot import path_sort_key
from icectl.render.blocks import Column, Share, Table, Tree, TreeEntry, plain_lines
from icectl.render.progress import ProgressDisplay
from icectl.render.screen import make_console, make_tree
from tests.render.drawing import drawn

TABLE = Table(
    [
        Column("SNAPSHOT", itemgetter(0), "id"),
        Column("TIME", itemgetter(1), "time"),
        Column("SIZE", itemgetter(2), right=True),
        Column("EXTRA", itemgetter(3), optional=True),
        Column("MESSAGE", itemgetter(4), wraps=True),
    ],
    [
        ("1CECHNKREP0F1RSTCMT0", "2024-01-31 12:00:00Z", "1 KiB", "x" * 20, "a long message " * 4),
        ("2CECHNKREP0F1RSTCMT0", "2024-01-31 12:00:00Z", None, None, "short"),
    ],
)


def test_a_pipe_gets_aligned_rows_and_nothing_is_cut() -> None:
    lines = list(plain_lines([TABLE]))
    assert lines[0].split() == ["SNAPSHOT", "TIME", "SIZE", "EXTRA", "MESSAGE"]
    assert ("a long message " * 4).strip() in lines[1]
    assert lines[1].index("a long") == lines[2].index("short")
    assert not any(line.endswith(" ") for line in lines)


def test_no_rows_draw_nothing() -> None:
    empty = Table(TABLE.columns, [])
    assert list(plain_lines([empty])) == drawn([empty]) == []


def test_a_narrow_terminal_keeps_whole_words() -> None:
    lines = drawn([TABLE], width=60)
    assert max(map(len, lines)) <= 60
    assert "EXTRA" not in lines[0]
    assert lines[1].startswith("1CECHNKR  2024-01-31  ")
    words = " ".join(line[30:] for line in lines[1:]).split()
    assert words.count("message") == 4


@pytest.mark.parametrize("width", range(40, 101))
def test_no_width_cuts_off_text_that_wraps(width: int) -> None:
    columns = [
        Column("", itemgetter(0)),
        Column("SNAPSHOT", itemgetter(1), "id"),
        Column("TIME", itemgetter(2), "time"),
        Column("MESSAGE", itemgetter(3), wraps=True),
        Column("WHY", itemgetter(4), wraps=True),
    ]
    message, why = "Add observations (sensor 7 drifts)", "reached by no ref: left to gc"
    row = ("-", "1CECHNKREP0F1RSTCMT0", "2024-01-31 12:00:00Z", message, why)
    lines = drawn([Table(columns, [row])], width=width)
    assert max(map(len, lines)) <= width
    shown = "".join(lines[1:]).replace(" ", "")
    assert Counter("".join(row).replace(" ", "")) - Counter(shown) <= Counter(row[1] + row[2])


def test_a_long_path_is_broken_after_a_slash_only() -> None:
    columns = [
        Column("PATH", itemgetter(0), "path", wraps=True),
        Column("TYPE", itemgetter(1)),
        Column("SHAPE", itemgetter(2), optional=True),
    ]
    name = "values_of_the_second_kind"
    row = (f"/a/group/of/many/other/things/{name}", "array", "4 x 4 x 100")
    lines = [line.split()[0] for line in drawn([Table(columns, [row])], width=40)[1:]]
    assert lines == ["/a/group/of/many/other/things/", name]
    assert "SHAPE" in drawn([Table(columns, [("/a/b", *row[1:])])], width=40)[0]


def test_words_of_several_columns_stay_whole() -> None:
    columns = [Column(name, itemgetter(n), wraps=True) for n, name in enumerate("AB")]
    row = ("a_very_long_name_of_something as text", "a " * 30)
    assert "a_very_long_name_of_something" in drawn([Table(columns, [row])], width=60)[1].split()


def test_bars_have_the_length_of_their_share() -> None:
    table = Table([Column("", Share)], [0.5, 0, 2])
    rows = list(plain_lines([table]))[1:]
    assert [row.count("#") for row in rows] == [10, 0, 20]


def test_tree() -> None:
    entries = [
        TreeEntry("/"),
        TreeEntry("/a"),
        TreeEntry("/a/x", "(3, 4) float32", details=("shape changed",)),
        TreeEntry("/a/y", mark="+"),
        TreeEntry("/implied/z"),
    ]
    assert list(plain_lines([Tree("/", entries)])) == [
        "/",
        "├── a",
        "│   ├── x  (3, 4) float32",
        "│   │       shape changed",
        "│   └── + y",
        "└── implied",
        "    └── z",
    ]
    assert next(iter(plain_lines([Tree("/a", entries[1:4])]))) == "/a"


@pytest.mark.parametrize("seed", range(5))
def test_rich_draws_the_same_tree(seed: int) -> None:
    random = Random(seed)
    paths = {"".join(f"/{random.choice('abc')}" for _ in range(random.randrange(5))) or "/"}
    for _ in range(30):
        paths.add(random.choice(sorted(paths)).rstrip("/") + f"/{random.choice('abcdé')}")
    entries = [
        TreeEntry(path, random.choice(("", "i4")), None, random.choice(("", "+")), details)
        for path in sorted(paths, key=path_sort_key)
        for details in [("old: 1 → 2",) * random.randrange(3)]
    ]
    tree = Tree("/", random.sample(entries, len(entries)))
    console = make_console(io.StringIO(), {}, width=1000)
    console.print(make_tree(tree))
    drawn = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert list(plain_lines([tree])) == drawn


def test_a_deep_tree_needs_no_deep_stack() -> None:
    assert len(list(plain_lines([Tree("/", [TreeEntry("/a" * 2000)])]))) == 2001


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_in_a_log_is_a_line_now_and_then() -> None:
    lines: list[str] = []
    clock = Clock()
    with ProgressDisplay(log=lines.append, clock=clock).phase("reading", 100, "files") as phase:
        for _ in range(65):
            clock.now += 1
            phase.advance()
    assert lines == ["reading: 30/100 files, 30.0s", "reading: 60/100 files, 1m00s"]


def test_quick_work_and_quiet_work_print_nothing() -> None:
    stream = io.StringIO()
    console = make_console(stream, {}, terminal=True)
    for display in (ProgressDisplay(lambda: console), ProgressDisplay()):
        with display.phase("x") as one, display.phase("y", 3) as two:
            one.advance()
            two.advance(3)
    assert stream.getvalue() == ""
