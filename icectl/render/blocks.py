"""What renderers produce: lines, tables and trees.

A renderer turns a Result into blocks and knows nothing about terminals. `render.screen` draws
blocks with rich where a person looks, `render.plain` writes them as aligned text to pipes and
files. Both escape every text, so blocks may hold foreign text as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["id", "branch", "tag", "path", "time", "good", "bad", "warning", "title", "dim"]
"""What a piece of text is; `render.screen` decides how that looks."""

Part = str | tuple[str, Role]
Line = str | tuple[Part, ...]
"""One line of text, whole or in parts, some of them with a role."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, between 0 and 1, drawn as a bar."""

    value: float


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    role: Role | None = None
    right: bool = False
    wraps: bool = False
    """Takes several lines when the terminal is too narrow; other columns keep their width."""
    optional: bool = False
    """Left out when the terminal is too narrow for all columns."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under titles; None is an empty cell. Nothing is drawn for no rows."""

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
    """The entries below the path `root`, in the order given; missing groups are drawn too."""

    root: str
    entries: Iterable[TreeEntry]


Block = Line | Table | Tree
