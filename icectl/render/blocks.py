"""The output of renderers: lines, tables and trees.

A renderer turns a result into blocks and is independent of the terminal. `render.screen` draws
blocks with rich on a terminal; `render.plain` writes them as aligned text to pipes and files. Both
escape all text, so blocks may contain untrusted text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["id", "branch", "tag", "path", "time", "good", "bad", "warning", "title", "dim"]
"""The meaning of a piece of text; `render.screen` defines its style."""

Part = str | tuple[str, Role]
Line = str | tuple[Part, ...]
"""One line of text, as a string or as parts with optional roles."""


@dataclass(frozen=True, slots=True)
class Share:
    """A fraction between 0 and 1, drawn as a bar."""

    value: float


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    role: Role | None = None
    right: bool = False
    wraps: bool = False
    """Wraps if the terminal is too narrow; other columns keep their width."""
    optional: bool = False
    """Omitted if the terminal is too narrow for all columns."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with column titles; None is an empty cell. A table without rows is not drawn."""

    columns: Sequence[Column]
    rows: Iterable[Sequence[object]]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    path: str
    """Absolute, with `/` between the names."""
    note: str = ""
    """Follows the name, such as shape and data type."""
    role: Role | None = None
    mark: str = ""
    """Precedes the name, such as the `+` of a diff."""
    details: tuple[str, ...] = ()
    """Lines below the name."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The entries below the path `root`, in order; missing groups are added."""

    root: str
    entries: Iterable[TreeEntry]


Block = Line | Table | Tree
