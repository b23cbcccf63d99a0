"""Manual text to roff.

The texts in `icectl/cli/manual/` use a small part of Markdown: `##` and `###` headings,
paragraphs, `- ` lists, fenced code, `code`, **bold**, *italics*, and definitions:

    `term`
    : What it means.

A block `{{NAME ARGUMENT}}` is replaced by what the code knows; see `man_pages.py`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping

Insert = Callable[[str], Iterable[str]]
"""The roff lines for a `{{NAME ARGUMENT}}`, from the argument."""

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(r"`([^`]+)`|\*\*(\w.*?)\*\*|\*(\w.*?)\*")
_HEADINGS = {"##": ".SH", "###": ".SS"}


def markdown_to_roff(text: str, inserts: Mapping[str, Insert]) -> Iterator[str]:
    """The lines of a page's body."""
    after_heading = True  # a heading starts the paragraph below it
    for block in _blocks(text):
        first, _, rest = block.partition(" ")
        if first in _HEADINGS:
            yield f"{_HEADINGS[first]} {escape(rest)}"
        elif insert := re.fullmatch(r"\{\{([a-z-]+) ?(.*)\}\}", block):
            yield from inserts[insert[1]](insert[2])
        elif block.startswith("```"):
            yield from literal(block.splitlines()[1:-1])
        elif first == "-":
            for item in re.split(r"\n- ", block[2:]):
                yield from (r".IP \(bu 2", fold(item))
        elif "\n: " in block:
            term, _, meaning = block.partition("\n: ")
            yield from definition(markup(term), meaning)
        else:
            if not after_heading:
                yield ".PP"
            yield fold(block)
        after_heading = first in _HEADINGS


def _blocks(text: str) -> Iterator[str]:
    for part in _FENCE.split(text):
        if part.startswith("```"):
            yield part
        else:
            yield from (block.strip() for block in re.split(r"\n{2,}", part) if block.strip())


def definition(term: str, meaning: str) -> tuple[str, str, str]:
    """A term, in roff, and its meaning, in Markdown."""
    return ".TP", term, fold(meaning)


def bold(text: str) -> str:
    return rf"\fB{escape(text)}\fR"


def italic(text: str) -> str:
    return rf"\fI{escape(text)}\fR"


def literal(lines: Iterable[str]) -> Iterator[str]:
    """Lines that keep their layout."""
    yield from (".PP", ".RS 4", ".nf")
    yield from (_guard(escape(line)) for line in lines)
    yield from (".fi", ".RE")


def fold(text: str) -> str:
    """A paragraph in lines of moderate length."""
    lines = textwrap.wrap(markup(text), 78, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(_guard, lines))


def markup(text: str) -> str:
    """Inline Markdown as changes of the font."""
    result, end = "", 0
    for match in _MARKUP.finditer(text):
        result += escape(text[end : match.start()])
        result += italic(match[3]) if match[3] else bold(match[1] or match[2])
        end = match.end()
    return result + escape(text[end:])


def escape(text: str) -> str:
    """Text that roff prints as it is."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("~", r"\(ti")
    escaped = escaped.replace("^", r"\(ha").replace("'", r"\(aq").replace("`", r"\(ga")
    return "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in escaped)


def _guard(line: str) -> str:
    """A line whose first character roff does not take for a request."""
    return rf"\&{line}" if line.startswith(".") else line
