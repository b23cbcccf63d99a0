"""Escape untrusted text, and format sizes, counts and times.

Anyone who can write to the repository controls names and messages. Control characters could move
the cursor, change the title or hide text, and bidirectional overrides reorder it, so both are
shown as escapes. In the log of GitHub Actions a line can be a command, and in a spreadsheet a cell
can be a formula.

Inside icectl a time is an integer: microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

# `re` compiles these patterns when they are first used, which most texts do not need.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
_HIDDEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_WORKFLOW_COMMAND = rf"^([\s{_HIDDEN}]*):(?=[{_HIDDEN}]*:)|#(?=[{_HIDDEN}]*#[{_HIDDEN}]*\[)"
"""GitHub's runner finds commands after `##[` anywhere in a line, and after `::` at its start.

Its comparison depends on the locale and may ignore invisible characters.
"""
_FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")


def escape_controls(text: str) -> str:
    """Return the text on one line, with control characters as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNSAFE, _escape, text)


def message_lines(text: str) -> list[str]:
    """Return the lines of a commit message."""
    return text.replace("\r\n", "\n").split("\n")


def first_line(text: str) -> str:
    """Return the first line of a message."""
    return text.split("\n", 1)[0].rstrip("\r")


def escape_commands(line: str) -> str:
    """Return a line that GitHub's runner does not interpret as a command."""
    if "::" not in line and "##[" not in line and line.isascii():
        return line
    return re.sub(
        _WORKFLOW_COMMAND,
        lambda match: "\\x23" if match[0] == "#" else f"{match[1]}\\x3a",
        line,
    )


def escape_cell(text: str) -> str:
    """Return a CSV cell that spreadsheets do not interpret as a formula."""
    shown = escape_controls(text)
    return f"'{shown}" if text.startswith(_FORMULA) else shown


def display_width(text: str) -> int:
    """Return the width on a terminal: two columns for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    short = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return short or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_EPOCH = datetime(1970, 1, 1)


def format_size(count: int) -> str:
    """Return text such as `512 B`, `1.5 KiB` or `20.0 GiB`."""
    if abs(count) < 1024:
        return f"{count} B"
    size = float(count)
    power = 0
    # 1023.95 would be printed as 1024.0, which is 1.0 of the next unit.
    while abs(size) >= 1023.95 and power < len(SIZE_UNITS) - 1:
        size /= 1024
        power += 1
    return f"{size:.1f} {SIZE_UNITS[power]}"


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """Return text such as `1 snapshot`, `2 branches` or `2,000 snapshots`."""
    ending = "es" if singular.endswith("ch") else "s"
    return f"{count:,} {singular if count == 1 else plural or singular + ending}"


def format_counts(counts: Mapping[str, int], *, omit_zeros: bool = False) -> str:
    """Return text such as `1 branch, 2,000 snapshots`."""
    shown = counts.items()
    return ", ".join(format_count(count, name) for name, count in shown if count or not omit_zeros)


def join_first(items: Sequence[str], most: int) -> str:
    """Return text such as `a, b, c and 5 more`."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def format_time(microseconds: int) -> str:
    """Return RFC 3339 in UTC with microseconds, as in `--json`.

    If a damaged file contains a number out of range, return the number.
    """
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return str(microseconds)
    return moment.isoformat(timespec="microseconds") + "Z"


def format_time_short(microseconds: int) -> str:
    """Return text such as `2024-01-31 12:00:00Z`, for tables."""
    text = format_time(microseconds)
    return f"{text[:10]} {text[11:19]}Z" if text.endswith("Z") else text


def format_duration(seconds: float) -> str:
    """Return text such as `1h05m`, `3m12s` or `4.2s`, for progress and reports."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"
