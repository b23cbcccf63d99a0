"""One file, drawn for a reader: what it is, then its content as the kind demands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from icectl.ops.inspect_file import InspectFileResult
from icectl.render.json import render_json, to_json
from icectl.render.sizes import format_size
from icectl.render.style import PLAIN, Style
from icectl.render.tables import Column, render_table
from icectl.render.text import escape_controls, first_line
from icectl.render.trees import TreeEntry, render_tree


def render_inspection(result: InspectFileResult, style: Style = PLAIN) -> Iterator[str]:
    yield from _pairs(_envelope(result), style)
    yield ""
    content: dict[str, Any] = to_json(result.content)
    if result.kind == "snapshot" and content.get("nodes"):
        nodes = content.pop("nodes")
        manifests = [
            *(content.pop("manifest_files", None) or ()),
            *(content.pop("manifest_files_v2", None) or ()),
        ]
        yield from _pairs(content, style)
        yield ""
        yield from render_tree("/", map(_node, nodes), style)
        yield from _table(
            "manifest files", ("id", "size_bytes", "num_chunk_refs"), manifests, style
        )
    elif result.kind == "repo":
        yield from _render_repo(content, style)
    elif result.kind == "manifest" and content.get("arrays") is not None:
        arrays = content.pop("arrays")
        yield from _pairs(content, style)
        rows = [{"node_id": array.get("node_id"), **(array.get("refs") or {})} for array in arrays]
        yield from _table(
            "arrays", ("node_id", "count", "native", "inline", "virtual"), rows, style
        )
    else:
        yield from _pairs(content, style)
    for problem in result.problems:
        yield style.paint("damaged: ", "bad") + escape_controls(problem)
    for field in result.unknown_fields:
        yield f"unknown, from a newer writer: {escape_controls(field)}"


def _envelope(result: InspectFileResult) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "path": result.path,
        "kind": result.kind.replace("_", " "),
        "generation": result.generation,
        "size": format_size(result.size_bytes),
    }
    if result.header is not None:
        shown["payload"] = format_size(result.payload_bytes)
        shown["written by"] = result.header.implementation
        shown["spec version"] = result.header.spec_version
        shown["compression"] = result.header.compression
    return shown


def _pairs(content: dict[str, Any], style: Style) -> Iterator[str]:
    """One line per field; empty ones are left out."""
    shown = {name: value for name, value in content.items() if value not in (None, [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        text = value if isinstance(value, str) else render_json(value)
        label = style.paint(f"{name}:".ljust(width + 1), "title")
        yield f"{label} {escape_controls(text)}"


def _node(node: dict[str, Any]) -> TreeEntry:
    data = node.get("node_data") or {}
    notes = [data.get("type", "").removesuffix("NodeData").lower()]
    shape = data.get("shape_v2") or data.get("shape")
    if shape:
        notes.append("×".join(str(dimension.get("array_length")) for dimension in shape))
    if isinstance(node.get("user_data"), dict) and "data_type" in node["user_data"]:
        notes.append(str(node["user_data"]["data_type"]))
    if data.get("manifests"):
        notes.append(f"{len(data['manifests'])} manifests")
    notes.append(str(node.get("id")))
    return TreeEntry(node.get("path") or "/", "  ".join(filter(None, notes)))


def _render_repo(content: dict[str, Any], style: Style) -> Iterator[str]:
    lists = {
        name: content.pop(name, None) or []
        for name in ("branches", "tags", "snapshots", "latest_updates")
    }
    yield from _pairs(content, style)
    ids = [entry.get("id") for entry in lists["snapshots"]]
    for name in ("branches", "tags"):
        rows = [
            {"name": ref.get("name"), "snapshot": _at(ids, ref.get("snapshot_index"))}
            for ref in lists[name]
        ]
        yield from _table(name, ("name", "snapshot"), rows, style)
    rows = [
        {
            "id": entry.get("id"),
            "parent": _at(ids, entry.get("parent_offset")),
            "flushed_at": entry.get("flushed_at"),
            "message": first_line(entry.get("message") or ""),
        }
        for entry in lists["snapshots"]
    ]
    yield from _table("snapshots", ("id", "parent", "flushed_at", "message"), rows, style)
    rows = [
        {
            "updated_at": update.get("updated_at"),
            "operation": (update.get("update_type") or {}).get("type"),
            "fields": render_json(
                {k: v for k, v in (update.get("update_type") or {}).items() if k != "type"}
            ),
            "backup_path": update.get("backup_path"),
        }
        for update in lists["latest_updates"]
    ]
    columns = ("updated_at", "operation", "fields", "backup_path")
    yield from _table("latest updates", columns, rows, style)


def _at(ids: list[Any], index: Any) -> Any:
    return ids[index] if isinstance(index, int) and 0 <= index < len(ids) else None


def _table(
    title: str, names: Sequence[str], rows: list[dict[str, Any]], style: Style
) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield style.paint(f"{title} ({len(rows)})", "title")
    columns = [
        Column(name.replace("_", " ").upper(), shrink=name in ("message", "fields"))
        for name in names
    ]
    yield from render_table(columns, ([row.get(name) for name in names] for row in rows), style)


def render_references(references: Iterable[dict[str, Any]], style: Style) -> Iterator[str]:
    """One line each, tab-separated, as they come: a manifest may have millions."""
    yield style.paint("node\tindex\tkind\toffset\tlength\tchunk or location", "title")
    for reference in references:
        target = reference.get("chunk_id") or reference.get("location") or ""
        index = "/".join(map(str, reference["index"]))
        yield (
            f"{reference['node_id']}\t{index}\t{reference['kind']}\t"
            f"{reference.get('offset', '')}\t{reference['length']}\t{escape_controls(str(target))}"
        )
