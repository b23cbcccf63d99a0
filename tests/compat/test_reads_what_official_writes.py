"""Every file of repositories that the official package wrote, decoded by us, says what the
official package itself reports, down to the bytes of each chunk."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from icectl.format.manifest import decode_locations, decode_manifest
from icectl.format.repo import decode_repo
from icectl.format.snapshot import decode_snapshot
from icectl.format.transaction_log import decode_transaction_log
from icectl.format.values import decode_flexbuffers, decode_metadata
from icectl.model.ids import ChunkId
from icectl.model.manifest import ChunkRefs, Manifest, RefKind
from icectl.model.repo import (
    Availability,
    FeatureFlagChangedUpdate,
    RepoInfo,
    RepoMigratedUpdate,
    Update,
)
from icectl.model.snapshot import ArrayNodeData, GroupNodeData, NodeSnapshot, Snapshot
from icectl.model.transaction_log import TransactionLog
from tests.official import ic, storage_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def files(repository: Path, prefix: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((repository / prefix).iterdir())}


def read_repo(repository: Path) -> RepoInfo:
    if not (repository / "repo").exists():
        pytest.skip("spec version 1 has no repo info file")
    return decode_repo((repository / "repo").read_bytes())


def read_snapshots(repository: Path) -> dict[str, Snapshot]:
    return {name: decode_snapshot(data) for name, data in files(repository, "snapshots").items()}


def read_manifests(repository: Path) -> dict[str, Manifest]:
    return {name: decode_manifest(data) for name, data in files(repository, "manifests").items()}


def read_logs(repository: Path) -> dict[str, TransactionLog]:
    return {
        name: decode_transaction_log(data)
        for name, data in files(repository, "transactions").items()
    }


def update_facts(update: Update) -> dict[str, Any]:
    """An entry of the ops log in the words of `inspect_repo_info`."""
    kind = update.update_type
    name = type(kind).__name__
    fields = {
        field.name: getattr(kind, field.name)
        for field in dataclasses.fields(kind)
        if field.name != "status"
    }
    facts = {
        key: str(value) if isinstance(value, bytes) else value for key, value in fields.items()
    }
    if isinstance(kind, RepoMigratedUpdate):
        facts = {key: f"{value}.0" for key, value in facts.items()}
    if isinstance(kind, FeatureFlagChangedUpdate):
        name = "FeatureFlagChanged"
        facts = {"id": kind.id, "new_value": kind.new_value if kind.is_set else None}
    return {"type": name, **facts}


def test_repo_info(repository: Path, report: dict[str, Any]) -> None:
    info = read_repo(repository)
    official = report["inspect_repo_info"]
    assert f"{info.spec_version}.0" == official["spec_version"]
    assert {ref.name: str(ref.snapshot_id) for ref in info.branches} == official["branches"]
    assert {ref.name: str(ref.snapshot_id) for ref in info.tags} == official["tags"]
    assert list(info.deleted_tags) == official["deleted_tags"]
    assert info.repo_before_updates == official.get("repo_before_updates")
    assert decode_metadata(info.metadata, 2) == official["metadata"] == report["metadata"]
    assert [
        {
            "id": str(entry.id),
            "parent_id": str(entry.parent_id) if entry.parent_id else None,
            "flushed_at": time_of(entry.flushed_at),
            "message": entry.message,
            "metadata": decode_metadata(entry.metadata, 2),
        }
        for entry in info.snapshots
    ] == [
        {**entry, "parent_id": entry.get("parent_id")}
        | {"flushed_at": datetime.fromisoformat(entry["flushed_at"])}
        for entry in official["snapshots"]
    ]
    assert len(info.latest_updates) == len(official["latest_updates"])
    for ours, theirs in zip(info.latest_updates, official["latest_updates"], strict=True):
        kind = {key: value for key, value in theirs["update_type"].items() if key != "status"}
        assert update_facts(ours) == kind
        assert time_of(ours.updated_at) == datetime.fromisoformat(theirs["updated_at"])
        assert ours.backup_path == theirs.get("backup_path")
    assert not info.unknown_fields


def test_status_flags_and_config(repository: Path, report: dict[str, Any]) -> None:
    info = read_repo(repository)
    status = report["status"]
    assert Availability(info.status.availability).name.lower() == status["availability"]
    assert info.status.limited_availability_reason == status["limited_availability_reason"]
    assert time_of(info.status.set_at) == datetime.fromisoformat(status["set_at"])
    settings = {flag["id"]: flag["setting"] for flag in report["feature_flags"]}
    assert {key for key, value in settings.items() if value is True} == set(
        info.enabled_feature_flags or ()
    )
    assert {key for key, value in settings.items() if value is False} == set(
        info.disabled_feature_flags or ()
    )
    config = ic.Repository.fetch_config(storage_of(repository))
    assert (config is None) == (info.config is None)
    if config is not None and info.config is not None:
        ours = decode_flexbuffers(info.config)
        assert isinstance(ours, dict)
        for name in ("inline_chunk_threshold_bytes", "num_updates_per_repo_info_file"):
            assert ours.get(name) == getattr(config, name)
        assert set(ours.get("virtual_chunk_containers") or {}) == set(
            config.virtual_chunk_containers or {}
        )


def test_ops_log_through_the_backups(repository: Path, report: dict[str, Any]) -> None:
    info = read_repo(repository)
    entries = list(info.latest_updates)
    while info.repo_before_updates:
        info = decode_repo((repository / "overwritten" / info.repo_before_updates).read_bytes())
        entries += info.latest_updates
    times = {time_of(update.updated_at): type(update.update_type).__name__ for update in entries}
    assert {when: name.removesuffix("Update") for when, name in times.items()} == {
        datetime.fromisoformat(entry["updated_at"]): entry["kind"] for entry in report["ops_log"]
    }


def test_every_backup_of_the_repo_info_decodes(repository: Path) -> None:
    backups = list((repository / "overwritten").glob("repo.*"))
    if not backups:
        pytest.skip("no backups here")
    for backup in backups:
        assert decode_repo(backup.read_bytes()).branches


def test_pruned_logs(repository: Path, report: dict[str, Any]) -> None:
    for entry in read_repo(repository).snapshots:
        log = report["snapshots"][str(entry.id)]["inspect_transaction_log"]
        composite = (log or {}).get("synthetic_composite", {})
        assert [str(pruned) for pruned in entry.pruned_ancestor_tx_logs or ()] == composite.get(
            "merged_pruned_ancestor_tx_logs", []
        )


def node_facts(node: NodeSnapshot) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": str(node.id), "path": node.path}
    data = node.node_data
    if isinstance(data, GroupNodeData):
        return facts | {"node_type": "group"}
    assert isinstance(data, ArrayNodeData)
    names = data.dimension_names or (None,) * len(data.array_shape)
    facts |= {
        "node_type": "array",
        "shape": [
            ({"name": name} if name else {}) | {"array_length": length, "num_chunks": chunks}
            for name, length, chunks in zip(names, data.array_shape, data.num_chunks, strict=True)
        ],
        "manifest_refs": [
            {
                "id": str(ref.object_id),
                "extents": [[extent.from_, extent.to] for extent in ref.extents],
            }
            for ref in data.manifests
        ],
    }
    return facts


def test_snapshots(repository: Path, report: dict[str, Any]) -> None:
    snapshots = read_snapshots(repository)
    assert set(report["snapshots"]) <= set(snapshots)
    for name, snapshot in snapshots.items():
        assert str(snapshot.id) == name
        assert not snapshot.unknown_fields
        if name not in report["snapshots"]:
            continue
        official = report["snapshots"][name]["inspect_snapshot"]
        assert f"{snapshot.spec_version}.0" == official["header"]["spec_version"]
        assert time_of(snapshot.flushed_at) == datetime.fromisoformat(official["flushed_at"])
        assert snapshot.message == official["commit_message"]
        metadata = decode_metadata(snapshot.metadata, snapshot.spec_version)
        assert metadata == official["metadata"]
        manifests: list[dict[str, Any]] = [
            {"id": str(f.id), "size_bytes": f.size_bytes, "num_chunk_refs": f.num_chunk_refs}
            for f in snapshot.all_manifest_files
        ]
        assert manifests == official["manifests"]
        listed = report["snapshots"][name]["list_manifest_files"]
        assert sorted(manifests, key=lambda f: f["id"]) == sorted(listed, key=lambda f: f["id"])
        assert [node_facts(node) for node in snapshot.nodes] == official["nodes"]


def test_ancestry(repository: Path, report: dict[str, Any]) -> None:
    if report["spec_version"] == 1:
        parents = {name: snap.parent_id for name, snap in read_snapshots(repository).items()}
    else:
        parents = {str(entry.id): entry.parent_id for entry in read_repo(repository).snapshots}
    for name, facts in report["snapshots"].items():
        ours, current = [], name
        while current:
            ours.append(current)
            parent = parents[current]
            current = str(parent) if parent else ""
        assert ours == [entry["id"] for entry in facts["ancestry"]]


def log_facts(log: TransactionLog) -> dict[str, Any]:
    names = ("new", "deleted", "updated")
    facts: dict[str, Any] = {
        f"{name}_{kind}": [str(node) for node in getattr(log, f"{name}_{kind}")]
        for name in names
        for kind in ("groups", "arrays")
    }
    facts["updated_chunks"] = [
        {"node_id": str(array.node_id), "chunks": array.chunks.tolist()}
        for array in log.updated_chunks
    ]
    facts["moved_nodes"] = [{"from": m.from_, "to": m.to} for m in log.moved_nodes or ()]
    return facts


def test_transaction_logs(repository: Path, report: dict[str, Any]) -> None:
    logs = read_logs(repository)
    compared = 0
    for name, log in logs.items():
        assert str(log.id) == name
        official = report["snapshots"].get(name, {}).get("inspect_transaction_log")
        if official and "synthetic_composite" not in official:
            assert log_facts(log) == {k: v for k, v in official.items() if k != "header"}
            compared += 1
    assert compared


def test_diff_of_each_commit_from_its_log(repository: Path, report: dict[str, Any]) -> None:
    """The paths that the official diff names are those of the ids in the log.

    It leaves out a node that neither side has: after a V1 expiration a log may delete a node
    of a snapshot that is no longer in the ancestry.
    """
    logs, snapshots = read_logs(repository), read_snapshots(repository)
    for name, facts in report["snapshots"].items():
        official = facts["diff_from_parent"]
        if not official or "synthetic_composite" in facts["inspect_transaction_log"]:
            continue
        parent = facts["ancestry"][1]["id"]
        paths = {node.id: node.path for node in snapshots[parent].nodes}
        paths |= {node.id: node.path for node in snapshots[name].nodes}
        log = logs[name]
        for kind in ("new_groups", "new_arrays", "deleted_groups", "deleted_arrays"):
            known = (paths[node] for node in getattr(log, kind) if node in paths)
            assert sorted(known) == official[kind]
        assert {
            paths[array.node_id]: array.chunks.tolist() for array in log.updated_chunks
        } == official["updated_chunks"]


def test_manifests(repository: Path, report: dict[str, Any]) -> None:
    manifests = read_manifests(repository)
    for name, manifest in manifests.items():
        assert str(manifest.id) == name
        if name not in report["manifests"]:
            continue
        official = report["manifests"][name]
        arrays = []
        for array in manifest.arrays:
            kinds = array.refs.kind.tolist()
            arrays.append(
                {
                    "node_id": str(array.node_id),
                    "num_chunk_refs": len(kinds),
                    "num_inline": kinds.count(RefKind.INLINE),
                    "num_native": kinds.count(RefKind.NATIVE),
                    "num_virtual": kinds.count(RefKind.VIRTUAL)
                    + kinds.count(RefKind.VIRTUAL_COMPRESSED),
                }
            )
        assert arrays == official["arrays"]
        compressed = sum(
            array.refs.kind.tolist().count(RefKind.VIRTUAL_COMPRESSED) for array in manifest.arrays
        )
        assert compressed == official["compression"]["num_compressed_refs"]


def chunk_bytes(repository: Path, refs: ChunkRefs, row: int, location: str | None) -> bytes | None:
    """The bytes of one chunk by our reading alone; None where they are not on this machine."""
    start, length = int(refs.offset[row]), int(refs.length[row])
    kind = refs.kind[row]
    if kind == RefKind.INLINE:
        return refs.content[row]
    if kind == RefKind.NATIVE:
        source = repository / "chunks" / str(ChunkId(refs.chunk_id[row].tobytes()))
    else:
        url = urlsplit(location or "")
        if url.scheme != "file":
            return None
        source = Path(unquote(url.path))
    return source.read_bytes()[start : start + length]


def test_every_chunk(repository: Path, content: dict[str, Any]) -> None:
    """Each chunk key of each version, found through our decoders, holds the official bytes."""
    snapshots, manifests = read_snapshots(repository), read_manifests(repository)
    for name, official in content["snapshots"].items():
        ours: dict[str, str] = {}
        for node in snapshots[name].nodes:
            path = node.path.strip("/")
            prefix = f"{path}/" if path else ""
            ours[f"{prefix}zarr.json"] = hashlib.sha256(node.user_data).hexdigest()
            if not isinstance(node.node_data, ArrayNodeData):
                continue
            for ref in node.node_data.manifests:
                manifest = manifests[str(ref.object_id)]
                for array in manifest.arrays:
                    if array.node_id != node.id:
                        continue
                    locations = decode_locations(manifest, array.refs)
                    for row, index in enumerate(array.refs.coordinates.tolist()):
                        inside = all(
                            e.from_ <= i < e.to for e, i in zip(ref.extents, index, strict=True)
                        )
                        if not inside:
                            continue
                        data = chunk_bytes(repository, array.refs, row, locations[row])
                        key = "/".join([f"{prefix}c", *map(str, index)])
                        ours[key] = "!" if data is None else hashlib.sha256(data).hexdigest()
        theirs = {key: "!" if value[0] == "!" else value for key, value in official.items()}
        assert ours == theirs
