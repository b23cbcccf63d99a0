"""What comes from a repository cannot talk to the terminal."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from icectl.render.style import Style
from icectl.render.tables import Column, render_table
from icectl.render.text import (
    display_width,
    escape_controls,
    escape_lines,
    first_line,
    pad,
    truncate,
)
from icectl.render.trees import TreeEntry, render_tree

ANY_TEXT = st.text(st.characters(exclude_categories=()))
EVIL = "\x1b]0;owned\x07\x1b[2J\r\n\x9b31m\u202eabc\u2066\ud800"


def is_safe(line: str) -> bool:
    forbidden = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return not any(
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in forbidden
        for character in line
    )


@given(ANY_TEXT)
def test_escaped_text_is_one_safe_line(text: str) -> None:
    assert is_safe(escape_controls(text))
    assert all(map(is_safe, escape_lines(text)))
    assert is_safe(first_line(text))


def test_escapes_are_readable() -> None:
    assert escape_controls(EVIL) == (
        "\\x1b]0;owned\\x07\\x1b[2J\\r\\n\\x9b31m\\u202eabc\\u2066\\ud800"
    )
    assert escape_lines("a\r\nb\x1b\n\nc") == ["a", "b\\x1b", "", "c"]
    assert escape_controls("naïve 日本 👩‍🚀 ok") == "naïve 日本 👩‍🚀 ok"


def test_tables_and_trees_escape_what_they_show() -> None:
    lines = list(render_table([Column(EVIL[:0] + "T"), Column("U")], [(EVIL, EVIL)]))
    lines += render_tree("/" + EVIL, [TreeEntry(f"/{EVIL}/{EVIL}", note=EVIL)])
    assert all(map(is_safe, lines))


@given(ANY_TEXT.map(escape_controls), st.integers(0, 30))
def test_truncated_text_fits(text: str, width: int) -> None:
    short = truncate(text, width)
    assert display_width(short) <= width
    assert short == text or short.endswith("…"[:width])
    assert display_width(pad(short, 40)) == 40


def test_widths() -> None:
    assert display_width("abc") == 3
    assert display_width("日本") == 4
    assert display_width("e\u0301") == 1
    assert truncate("日本語", 4) == "日…"
    assert truncate("abcdef", 4) == "abc…"
    assert truncate("abcdef", 4, "...") == "a..."


def test_colour_is_outside_of_the_text() -> None:
    style = Style(colour=True)
    assert style.paint("x", "id") == "\x1b[33mx\x1b[0m"
    assert style.paint("", "id") == ""
    assert Style().paint("x", "id") == "x"
