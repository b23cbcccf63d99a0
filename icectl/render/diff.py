"""Render a diff as a tree, a table of sizes, a list of paths, or JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from icectl.model.snapshot import path_sort_key
from icectl.model.values import ABSENT
from icectl.ops.diff.boxes import find_boxes
from icectl.ops.diff.result import ChunkChanges, NodeDiff, ValueChange
from icectl.render.blocks import Block, Column, Role, Table, Tree, TreeEntry
from icectl.render.text import format_count, format_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NODE_LISTS = tuple(
    f"{change}_{kind}" for change in ("new", "deleted", "updated") for kind in ("groups", "arrays")
)
CHUNK_KINDS = ("added", "overwritten", "deleted")
RANGES_WIDTH = 100


@dataclass(slots=True)
class _Node:
    """All changes of one path."""

    new: bool = False
    deleted: bool = False
    moved_from: str | None = None
    followed_parent: bool = False
    updated: bool = False
    values: tuple[ValueChange, ...] = ()
    chunks: list[ChunkChanges] = field(default_factory=list)

    @property
    def mark(self) -> str:
        if self.new:
            return "-+" if self.deleted else "+"
        if self.deleted:
            return "-" if self.moved_from is None else "-→"
        return "→" if self.moved_from is not None and not self.followed_parent else "~"

    @property
    def role(self) -> Role:
        roles: dict[str, Role] = {"+": "good", "-": "bad", "→": "path"}
        return roles.get(self.mark, "warning")

    @property
    def is_silent(self) -> bool:
        """Whether only a parent group was moved."""
        return self.followed_parent and not (self.deleted or self.updated or self.chunks)


def render_diff(
    diff: NodeDiff, chunks: Sequence[ChunkChanges], *, coordinates: bool
) -> Iterator[Block]:
    """Render a tree of changes and a summary; nothing if there are no changes."""
    nodes = _collect(diff, chunks)
    if not nodes:
        return
    source = "transaction logs" if diff.method == "transaction_logs" else "content"
    yield ("from ", (str(diff.from_id), "id"), " to ", (str(diff.to_id), "id"), f", by {source}")
    entries = (
        TreeEntry(path, _note(node), node.role, node.mark, tuple(_details(node, coordinates)))
        for path, node in nodes.items()
        if not node.is_silent
    )
    yield Tree("/", entries)
    yield from _summary(diff, chunks)


def render_stat(diff: NodeDiff, chunks: Sequence[ChunkChanges]) -> Iterator[Block]:
    """Render one row for each changed node, with chunks and bytes."""
    nodes = _collect(diff, chunks)
    columns = (
        Column("", itemgetter(0)),
        Column("PATH", itemgetter(1), "path", wraps=True),
        *(
            Column(kind.upper(), itemgetter(at), right=True)
            for at, kind in enumerate(CHUNK_KINDS, 2)
        ),
        Column("BYTES ADDED", itemgetter(5), right=True, optional=True),
        Column("BYTES REMOVED", itemgetter(6), right=True, optional=True),
    )
    rows = [
        (node.mark, path, *_stat_cells(node.chunks))
        for path, node in nodes.items()
        if not node.is_silent
    ]
    yield Table(columns, rows)
    if rows:
        yield from _summary(diff, chunks)
        added, removed = _bytes(chunks)
        yield f"{format_size(added)} newly referenced, {format_size(removed)} no longer referenced"


def render_names(diff: NodeDiff, chunks: Iterable[ChunkChanges]) -> Iterator[Block]:
    yield from _collect(diff, chunks)


def _collect(diff: NodeDiff, chunks: Iterable[ChunkChanges]) -> dict[str, _Node]:
    nodes: defaultdict[str, _Node] = defaultdict(_Node)
    for path in (*diff.new_groups, *diff.new_arrays):
        nodes[path].new = True
    for path in (*diff.deleted_groups, *diff.deleted_arrays):
        nodes[path].deleted = True
    for path in (*diff.updated_groups, *diff.updated_arrays):
        nodes[path].updated = True
    for change in diff.metadata_changes:
        nodes[change.path].values = change.changes
    for move in diff.moved_nodes:
        nodes[move.to].moved_from = move.from_
        nodes[move.to].followed_parent = move.with_parent
    for changes in chunks:
        nodes[changes.path].chunks.append(changes)
    return {path: nodes[path] for path in sorted(nodes, key=path_sort_key)}


def _note(node: _Node) -> str:
    parts = []
    if node.new and node.deleted:
        parts.append("replaced by a new node")
    elif node.deleted and node.moved_from is not None:
        parts.append(f"replaced by the node from {node.moved_from}")
    elif node.moved_from is not None and not node.followed_parent:
        parts.append(f"from {node.moved_from}")
    parts += [text for changes in node.chunks if (text := _count_chunks(changes, node))]
    return "; ".join(parts)


def _count_chunks(changes: ChunkChanges, node: _Node) -> str:
    if changes.added is None:
        return "" if node.deleted else f"{format_count(changes.num_chunks, 'chunk')} written"
    counts = {kind: len(getattr(changes, kind)) for kind in CHUNK_KINDS}
    counts["rewritten, unchanged"] = 0 if changes.of_deleted_array else changes.num_same
    found = [(count, kind) for kind, count in counts.items() if count]
    if not found:
        return ""
    (first, kind), *rest = found
    return ", ".join([f"{format_count(first, 'chunk')} {kind}", *(f"{n:,} {k}" for n, k in rest)])


def _details(node: _Node, coordinates: bool) -> Iterator[str]:
    for change in node.values:
        name = change.pointer.removeprefix("/") or "zarr.json"
        if change.before is ABSENT:
            yield f"+ {name}: {_json(change.after)}"
        elif change.after is ABSENT:
            yield f"- {name}: {_json(change.before)}"
        else:
            yield f"{name}: {_json(change.before)} → {_json(change.after)}"
    if coordinates:
        for changes in node.chunks:
            for kind in CHUNK_KINDS:
                rows = getattr(changes, kind)
                if rows is not None and len(rows):
                    yield from _ranges(kind, rows)


def _ranges(kind: str, rows: Any) -> Iterator[str]:
    line = f"{kind}:"
    for text in render_ranges(rows):
        if len(line) + len(text) + 1 > RANGES_WIDTH:
            yield line
            line = " " * len(f"{kind}:")
        line += f" {text}"
    yield line


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _stat_cells(chunks: Iterable[ChunkChanges]) -> tuple[str | None, ...]:
    compared = [changes for changes in chunks if changes.added is not None]
    if not compared:
        return (None,) * (len(CHUNK_KINDS) + 2)
    counts = [sum(len(getattr(changes, kind)) for changes in compared) for kind in CHUNK_KINDS]
    return (*(f"{count:,}" for count in counts), *map(format_size, _bytes(compared)))


def _bytes(chunks: Sequence[ChunkChanges]) -> tuple[int, int]:
    added = sum(changes.bytes_added or 0 for changes in chunks)
    return added, sum(changes.bytes_removed or 0 for changes in chunks)


def _summary(diff: NodeDiff, chunks: Sequence[ChunkChanges]) -> Iterator[str]:
    parts = []
    for name in (*NODE_LISTS, "moved_nodes"):
        if count := len(getattr(diff, name)):
            words = name.replace("_", " ")
            parts.append(format_count(count, words.removesuffix("s"), words))
    for kind in CHUNK_KINDS:
        rows = [getattr(changes, kind) for changes in chunks]
        if count := sum(len(found) for found in rows if found is not None):
            parts.append(format_count(count, f"chunk {kind}", f"chunks {kind}"))
    written = (changes for changes in chunks if changes.added is None)
    if count := sum(0 if one.of_deleted_array else one.num_chunks for one in written):
        parts.append(format_count(count, "chunk written", "chunks written"))
    if parts:
        yield ", ".join(parts)


def render_ranges(coordinates: NDArray[np.uint32]) -> Iterator[str]:
    """Yield boxes that cover exactly these rows: `0-3`, `[0-9, 2]`; ends are inclusive."""
    first, last = find_boxes(coordinates)
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        parts = [str(a) if a == b else f"{a}-{b}" for a, b in zip(low, high, strict=True)]
        yield parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"


def diff_document(
    diff: NodeDiff, chunks: Iterable[ChunkChanges], *, coordinates: bool
) -> dict[str, Any]:
    of_chunks: dict[str, list[Any]] = {"updated_chunks": [], "deleted_chunks": []}
    for name, document in _chunk_documents(chunks, coordinates):
        of_chunks[name].append(document)
    return {
        "from": diff.from_id,
        "to": diff.to_id,
        "method": diff.method,
        "fallback": diff.fallback,
        **{name: getattr(diff, name) for name in NODE_LISTS},
        "moved_nodes": [{"from": move.from_, "to": move.to} for move in diff.moved_nodes],
        "metadata_changes": diff.metadata_changes,
        **of_chunks,
    }


def diff_lines(
    diff: NodeDiff, chunks: Iterable[ChunkChanges], *, coordinates: bool
) -> Iterator[dict[str, Any]]:
    """Yield one object for each element of the document's lists; `change` is the list's name."""
    values = {change.path: change.changes for change in diff.metadata_changes}
    for name in NODE_LISTS:
        for path in getattr(diff, name):
            line: dict[str, Any] = {"change": name, "path": path}
            if name.startswith("updated") and path in values:
                line["changes"] = values[path]
            yield line
    for move in diff.moved_nodes:
        yield {"change": "moved_nodes", "from": move.from_, "to": move.to}
    for name, document in _chunk_documents(chunks, coordinates):
        yield {"change": name, **document}


def _chunk_documents(
    chunks: Iterable[ChunkChanges], coordinates: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield documents, each with the name of its list."""
    for one in chunks:
        if one.num_chunks:
            yield "updated_chunks", _updated(one, coordinates)
        if one.of_deleted_array and one.deleted is not None:
            count = len(one.deleted)
            document = {"path": one.path, "num_chunks": count, "bytes": one.bytes_removed}
            yield "deleted_chunks", document


def _updated(changes: ChunkChanges, coordinates: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"path": changes.path, "num_chunks": changes.num_chunks}
    kinds = {kind: getattr(changes, kind) for kind in CHUNK_KINDS}
    compared = changes.added is not None and not changes.of_deleted_array
    if compared:
        document |= {f"num_{kind}": len(rows) for kind, rows in kinds.items()}
        document |= {"bytes_added": changes.bytes_added, "bytes_removed": changes.bytes_removed}
    if coordinates:
        document["chunks"] = [row for block in changes.chunks for row in block.tolist()]
        if compared:
            document |= {kind: rows.tolist() for kind, rows in kinds.items()}
    return document
