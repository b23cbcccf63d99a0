"""A hierarchy of node paths, drawn like `tree` does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from icectl.render.style import PLAIN, Role, Style
from icectl.render.text import escape_controls


@dataclass(frozen=True, slots=True)
class TreeEntry:
    path: str
    """Absolute, `/` between the names."""
    note: str = ""
    """What stands behind the name, such as shape and data type."""
    role: Role | None = None
    mark: str = ""
    """Stands before the name, such as the `+` of a diff."""
    details: tuple[str, ...] = ()
    """Lines below the name."""


@dataclass(slots=True)
class _Branch:
    entry: TreeEntry | None = None
    children: dict[str, _Branch] = field(default_factory=dict)


def render_tree(root: str, entries: Iterable[TreeEntry], style: Style = PLAIN) -> Iterator[str]:
    """The entries below the path `root`, in the order given; missing groups are drawn too."""
    top = _grow(root, entries)
    name = escape_controls(root)
    yield _label(name, top.entry, style)
    yield from _details(top, "", style)
    tee, corner, bar = ("├── ", "└── ", "│   ") if style.unicode else ("|-- ", "`-- ", "|   ")
    pending = _children(top, "")
    while pending:
        prefix, last, name, branch = pending.pop()
        yield (
            prefix + (corner if last else tee) + _label(escape_controls(name), branch.entry, style)
        )
        below = prefix + ("    " if last else bar)
        yield from _details(branch, below, style)
        pending += _children(branch, below)


def _grow(root: str, entries: Iterable[TreeEntry]) -> _Branch:
    depth = len(_names(root))
    top = _Branch()
    for entry in entries:
        branch = top
        for name in _names(entry.path)[depth:]:
            branch = branch.children.setdefault(name, _Branch())
        branch.entry = entry
    return top


def _children(branch: _Branch, prefix: str) -> list[tuple[str, bool, str, _Branch]]:
    """Reversed, because the caller takes from the end; no recursion, as paths may be deep."""
    items = [(prefix, False, name, child) for name, child in branch.children.items()]
    if items:
        items[-1] = (prefix, True, *items[-1][2:])
    return items[::-1]


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _label(name: str, entry: TreeEntry | None, style: Style) -> str:
    if entry is None:
        return name
    marked = f"{entry.mark} {name}" if entry.mark else name
    note = f"  {style.paint(escape_controls(entry.note), 'dim')}" if entry.note else ""
    return style.paint(marked, entry.role) + note


def _details(branch: _Branch, prefix: str, style: Style) -> Iterator[str]:
    if branch.entry is not None and branch.entry.details:
        bar = "│" if style.unicode else "|"
        start = prefix + (f"{bar}   " if branch.children else "    ")
        for line in branch.entry.details:
            yield start + style.paint(escape_controls(line), "dim")
