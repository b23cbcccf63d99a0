"""The picture is current and self-contained."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import pytest

from tests.docs.picture import COMMANDS, PICTURE, picture

REPORT = PICTURE.with_name("report.png")

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def test_is_current() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `make picture`"


def test_shows_the_commands_and_needs_nothing_else() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    shown = "".join(ElementTree.fromstring(text).itertext()).replace("\xa0", " ")
    for command in COMMANDS:
        assert command in shown
    assert text.count("http") == 1, "only the name space"


def test_the_picture_of_the_report_is_small() -> None:
    """Browsers draw differently, so it is not compared; `make picture` makes it again."""
    data = REPORT.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < 300_000
