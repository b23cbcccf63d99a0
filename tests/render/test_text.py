"""Text from a repository cannot talk to the terminal, wherever it is shown."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from icectl.render.blocks import Block, Column, Table, Tree, TreeEntry, plain_lines
from icectl.render.text import escape_controls, first_line, message_lines
from tests.render.drawing import drawn

ANY_TEXT = st.text(st.characters(exclude_categories=()))
EVIL = "\x1b]0;owned\x07\x1b[2J\r\n\x9b31m\u202eabc\u2066\ud800 [bold]x[/bold] :smile:"


def is_safe(line: str) -> bool:
    forbidden = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return not any(
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in forbidden
        for character in line
    )


def every_kind_of_block(text: str) -> list[Block]:
    return [
        text,
        (text, (text, "id")),
        Table(
            [Column("T", str, "id"), Column("U", lambda text: (text, "dim"), wraps=True)], [text]
        ),
        Tree(f"/{text}", [TreeEntry(f"/{text}/{text}", note=text, mark=text, details=(text,))]),
    ]


@given(ANY_TEXT)
def test_escaped_text_is_one_safe_line(text: str) -> None:
    assert is_safe(escape_controls(text))
    assert is_safe(escape_controls(first_line(text)))


@given(ANY_TEXT)
def test_blocks_are_safe_on_a_pipe_and_on_a_terminal(text: str) -> None:
    assert all(map(is_safe, plain_lines(every_kind_of_block(text))))
    assert all(map(is_safe, drawn(every_kind_of_block(text))))


def test_markup_is_shown_as_it_is() -> None:
    for lines in (plain_lines(every_kind_of_block(EVIL)), drawn(every_kind_of_block(EVIL))):
        text = "\n".join(lines)
        assert "[bold]x[/bold] :smile:" in text
        assert "\\x1b]0;owned\\x07\\x1b[2J\\r\\n\\x9b31m\\u202eabc\\u2066\\ud800" in text


def test_escapes_are_readable() -> None:
    assert message_lines("a\r\nb\n\nc") == ["a", "b", "", "c"]
    assert escape_controls("naïve 日本 👩‍🚀 ok") == "naïve 日本 👩‍🚀 ok"
