"""The schemas: documented, equal on every engine, changed only by addition.

Ids are base32 texts, times are UTC, byte counts are signed (Spark knows no unsigned integers;
what is larger is shown as the largest). The elements of lists are named as Spark names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")


def list_of(element: Any) -> Any:
    return pa.list_(pa.field("element", element))


TEXT, INTEGER = pa.string(), pa.int64()
TEXTS, INTEGERS = list_of(TEXT), list_of(INTEGER)

SCHEMAS: Mapping[str, Any] = {
    "refs": pa.schema({"kind": TEXT, "name": TEXT, "snapshot_id": TEXT}),
    "snapshots": pa.schema(
        {
            "snapshot_id": TEXT,
            "parent_id": TEXT,
            "depth": INTEGER,
            "flushed_at": TIME,
            "message": TEXT,
            "metadata": TEXT,
            "pruned_ancestor_tx_logs": TEXTS,
        }
    ),
    "nodes": pa.schema(
        {
            "snapshot_id": TEXT,
            "path": TEXT,
            "node_id": TEXT,
            "kind": TEXT,
            "shape": INTEGERS,
            "num_chunks": INTEGERS,
            "chunk_shape": INTEGERS,
            "dimension_names": TEXTS,
            "data_type": TEXT,
            "zarr_metadata": TEXT,
            "manifests": TEXTS,
        }
    ),
    "manifests": pa.schema(
        {
            "snapshot_id": TEXT,
            "manifest_id": TEXT,
            "size_bytes": INTEGER,
            "num_chunk_refs": INTEGER,
            "paths": TEXTS,
        }
    ),
    "chunk_refs": pa.schema(
        {
            "snapshot_id": TEXT,
            "path": TEXT,
            "node_id": TEXT,
            "coordinates": INTEGERS,
            "kind": TEXT,
            "chunk_id": TEXT,
            "location": TEXT,
            "offset": INTEGER,
            "length": INTEGER,
            "etag": TEXT,
            "last_modified": TIME,
            "manifest_id": TEXT,
        }
    ),
    "changes": pa.schema(
        {
            "snapshot_id": TEXT,
            "log_id": TEXT,
            "path": TEXT,
            "node_id": TEXT,
            "kind": TEXT,
            "coordinates": INTEGERS,
            "from_path": TEXT,
        }
    ),
    "ops_log": pa.schema(
        {
            "position": INTEGER,
            "kind": TEXT,
            "updated_at": TIME,
            "backup_path": TEXT,
            "ref": TEXT,
            "snapshot_id": TEXT,
            "previous_snapshot_id": TEXT,
            "details": TEXT,
        }
    ),
    "objects": pa.schema(
        {"kind": TEXT, "id": TEXT, "path": TEXT, "size_bytes": INTEGER, "created_at": TIME}
    ),
}
