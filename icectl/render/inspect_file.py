"""Render one file: its kind and envelope, then its content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import methodcaller
from typing import Any

from icectl.ops.inspect_file import InspectFileResult
from icectl.render.blocks import Block, Column, Role, Table, Tree, TreeEntry
from icectl.render.json import render_json, to_json
from icectl.render.text import first_line, format_size

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("id", "node_id", "snapshot", "parent"), "id"),
    **dict.fromkeys(("flushed_at", "updated_at"), "time"),
}


def render_inspection(result: InspectFileResult) -> Iterator[Block]:
    yield from _pairs(_envelope(result))
    yield ""
    content: dict[str, Any] = to_json(result.content)
    if result.kind == "snapshot" and content.get("nodes"):
        nodes = content.pop("nodes")
        manifests = [
            *(content.pop("manifest_files", None) or ()),
            *(content.pop("manifest_files_v2", None) or ()),
        ]
        yield from _pairs(content)
        yield ""
        yield Tree("/", map(_node, nodes))
        yield from _table("manifest files", ("id", "size_bytes", "num_chunk_refs"), manifests)
    elif result.kind == "repo":
        yield from _render_repo(content)
    elif result.kind == "manifest" and content.get("arrays") is not None:
        arrays = content.pop("arrays")
        yield from _pairs(content)
        rows = [{"node_id": array.get("node_id"), **(array.get("refs") or {})} for array in arrays]
        yield from _table("arrays", ("node_id", "count", "native", "inline", "virtual"), rows)
    else:
        yield from _pairs(content)
    for problem in result.problems:
        yield (("damaged: ", "bad"), problem)
    for field in result.unknown_fields:
        yield f"unknown field of a newer writer: {field}"


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


def _pairs(content: dict[str, Any]) -> Iterator[Block]:
    """Render one line per field, without empty fields."""
    shown = {name: value for name, value in content.items() if value not in (None, [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        text = _inline(value) if isinstance(value, dict) else _text(value)
        yield ((f"{name}:".ljust(width + 1), "title"), f" {text}")


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


def _render_repo(content: dict[str, Any]) -> Iterator[Block]:
    branches, tags, snapshots, updates = (
        content.pop(name, None) or []
        for name in ("branches", "tags", "snapshots", "latest_updates")
    )
    yield from _pairs(content)
    ids = [entry.get("id") for entry in snapshots]
    for title, refs in (("branches", branches), ("tags", tags)):
        rows = [{**ref, "snapshot": _at(ids, ref.get("snapshot_index"))} for ref in refs]
        yield from _table(title, ("name", "snapshot"), rows)
    rows = [
        {
            **entry,
            "parent": _at(ids, entry.get("parent_offset")),
            "message": first_line(entry.get("message") or ""),
        }
        for entry in snapshots
    ]
    yield from _table("snapshots", ("id", "parent", "flushed_at", "message"), rows)
    rows = []
    for update in updates:
        fields = dict(update.get("update_type") or {})
        row = {**update, "operation": fields.pop("type", None), "fields": _inline(fields)}
        rows.append(row)
    columns = ("updated_at", "operation", "fields", "backup_path")
    yield from _table("latest updates", columns, rows)


def _at(ids: list[Any], index: Any) -> Any:
    return ids[index] if isinstance(index, int) and 0 <= index < len(ids) else None


def _table(title: str, names: Sequence[str], rows: list[dict[str, Any]]) -> Iterator[Block]:
    if not rows:
        return
    yield from ("", ((f"{title} ({len(rows)})", "title"),))
    columns = [
        Column(
            name.replace("_", " ").upper(),
            methodcaller("get", name),
            _ROLES.get(name),
            wraps=name in ("message", "fields"),
            optional=name in ("parent", "backup_path"),
        )
        for name in names
    ]
    yield Table(columns, rows)


def _inline(fields: dict[str, Any]) -> str:
    """Return text such as `branch: main, new_snap_id: ...`, which wraps between words."""
    return ", ".join(f"{name}: {_text(value)}" for name, value in fields.items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else render_json(value)


def render_references(references: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield one line per reference as a stream: a manifest may have millions."""
    yield "node index kind offset length chunk-or-location"
    for reference in references:
        target = reference.get("chunk_id") or reference.get("location") or ""
        index = "/".join(map(str, reference["index"]))
        yield (
            f"{reference['node_id']} {index} {reference['kind']} "
            f"{reference.get('offset', '-')} {reference['length']} {target}"
        )
