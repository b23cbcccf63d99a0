"""The nodes of one snapshot: `icectl ls`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from icectl.errors import Hint, IcectlError, RefNotFoundError, Remedy
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.snapshot import ArrayNodeData, GroupNodeData, NodeSnapshot, path_sort_key
from icectl.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class Node:
    path: str
    type: str
    """group, array, or unknown for a kind of a newer writer."""
    id: NodeId


@dataclass(frozen=True, slots=True)
class ArrayNode(Node):
    shape: tuple[int, ...]
    num_chunks: tuple[int, ...]
    """Along each dimension."""
    chunk_shape: tuple[int, ...] | None
    """None if the grid is not regular."""
    dimension_names: tuple[str | None, ...] | None
    data_type: object
    """As the Zarr metadata has it: a name, or an object for an extension type."""
    manifests: tuple[ManifestId, ...]


@dataclass(frozen=True, slots=True)
class NodeListing:
    snapshot_id: SnapshotId
    path: str
    nodes: tuple[Node, ...]


def list_nodes(
    repository: Repository, ref: str, path: str = "/", *, depth: int | None = None
) -> NodeListing:
    """The node `path` and the nodes below it, `depth` levels deep."""
    snapshot_id = repository.resolve(ref).snapshot_id
    snapshot = repository.read_snapshot(snapshot_id)
    root = normalize_path(path)
    nodes = [node for node in snapshot.nodes if is_within(node.path, root)]
    if root != "/" and all(node.path != root for node in nodes):
        paths = [node.path for node in snapshot.nodes]
        raise RefNotFoundError(
            f"there is no node {root} in {snapshot_id}", hint=near_paths_hint(root, paths)
        )
    if depth is not None:
        deepest = _level(root) + depth
        nodes = [node for node in nodes if _level(node.path) <= deepest]
    nodes.sort(key=lambda node: path_sort_key(node.path))
    return NodeListing(snapshot_id, root, tuple(map(describe_node, nodes)))


def is_node(repository: Repository, ref: str, path: str) -> bool:
    try:
        return bool(list_nodes(repository, ref, path, depth=0).nodes)
    except IcectlError:
        return False


def normalize_path(path: str) -> str:
    """`group/array/` as `/group/array`, as in snapshots."""
    return "/" + "/".join(name for name in path.split("/") if name)


def is_within(path: str | None, root: str) -> bool:
    """Whether `path` is the node `root` or below it."""
    return path is not None and (path == root or root == "/" or path.startswith(f"{root}/"))


def near_paths_hint(path: str, known: Iterable[str]) -> Hint:
    """The paths that look like `path`, or have its last name."""
    known = [other for other in known if other != "/"]
    name = path.rsplit("/", 1)[1]
    near = [other for other in known if name and other.endswith(f"/{name}")][:3]
    near = near or difflib.get_close_matches(path, known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else Remedy("list-nodes")


def _level(path: str) -> int:
    return len(path_sort_key(path))


def describe_node(node: NodeSnapshot) -> Node:
    data = node.node_data
    if not isinstance(data, ArrayNodeData):
        kind = "group" if isinstance(data, GroupNodeData) else "unknown"
        return Node(node.path, kind, node.id)
    document = _zarr_document(node.user_data)
    return ArrayNode(
        node.path,
        "array",
        node.id,
        data.array_shape,
        data.num_chunks,
        _chunk_shape(document),
        data.dimension_names,
        document.get("data_type"),
        tuple(dict.fromkeys(manifest.object_id for manifest in data.manifests)),
    )


def _zarr_document(user_data: bytes) -> dict[str, object]:
    """The node's `zarr.json`; empty if it is not valid, since the snapshot itself is readable."""
    try:
        document = json.loads(user_data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _chunk_shape(document: dict[str, object]) -> tuple[int, ...] | None:
    grid = document.get("chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    shape = configuration.get("chunk_shape") if isinstance(configuration, dict) else None
    if isinstance(shape, list) and all(isinstance(length, int) for length in shape):
        return tuple(shape)
    return None
