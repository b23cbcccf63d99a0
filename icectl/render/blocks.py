"""The output of renderers: lines, tables and trees.

A renderer turns a result into blocks and is independent of the terminal. `render.screen` draws
blocks with rich on a terminal; `render.plain` writes them as aligned text to pipes and files. Both
escape all text, so blocks may contain untrusted text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
    cell: Callable[[Any], object]
    """The value in the row of an item: text, a number, a `Share`, a text with its role, or None."""
    role: Role | None = None
    right: bool = False
    wraps: bool = False
    """Wraps if the terminal is too narrow; other columns keep their width."""
    optional: bool = False
    """Omitted if the terminal is too narrow for all columns."""


@dataclass(frozen=True, slots=True)
class Table:
    """One row per item; a table without items is not drawn."""

    columns: Sequence[Column]
    items: Iterable[Any]

    def rows(self) -> list[list[object]]:
        return [[column.cell(item) for column in self.columns] for item in self.items]


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
