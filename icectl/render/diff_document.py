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
    documents = [(changes, _chunks_document(changes, coordinates)) for changes in chunks]
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
        "updated_chunks": [document for changes, document in documents if changes.num_chunks],
        "deleted_chunks": [
            deleted
            for changes, _ in documents
            if (deleted := _deleted_document(changes)) is not None
        ],
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
    for changes in chunks:
        if changes.num_chunks:
            yield {"change": "updated_chunks", **_chunks_document(changes, coordinates)}
        deleted = _deleted_document(changes)
        if deleted is not None:
            yield {"change": "deleted_chunks", **deleted}


def _values_document(changes: Iterable[ValueChange]) -> list[dict[str, Any]]:
    """Return the changes; a side without the value has no key for it."""
    return [
        {
            "pointer": change.pointer,
            **{
                side: value
                for side, value in (("before", change.before), ("after", change.after))
                if value is not ABSENT
            },
        }
        for change in changes
    ]


def _deleted_document(changes: ChunkChanges) -> dict[str, Any] | None:
    """Return the chunk counts of a deleted array, if they were counted."""
    if not changes.of_deleted_array or changes.deleted is None:
        return None
    return {
        "path": changes.path,
        "num_chunks": len(changes.deleted),
        "bytes": changes.bytes_removed,
    }


def _chunks_document(changes: ChunkChanges, coordinates: bool) -> dict[str, Any]:
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
