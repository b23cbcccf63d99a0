"""Blocks as a terminal without colour shows them."""

from __future__ import annotations

import io
from collections.abc import Iterable

from icectl.render.blocks import Block
from icectl.render.screen import draw, make_console


def drawn(blocks: Iterable[Block], width: int = 300) -> list[str]:
    stream = io.StringIO()
    console = make_console(stream, {"COLUMNS": str(width)}, no_color=True)
    draw(blocks, console)
    return stream.getvalue().splitlines()
