"""What the terminal can show: colour, width and characters.

Renderers name the role of a piece of text; which colour that is, stands here only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["id", "branch", "tag", "path", "time", "good", "bad", "warning", "title", "dim"]

_CODES: dict[Role, str] = {
    "id": "33",
    "branch": "1;32",
    "tag": "1;35",
    "path": "36",
    "time": "34",
    "good": "32",
    "bad": "1;31",
    "warning": "33",
    "title": "1",
    "dim": "2",
}


@dataclass(frozen=True, slots=True)
class Style:
    """The default is a pipe: no colour, no limit on the width."""

    colour: bool = False
    width: int | None = None
    """Columns of the terminal; None where there is none."""
    unicode: bool = True

    def paint(self, text: str, role: Role | None) -> str:
        """Colour text that is already escaped."""
        if not self.colour or role is None or not text:
            return text
        return f"\x1b[{_CODES[role]}m{text}\x1b[0m"

    @property
    def ellipsis(self) -> str:
        return "…" if self.unicode else "..."


PLAIN = Style()
