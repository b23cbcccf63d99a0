"""The picture is that of the present program, and needs nothing from elsewhere."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import pytest

from tests.docs.picture import CHARACTER, COMMANDS, MARGIN, PICTURE, draw, picture

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def test_is_current() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `make picture`"


def test_shows_the_commands_and_needs_nothing_else() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    words = [element.text for element in root.iter() if element.tag.endswith("}text")]
    for command in COMMANDS:
        assert command in words
    assert text.count("http") == 1, "only the name space"


def test_colours_become_attributes() -> None:
    drawn = draw(["a\x1b[1;32m <b> \x1b[0mc"])
    assert ' font-weight="bold" fill="#7ee787">&lt;b&gt;</text>' in drawn


def test_columns_do_not_depend_on_runs_of_spaces() -> None:
    drawn = draw(["chunks   28"])
    assert ">chunks</text>" in drawn
    assert f'<text x="{MARGIN + 9 * CHARACTER:.1f}"' in drawn
