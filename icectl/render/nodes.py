"""Render the nodes of a snapshot as a table or a tree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from icectl.render.blocks import Block, Column, Table, Tree, TreeEntry
from icectl.repository.nodes import ArrayNode, Node, NodeListing

_COLUMNS = (
    Column("PATH", "path", wraps=True),
    Column("TYPE"),
    Column("DATA TYPE"),
    Column("SHAPE"),
    Column("CHUNK SHAPE", optional=True),
    Column("CHUNKS", optional=True),
    Column("DIMENSIONS", wraps=True, optional=True),
)


def render_nodes(listing: NodeListing) -> Iterator[Block]:
    yield Table(_COLUMNS, map(_row, listing.nodes))


def render_node_tree(listing: NodeListing) -> Iterator[Block]:
    entries = (
        TreeEntry(node.path, _note(node), None if isinstance(node, ArrayNode) else "path")
        for node in listing.nodes
    )
    yield Tree(listing.path, entries)


def _row(node: Node) -> tuple[object, ...]:
    if not isinstance(node, ArrayNode):
        return (node.path, node.type, None, None, None, None, None)
    return (
        node.path,
        node.type,
        _data_type(node.data_type),
        _product(node.shape),
        _product(node.chunk_shape),
        _product(node.num_chunks),
        None if node.dimension_names is None else _names(node.dimension_names),
    )


def _note(node: Node) -> str:
    if not isinstance(node, ArrayNode):
        return "" if node.type == "group" else node.type
    chunks = "" if node.chunk_shape is None else f", chunks {_product(node.chunk_shape)}"
    return f"{_data_type(node.data_type)} {_product(node.shape)}{chunks}"


def _data_type(data_type: object) -> str:
    """Return the name of a data type or extension type, or else the JSON of the metadata."""
    if isinstance(data_type, dict) and isinstance(data_type.get("name"), str):
        return str(data_type["name"])
    if data_type is None:
        return "?"
    return data_type if isinstance(data_type, str) else json.dumps(data_type)


def _product(lengths: Iterable[int] | None) -> str | None:
    """Return text such as `10 x 20`, or `scalar` without dimensions."""
    return None if lengths is None else " x ".join(map(str, lengths)) or "scalar"


def _names(names: Iterable[str | None]) -> str:
    return ", ".join("-" if name is None else name for name in names)
