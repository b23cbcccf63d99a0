"""Foreign text made fit for a terminal.

Names and messages come from whoever can write to the repository. Control characters could
move the cursor, change the title or hide text, and bidirectional overrides reorder it, so
both are shown as escapes.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_controls(text: str) -> str:
    """The text on one line, with everything a terminal would act on shown as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_escape, text)


def message_lines(text: str) -> list[str]:
    """The lines of a commit message."""
    return text.replace("\r\n", "\n").split("\n")


def first_line(text: str) -> str:
    """The first line of a message."""
    return text.split("\n", 1)[0].rstrip("\r")


def display_width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    short = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
