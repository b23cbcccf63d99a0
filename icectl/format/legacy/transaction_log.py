"""Transaction logs and attributes files of the MessagePack generations."""

from __future__ import annotations

from icectl.errors import FormatError
from icectl.format.legacy.layouts import read_fields
from icectl.format.legacy.payload import (
    Pairs,
    coordinates,
    items,
    json_mapping,
    object_id,
    sequence,
    take,
)
from icectl.model.ids import NodeId, SnapshotId
from icectl.model.transaction_log import ArrayUpdatedChunks, TransactionLog

_WHAT = "the transaction log"


def decode_legacy_transaction_log(
    payload: bytes | bytearray, snapshot_id: SnapshotId
) -> TransactionLog:
    """Return the log of `snapshot_id`; these generations store the id only as the file name.

    They do not store whether updated attributes belong to a group or an array. A node with updated
    attributes counts as an updated array, unless the log creates it.
    """
    fields = read_fields(payload, "transaction_log")
    new_groups, new_arrays = _node_ids(fields, "new_groups"), _node_ids(fields, "new_arrays")
    updated = _node_ids(fields, "updated_zarr_metadata") + _node_ids(
        fields, "updated_user_attributes"
    )
    new = {*new_groups, *new_arrays}
    return TransactionLog(
        spec_version=1,
        id=snapshot_id,
        new_groups=new_groups,
        new_arrays=new_arrays,
        deleted_groups=_node_ids(fields, "deleted_groups"),
        deleted_arrays=_node_ids(fields, "deleted_arrays"),
        updated_arrays=tuple(dict.fromkeys(node for node in updated if node not in new)),
        updated_groups=(),
        updated_chunks=_updated_chunks(take(fields, "updated_chunks", _WHAT)),
    )


def decode_legacy_attributes(payload: bytes | bytearray) -> dict[str, object]:
    return json_mapping(read_fields(payload, "attributes"), "the attributes file")


def _node_ids(fields: dict[str, object], name: str) -> tuple[NodeId, ...]:
    """Return a set of ids; early writers stored a map of ids to paths or of paths to ids."""
    value = take(fields, name, _WHAT)
    found: list[object]
    if isinstance(value, dict | Pairs):
        found = [
            node if isinstance(path, str) and path.startswith("/") else path
            for path, node in items(value, _WHAT)
        ]
    else:
        found = sequence(value, _WHAT)
    ids = tuple(object_id(NodeId, node) for node in found)
    if len(set(ids)) != len(ids):
        raise FormatError(f"{_WHAT} lists a node twice in {name}")
    return ids


def _updated_chunks(value: object) -> tuple[ArrayUpdatedChunks, ...]:
    import numpy as np

    updated: dict[NodeId, ArrayUpdatedChunks] = {}
    for node, chunks in items(value, "the list of updated chunks"):
        node_id = object_id(NodeId, node)
        rows = [coordinates(row, "a chunk coordinate") for row in sequence(chunks, _WHAT)]
        dimensions = {len(row) for row in rows}
        if node_id in updated or len(dimensions) > 1 or len(set(rows)) != len(rows):
            raise FormatError("the coordinates of a node's updated chunks are inconsistent")
        table = np.array(rows, dtype=np.uint32).reshape(len(rows), *(dimensions or {0}))
        updated[node_id] = ArrayUpdatedChunks(node_id, table)
    return tuple(updated.values())
