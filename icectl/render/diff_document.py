"""The JSON documents of a diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from icectl.ops.diff.result import ABSENT, ChunkChanges, NodeDiff, ValueChange

NODE_LISTS = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_groups",
    "updated_arrays",
)
CHUNK_KINDS = ("added", "overwritten", "deleted")


def diff_document(
    diff: NodeDiff, chunks: Iterable[ChunkChanges], *, coordinates: bool
) -> dict[str, Any]:
    changes = list(chunks)
    return {
        "from": diff.from_id,
        "to": diff.to_id,
        "method": diff.method,
        "fallback": diff.fallback,
        **{name: getattr(diff, name) for name in NODE_LISTS},
        "moved_nodes": [{"from": move.from_, "to": move.to} for move in diff.moved_nodes],
        "metadata_changes": [
            {"path": change.path, "changes": _values_document(change.changes)}
            for change in diff.metadata_changes
        ],
        "updated_chunks": [_updated(one, coordinates) for one in changes if one.num_chunks],
        "deleted_chunks": [_deleted(one) for one in changes if _has_deleted(one)],
    }


def diff_lines(
    diff: NodeDiff, chunks: Iterable[ChunkChanges], *, coordinates: bool
) -> Iterator[dict[str, Any]]:
    """Yield one object for each element of the document's lists; `change` is the list's name."""
    values = {change.path: change.changes for change in diff.metadata_changes}
    for name in NODE_LISTS:
        for path in getattr(diff, name):
            line = {"change": name, "path": path}
            if name.startswith("updated") and path in values:
                line["changes"] = _values_document(values[path])
            yield line
    for move in diff.moved_nodes:
        yield {"change": "moved_nodes", "from": move.from_, "to": move.to}
    for one in chunks:
        if one.num_chunks:
            yield {"change": "updated_chunks", **_updated(one, coordinates)}
        if _has_deleted(one):
            yield {"change": "deleted_chunks", **_deleted(one)}


def _values_document(changes: Iterable[ValueChange]) -> list[dict[str, Any]]:
    """Return the changes; a side without the value has no key for it."""
    documents = []
    for change in changes:
        sides = {"before": change.before, "after": change.after}
        there = {side: value for side, value in sides.items() if value is not ABSENT}
        documents.append({"pointer": change.pointer, **there})
    return documents


def _has_deleted(changes: ChunkChanges) -> bool:
    """Whether the chunks of a deleted array were counted."""
    return changes.of_deleted_array and changes.deleted is not None


def _deleted(changes: ChunkChanges) -> dict[str, Any]:
    count = 0 if changes.deleted is None else len(changes.deleted)
    return {"path": changes.path, "num_chunks": count, "bytes": changes.bytes_removed}


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
