"""Convert the Markdown of a man page to roff.

The pages use a small part of Markdown: `##` and `###` headings, paragraphs, `- ` lists, fenced
code, `code`, **bold**, *italics*, and definitions:

    `term`
    : What it means.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(r"`([^`]+)`|\*\*(\w.*?)\*\*|\*(\w.*?)\*")
_HEADINGS = {"##": ".SH", "###": ".SS"}
_ESCAPES = dict(zip("\\-~^'`", (r"\e", r"\-", r"\(ti", r"\(ha", r"\(aq", r"\(ga"), strict=True))


def markdown_to_roff(text: str) -> Iterator[str]:
    """The lines of a page's body."""
    after_heading = True  # a heading starts the paragraph below it
    for block in _blocks(text):
        first, _, rest = block.partition(" ")
        if first in _HEADINGS:
            yield f"{_HEADINGS[first]} {escape(rest)}"
        elif block.startswith("```"):
            lines = [_guard(escape(line)) for line in block.splitlines()[1:-1]]
            yield from (".PP", ".RS 4", ".nf", *lines, ".fi", ".RE")
        elif first == "-":
            for item in re.split(r"\n- ", block[2:]):
                yield from (r".IP \(bu 2", _fold(item))
        elif "\n: " in block:
            term, _, meaning = block.partition("\n: ")
            yield from (".TP", _markup(term), _fold(meaning))
        else:
            if not after_heading:
                yield ".PP"
            yield _fold(block)
        after_heading = first in _HEADINGS


def _blocks(text: str) -> Iterator[str]:
    for part in _FENCE.split(text):
        if part.startswith("```"):
            yield part
        else:
            yield from (block.strip() for block in re.split(r"\n{2,}", part) if block.strip())


def _fold(text: str) -> str:
    """A paragraph in lines of moderate length."""
    lines = textwrap.wrap(_markup(text), 78, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(_guard, lines))


def _markup(text: str) -> str:
    """Inline Markdown as changes of the font."""
    result, end = "", 0
    for match in _MARKUP.finditer(text):
        font = "I" if match[3] else "B"
        inner = escape(match[1] or match[2] or match[3])
        result += rf"{escape(text[end : match.start()])}\f{font}{inner}\fR"
        end = match.end()
    return result + escape(text[end:])


def escape(text: str) -> str:
    """Text that roff prints as it is."""
    found = (_ESCAPES.get(c, c) if c.isascii() else rf"\[u{ord(c):04X}]" for c in text)
    return "".join(found)


def _guard(line: str) -> str:
    """A line whose first character roff does not take for a request."""
    return rf"\&{line}" if line.startswith(".") else line
