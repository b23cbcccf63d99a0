"""Copies of some groups and arrays: snapshots with only these, and manifests without the rest.

Each selected ref gets a new snapshot after the first one. Ids are derived from those of the
originals and the selected paths, so that another copy of the same version makes the same objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b

from icectl.errors import RefNotFoundError
from icectl.format.manifest import encode_manifest
from icectl.format.snapshot import encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import Manifest
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import ArrayNodeData, ManifestFileInfo, NodeSnapshot, Snapshot
from icectl.ops.copy.made_files import copy_config, write_files
from icectl.ops.repair.logs import derive_log
from icectl.pipeline.objects import ObjectKind
from icectl.repository.names import nearest_hint
from icectl.repository.open import repository_at
from icectl.repository.repository import Repository
from icectl.repository.synthetic_log import synthetic_log
from icectl.storage.contract import Storage

ID_BYTES = 12


def normalize_path(path: str) -> str:
    return f"/{path.strip('/')}"


def derived_id(original: SnapshotId, paths: Collection[str]) -> SnapshotId:
    """The id of the copy of a snapshot that has only the nodes at these paths."""
    return SnapshotId(_digest(bytes(original), (path.encode() for path in sorted(paths))))


def select_paths(state: Repository, paths: Collection[str], made: Storage) -> Repository:
    """The state with only the nodes at these paths; `made` receives all of its metadata files."""
    tips = {*state.branches().values(), *state.tags().values()}
    root = [*state.ancestry(min(tips))][-1].id
    tips.discard(root)
    snapshots = {tip: state.read_snapshot(tip) for tip in sorted(tips)}
    _check_paths(paths, snapshots.values())
    maker = _Maker(state, paths, root)
    new_ids = {root: root} | {tip: derived_id(tip, paths) for tip in tips}
    write_files(made, maker.first_files())
    for tip, snapshot in snapshots.items():
        write_files(made, maker.files_of(snapshot, new_ids[tip]))
    branches = {name: new_ids[tip] for name, tip in state.branches().items()}
    tags = {name: new_ids[tip] for name, tip in state.tags().items()}
    if state.info is None:
        copy_config(state.storage, made)
        return replace(state, storage=made, branch_tips=branches, tag_targets=tags, _read_infos={})
    infos = [replace(state.snapshot_info(root), pruned_ancestor_tx_logs=None)]
    for tip in sorted(tips):
        info = state.snapshot_info(tip)
        infos.append(SnapshotInfo(new_ids[tip], root, info.flushed_at, info.message, info.metadata))
    new = replace(
        state.info,
        branches=tuple(replace(ref, snapshot_id=branches[ref.name]) for ref in state.info.branches),
        tags=tuple(replace(ref, snapshot_id=tags[ref.name]) for ref in state.info.tags),
        snapshots=tuple(sorted(infos, key=lambda one: one.id)),
        latest_updates=synthetic_log(infos, branches, tags, {}),
    )
    return repository_at(made, new)


def _check_paths(paths: Collection[str], snapshots: Iterable[Snapshot]) -> None:
    known = {"/"} | {node.path for snapshot in snapshots for node in snapshot.nodes}
    for path in paths:
        if path not in known:
            raise RefNotFoundError(
                f"no selected version has a node {path}",
                hint=nearest_hint(path, sorted(known - {"/"}))
                or "choose a path that one of the selected versions has",
            )


class _Maker:
    """Makes the files of the new snapshots, one snapshot at a time."""

    def __init__(self, state: Repository, paths: Collection[str], root: SnapshotId) -> None:
        self._state = state
        self._paths = paths
        self._root = state.read_snapshot(root)
        self._manifests: dict[ManifestId, Manifest] = {}

    def read_manifest(self, manifest_id: ManifestId) -> Manifest:
        """For `derive_log`, which asks for those that were made just now."""
        return self._manifests[manifest_id]

    def first_files(self) -> Iterator[tuple[str, bytes]]:
        root = self._root.id
        for kind in (ObjectKind.SNAPSHOT, ObjectKind.TRANSACTION_LOG):
            for path, data in self._state.storage.read_many([kind.path(root)]):
                if isinstance(data, bytes):  # repositories of old versions have no log for it
                    yield path, data

    def files_of(self, original: Snapshot, new_id: SnapshotId) -> Iterator[tuple[str, bytes]]:
        nodes = [node for node in original.nodes if self._is_selected(node.path)]
        kept = {node.id for node in nodes}
        used = {
            ref.object_id
            for node in nodes
            if isinstance(node.node_data, ArrayNodeData)
            for ref in node.node_data.manifests
        }
        self._manifests.clear()
        new_manifests: dict[ManifestId, ManifestId] = {}
        files: list[ManifestFileInfo] = []
        for manifest_id in sorted(used):
            manifest = _without_others(self._state.read_manifest(manifest_id), kept)
            data = encode_manifest(manifest)
            new_manifests[manifest_id] = manifest.id
            self._manifests[manifest.id] = manifest
            files.append(ManifestFileInfo(manifest.id, len(data), manifest.num_chunk_refs))
            yield ObjectKind.MANIFEST.path(manifest.id), data
        listed = tuple(sorted(files, key=lambda file: file.id))
        is_v1 = original.manifest_files_v2 is None
        snapshot = replace(
            original,
            id=new_id,
            parent_id=None if original.parent_id is None else self._root.id,
            nodes=tuple(_with_manifests(node, new_manifests) for node in nodes),
            manifest_files=listed if is_v1 else (),
            manifest_files_v2=None if is_v1 else listed,
        )
        log = derive_log(self, new_id, self._root, snapshot)
        yield ObjectKind.TRANSACTION_LOG.path(new_id), encode_transaction_log(log)
        yield ObjectKind.SNAPSHOT.path(new_id), encode_snapshot(snapshot)

    def _is_selected(self, path: str) -> bool:
        """At or below a selected path, or a group above one."""
        return any(
            path == "/"
            or selected == "/"
            or f"{path}/".startswith(f"{selected}/")
            or f"{selected}/".startswith(f"{path}/")
            for selected in self._paths
        )


def _without_others(manifest: Manifest, kept: Collection[NodeId]) -> Manifest:
    arrays = tuple(array for array in manifest.arrays if array.node_id in kept)
    ids = sorted(bytes(array.node_id) for array in arrays)
    new_id = ManifestId(_digest(bytes(manifest.id), ids))
    return replace(manifest, id=new_id, arrays=arrays, file_size=0)


def _with_manifests(
    node: NodeSnapshot, new_manifests: dict[ManifestId, ManifestId]
) -> NodeSnapshot:
    data = node.node_data
    if not isinstance(data, ArrayNodeData):
        return node
    refs = tuple(replace(ref, object_id=new_manifests[ref.object_id]) for ref in data.manifests)
    return replace(node, node_data=replace(data, manifests=refs))


def _digest(original: bytes, parts: Iterable[bytes]) -> bytes:
    digest = blake2b(original, digest_size=ID_BYTES, person=b"icectl copy")
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
