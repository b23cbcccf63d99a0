"""The tables `nodes` and `manifests`: what the snapshot files of the chosen versions say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.snapshot import ArrayNodeData, NodeSnapshot, Snapshot
from icectl.pipeline.read_ahead import read_ahead
from icectl.pipeline.units import Unit, split
from icectl.repository.nodes import ArrayNode, describe_node
from icectl.repository.repository import Repository
from icectl.tables.arrow import batches_of
from icectl.tables.history import json_text
from icectl.tables.schemas import SCHEMAS
from icectl.tables.scope import Conditions, Scope, admits, select_versions

SNAPSHOTS_IN_PARTITION = 32
LARGEST = 2**63 - 1

Row = dict[str, Any]
Rows = Callable[[Snapshot, Conditions], Iterator[Row]]


def plan(repository: Repository, scope: Scope, conditions: Conditions) -> list[Unit]:
    ids = [info.id for info in select_versions(repository, scope, conditions)]
    return split(ids, most_items=SNAPSHOTS_IN_PARTITION)


def read_nodes(
    repository: Repository,
    items: Sequence[SnapshotId],
    columns: Sequence[str],
    conditions: Conditions,
) -> Iterator[Any]:
    rows = _rows(repository, items, conditions, _node_rows)
    return batches_of(SCHEMAS["nodes"], columns, rows)


def read_manifests(
    repository: Repository,
    items: Sequence[SnapshotId],
    columns: Sequence[str],
    conditions: Conditions,
) -> Iterator[Any]:
    rows = _rows(repository, items, conditions, _manifest_rows)
    return batches_of(SCHEMAS["manifests"], columns, rows)


def _rows(
    repository: Repository, ids: Sequence[SnapshotId], conditions: Conditions, rows: Rows
) -> Iterator[Row]:
    for _, snapshot in read_ahead(repository.read_snapshot, ids):
        yield from rows(snapshot, conditions)


def _node_rows(snapshot: Snapshot, conditions: Conditions) -> Iterator[Row]:
    for node in snapshot.nodes:
        if admits(conditions, "path", node.path):
            described = describe_node(node)
            if admits(conditions, "kind", described.type):
                yield {
                    "snapshot_id": str(snapshot.id),
                    "path": node.path,
                    "node_id": str(node.id),
                    "kind": described.type,
                    "zarr_metadata": node.user_data.decode(errors="replace"),
                    **(_array_columns(described) if isinstance(described, ArrayNode) else {}),
                }


def _array_columns(array: ArrayNode) -> Row:
    type_ = array.data_type
    return {
        "shape": _signed(array.shape),
        "num_chunks": _signed(array.num_chunks),
        "chunk_shape": _signed(array.chunk_shape),
        "dimension_names": array.dimension_names,
        "data_type": type_ if type_ is None or isinstance(type_, str) else json_text(type_),
        "manifests": [str(id_) for id_ in array.manifests],
    }


def _signed(lengths: tuple[int, ...] | None) -> list[int] | None:
    return None if lengths is None else [min(length, LARGEST) for length in lengths]


def _manifest_rows(snapshot: Snapshot, conditions: Conditions) -> Iterator[Row]:
    paths: dict[ManifestId, list[str]] = {}
    for node in snapshot.nodes:
        for manifest_id in _manifest_ids(node):
            paths.setdefault(manifest_id, []).append(node.path)
    for info in snapshot.all_manifest_files:
        if admits(conditions, "manifest_id", info.id):
            yield {
                "snapshot_id": str(snapshot.id),
                "manifest_id": str(info.id),
                "size_bytes": min(info.size_bytes, LARGEST),
                "num_chunk_refs": info.num_chunk_refs,
                "paths": paths.get(info.id, []),
            }


def _manifest_ids(node: NodeSnapshot) -> list[ManifestId]:
    data = node.node_data
    if not isinstance(data, ArrayNodeData):
        return []
    return list(dict.fromkeys(ref.object_id for ref in data.manifests))
