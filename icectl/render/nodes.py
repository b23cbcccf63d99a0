"""Render the nodes of a snapshot as a table or a tree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from icectl.render.blocks import Block, Column, Table, Tree, TreeEntry
from icectl.repository.nodes import ArrayNode, Node, NodeListing


def render_nodes(listing: NodeListing) -> Iterator[Block]:
    yield Table(_COLUMNS, listing.nodes)


def render_node_tree(listing: NodeListing) -> Iterator[Block]:
    entries = (
        TreeEntry(node.path, _note(node), None if isinstance(node, ArrayNode) else "path")
        for node in listing.nodes
    )
    yield Tree(listing.path, entries)


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


def _names(names: Iterable[str | None] | None) -> str:
    return ", ".join("-" if name is None else name for name in names or ())


def _of_array(cell: Callable[[ArrayNode], object]) -> Callable[[Node], object]:
    """An empty cell for a group."""
    return lambda node: cell(node) if isinstance(node, ArrayNode) else None


_COLUMNS = (
    Column("PATH", lambda node: node.path, "path", wraps=True),
    Column("TYPE", lambda node: node.type),
    Column("DATA TYPE", _of_array(lambda node: _data_type(node.data_type))),
    Column("SHAPE", _of_array(lambda node: _product(node.shape))),
    Column("CHUNK SHAPE", _of_array(lambda node: _product(node.chunk_shape)), optional=True),
    Column("CHUNKS", _of_array(lambda node: _product(node.num_chunks)), optional=True),
    Column(
        "DIMENSIONS",
        _of_array(lambda node: _names(node.dimension_names)),
        wraps=True,
        optional=True,
    ),
)
