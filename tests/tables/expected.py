"""The rows of each table, worked out one object at a time from the files of the repository.

Nothing is shared with the tables themselves but the decoders, which have tests of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from icectl.format.manifest import decode_locations
from icectl.format.values import decode_metadata
from icectl.model.manifest import RefKind
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import ArrayNodeData, GroupNodeData
from icectl.repository.repository import Repository

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DIRECTORIES = {
    "snapshots": "snapshot",
    "manifests": "manifest",
    "transactions": "transaction_log",
    "chunks": "chunk",
    "attributes": "attributes",
    "refs": "ref",
    "overwritten": "backup",
}


def moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def text(value: object) -> str | None:
    return None if value is None else str(value)


def versions(repository: Repository, *, every: bool) -> list[SnapshotInfo]:
    if every:
        return list(repository.all_snapshots())
    return [repository.snapshot_info(repository.branches()["main"])]


def refs(repository: Repository, _every: bool) -> Iterator[Row]:
    for name, id_ in repository.branches().items():
        yield {"kind": "branch", "name": name, "snapshot_id": str(id_)}
    for name, id_ in repository.tags().items():
        yield {"kind": "tag", "name": name, "snapshot_id": str(id_)}
    for name in repository.deleted_tags():
        yield {"kind": "deleted_tag", "name": name, "snapshot_id": None}


def snapshots(repository: Repository, _every: bool) -> Iterator[Row]:
    for info in repository.all_snapshots():
        yield {
            "snapshot_id": str(info.id),
            "parent_id": text(info.parent_id),
            "depth": len(list(repository.ancestry(info.id))) - 1,
            "flushed_at": moment(info.flushed_at),
            "message": info.message,
            "metadata": decode_metadata(info.metadata, repository.spec_version),
            "pruned_ancestor_tx_logs": [str(one) for one in info.pruned_ancestor_tx_logs or ()],
        }


def nodes(repository: Repository, every: bool) -> Iterator[Row]:
    for info in versions(repository, every=every):
        for node in repository.read_snapshot(info.id).nodes:
            data = node.node_data
            row: Row = {
                "snapshot_id": str(info.id),
                "path": node.path,
                "node_id": str(node.id),
                "kind": "group" if isinstance(data, GroupNodeData) else "array",
                "shape": None,
                "num_chunks": None,
                "chunk_shape": None,
                "dimension_names": None,
                "data_type": None,
                "zarr_metadata": node.user_data.decode(),
                "manifests": None,
            }
            if isinstance(data, ArrayNodeData):
                document = json.loads(node.user_data)
                row["shape"] = list(data.array_shape)
                row["num_chunks"] = list(data.num_chunks)
                row["chunk_shape"] = document["chunk_grid"]["configuration"]["chunk_shape"]
                row["dimension_names"] = data.dimension_names and list(data.dimension_names)
                row["data_type"] = document["data_type"]
                row["manifests"] = [str(ref.object_id) for ref in data.manifests]
            yield row


def manifests(repository: Repository, every: bool) -> Iterator[Row]:
    for info in versions(repository, every=every):
        snapshot = repository.read_snapshot(info.id)
        for file in snapshot.all_manifest_files:
            yield {
                "snapshot_id": str(info.id),
                "manifest_id": str(file.id),
                "size_bytes": file.size_bytes,
                "num_chunk_refs": file.num_chunk_refs,
                "paths": [
                    node.path
                    for node in snapshot.nodes
                    if isinstance(node.node_data, ArrayNodeData)
                    and file.id in {ref.object_id for ref in node.node_data.manifests}
                ],
            }


def chunk_refs(repository: Repository, every: bool) -> Iterator[Row]:
    for info in versions(repository, every=every):
        for node in repository.read_snapshot(info.id).nodes:
            if not isinstance(node.node_data, ArrayNodeData):
                continue
            for ref in node.node_data.manifests:
                manifest = repository.read_manifest(ref.object_id)
                for array in manifest.arrays:
                    if array.node_id == node.id:
                        for row in _references(manifest, array.refs):
                            yield {
                                "snapshot_id": str(info.id),
                                "path": node.path,
                                "node_id": str(node.id),
                                "manifest_id": str(ref.object_id),
                                **row,
                            }


def _references(manifest: Any, refs: Any) -> Iterator[Row]:
    from icectl.model.ids import ChunkId

    locations = decode_locations(manifest, refs)
    for row in range(len(refs)):
        kind = RefKind(int(refs.kind[row]))
        etag, seconds = refs.checksum_etag, refs.checksum_last_modified
        yield {
            "coordinates": [int(one) for one in refs.coordinates[row]],
            "kind": "virtual" if kind >= RefKind.VIRTUAL else kind.name.lower(),
            "chunk_id": str(ChunkId(bytes(refs.chunk_id[row]))) if kind == RefKind.NATIVE else None,
            "location": locations[row],
            "offset": None if kind == RefKind.INLINE else int(refs.offset[row]),
            "length": len(refs.content[row]) if kind == RefKind.INLINE else int(refs.length[row]),
            "etag": etag[row].decode() if etag is not None and etag.start[row] else None,
            "last_modified": moment(int(seconds[row]) * 1_000_000)
            if seconds is not None and seconds[row]
            else None,
        }


def changes(repository: Repository, _every: bool) -> Iterator[Row]:
    for info in repository.all_snapshots():
        if info.parent_id is None:
            continue
        paths = {
            node.id: node.path
            for id_ in (info.parent_id, info.id)
            for node in repository.read_snapshot(id_).nodes
        }
        for log_id in (*(info.pruned_ancestor_tx_logs or ()), info.id):
            log = repository.read_transaction_log(log_id)

            def row(kind: str, node_id: Any, **more: Any) -> Row:
                return {
                    "snapshot_id": str(info.id),  # noqa: B023 -- called at once
                    "log_id": str(log_id),  # noqa: B023
                    "path": paths.get(node_id),  # noqa: B023
                    "node_id": str(node_id),
                    "kind": kind,
                    "coordinates": None,
                    "from_path": None,
                    **more,
                }

            yield from (row("new_group", id_) for id_ in log.new_groups)
            yield from (row("new_array", id_) for id_ in log.new_arrays)
            yield from (row("deleted_group", id_) for id_ in log.deleted_groups)
            yield from (row("deleted_array", id_) for id_ in log.deleted_arrays)
            yield from (row("updated_group", id_) for id_ in log.updated_groups)
            yield from (row("updated_array", id_) for id_ in log.updated_arrays)
            for move in log.moved_nodes or ():
                yield row("moved_node", move.node_id, path=move.to, from_path=move.from_)
            for array in log.updated_chunks:
                for coordinates in array.chunks.tolist():
                    yield row("updated_chunk", array.node_id, coordinates=coordinates)


def objects(repository: Repository, _every: bool) -> Iterator[Row]:
    root = Path(repository.storage.location)
    for file in root.rglob("*"):
        if not file.is_file():
            continue
        path = file.relative_to(root).as_posix()
        directory = path.partition("/")[0]
        kind = DIRECTORIES.get(
            directory, {"repo": "repo", "config.yaml": "config"}.get(path, "other")
        )
        named = kind in ("snapshot", "manifest", "transaction_log", "chunk")
        status = file.stat()
        yield {
            "kind": kind,
            "id": file.name if named else None,
            "path": path,
            "size_bytes": status.st_size,
            "created_at": moment(status.st_mtime_ns // 1000),
        }


EXPECTED: dict[str, Callable[[Repository, bool], Iterator[Row]]] = {
    "refs": refs,
    "snapshots": snapshots,
    "nodes": nodes,
    "manifests": manifests,
    "chunk_refs": chunk_refs,
    "changes": changes,
    "objects": objects,
}


def comparable(rows: list[Row]) -> list[str]:
    """Rows in an order of their own; JSON texts by what they say."""
    for row in rows:
        if isinstance(row.get("metadata"), str):
            row["metadata"] = json.loads(row["metadata"])
    return sorted(
        repr(sorted(row.items()))
        .replace("zoneinfo.ZoneInfo(key='UTC')", "UTC")
        .replace("datetime.timezone.utc", "UTC")
        for row in rows
    )
