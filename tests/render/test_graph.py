"""The commit graph, against pictures and against rules."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.render.blocks import plain_lines
from icectl.render.graph import GraphRow, assign_lanes, order_for_graph
from icectl.render.graph import render_graph as graph_lines
from tests.render.drawing import drawn


def render_graph(rows: Iterable[GraphRow]) -> list[str]:
    return list(plain_lines(graph_lines(rows)))


def rows(text: str) -> list[GraphRow]:
    """`child>parent` words, newest first."""
    pairs = [word.split(">") for word in text.split()]
    return [GraphRow(child, parent or None, (child,)) for child, parent in pairs]


@pytest.mark.parametrize(
    ("history", "picture"),
    [
        ("c>b b>a a>", "* c\n* b\n* a"),
        ("d>a c>b b>a a>", "* d\n| * c\n| * b\n|/\n* a"),
        ("d>b c>a b>a a>", "* d\n| * c\n* | b\n|/\n* a"),
        ("x>a y>b z>a b>a a>", "* x\n| * y\n| | * z\n| |/\n|/|\n| * b\n|/\n* a"),
        (
            "x>a y>b z>c b>a c>a a>",
            "* x\n| * y\n| | * z\n| * | b\n|/ /\n| * c\n|/\n* a",
        ),
        ("y>r x>m r> m>", "* y\n| * x\n* | r\n /\n* m"),
        ("b>gone a>gone", "* b\n| * a\n|/"),
        ("", ""),
    ],
)
def test_pictures(history: str, picture: str) -> None:
    assert "\n".join(render_graph(rows(history))) == picture


def test_a_line_that_wraps_keeps_the_bars() -> None:
    long = "one two three four five six seven eight"
    branches = [
        GraphRow("c", "a", (f"c {long}",)),
        GraphRow("b", "a", (f"b {long}", f"    {long}")),
    ]
    text = drawn(graph_lines([*branches, GraphRow("a", None, (f"a {long}",))]), 30)
    assert [line.rstrip() for line in text] == [
        "* c one two three four",
        "|     five six seven eight",
        "| * b one two three four",
        "| |     five six seven eight",
        "| |     one two three",
        "| |       four five six seven",
        "| |       eight",
        "|/",
        "* a one two three four",
        "      five six seven eight",
    ]


def test_further_lines_stand_beside_the_graph() -> None:
    tips = [
        GraphRow("b", "a", ("b", "more", "")),
        GraphRow("c", "a", ("c", "more")),
        GraphRow("a", None, ("a", "end")),
    ]
    assert list(render_graph(tips)) == [
        "* b",
        "| more",
        "|",
        "| * c",
        "| | more",
        "|/",
        "* a",
        "  end",
    ]


def forest(choices: list[tuple[int, int]]) -> list[GraphRow]:
    """Any forest, with clocks that need not agree with it."""
    return [
        GraphRow(number, choice % number if number and choice else None, (f"<{number}>",), when)
        for number, (choice, when) in enumerate(choices)
    ]


HISTORIES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=25).map(forest)


@settings(deadline=None)
@given(HISTORIES)
def test_every_line_of_the_picture_leads_where_it_should(history: list[GraphRow]) -> None:
    """Follow the characters downward from each commit: the next `*` is the parent."""
    ordered = order_for_graph(history)
    assert sorted(row.id for row in ordered) == sorted(row.id for row in history)
    seen: set[object] = set()
    for row in ordered:
        assert row.parent_id not in seen, "a parent stands above its child"
        seen.add(row.id)
    lines = list(render_graph(ordered))
    places = {}
    for number, line in enumerate(lines):
        if "<" in line:
            picture, _, label = line.partition("<")
            places[number, picture.index("*")] = int(label.rstrip(">"))
            lines[number] = picture
    for (number, column), child in places.items():
        parent = next(row.parent_id for row in history if row.id == child)
        if parent is not None:
            assert follow(lines, number, column, places) == parent


def follow(lines: list[str], number: int, column: int, places: dict[tuple[int, int], int]) -> int:
    """Odd columns are between two lines: there a `/` is on its way to the left."""
    while True:
        number += 1
        line = lines[number].ljust(column + 2)
        if column % 2:
            column -= 2 if column > 1 and line[column - 2] == "/" else 1
        elif column and line[column] != "|" and line[column - 1] == "/":
            column -= 1
        if (number, column) in places:
            return places[number, column]
        assert line[column] in "|/", (lines, number, column)


def test_newest_first_where_there_is_a_choice() -> None:
    history = [
        GraphRow("a", None, time=9),
        GraphRow("old", "a", time=1),
        GraphRow("new", "a", time=5),
    ]
    assert [row.id for row in order_for_graph(history)] == ["new", "old", "a"]


def test_a_cycle_ends() -> None:
    assert len(order_for_graph(rows("a>b b>a c>b"))) == 3


@given(st.lists(st.integers(0, 100), max_size=30), st.data())
def test_lanes_never_cross_a_commit_of_another_line(
    choices: list[int], data: st.DataObject
) -> None:
    """From a commit down to its parent, its column belongs to it alone."""
    parents = {
        number: None if choice % 7 == 0 or number == 0 else choice % number
        for number, choice in enumerate(choices)
    }
    times = data.draw(st.lists(st.integers(0, 9), min_size=len(parents), max_size=len(parents)))
    ordered = order_for_graph(
        GraphRow(number, parent, time=times[number]) for number, parent in parents.items()
    )
    lanes = assign_lanes(ordered)
    place = {row.id: number for number, row in enumerate(ordered)}
    for number, row in enumerate(ordered):
        end = place[row.parent_id] if row.parent_id is not None else number
        between = range(number + 1, end)
        assert all(lanes[other] != lanes[number] for other in between), ordered
    if ordered:
        assert lanes[0] == 0
        assert max(lanes) < len(ordered)
