"""Corrections of two faults of the writer 0.1.0-alpha.4 that its readers never noticed.

The file of the first snapshot is named by another id than the one that the file and its
descendants give. Manifests list references of one array under the node id of another as well,
where no reader looks them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from icectl.errors import FormatError, StorageError
from icectl.format.envelope import decode_envelope
from icectl.format.refs import decode_ref
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import Manifest
from icectl.model.snapshot import ArrayNodeData, Snapshot
from icectl.repository.layout import Layout
from icectl.storage.contract import Storage

FIRST_REF = "branch.main/ZZZZZZZZ.json"

Dimensions = Mapping[tuple[ManifestId, NodeId], set[int]]
"""How many dimensions the coordinates of an array have in a manifest."""


def find_renamed_first(storage: Storage, layout: Layout) -> Mapping[SnapshotId, SnapshotId]:
    """The id inside the first snapshot to the name of its file; empty if they are the same."""
    from icectl.format.legacy import decode_legacy_snapshot

    try:
        name = decode_ref(storage.read(f"{layout.refs}/{FIRST_REF}"))
        payload = decode_envelope(storage.read(layout.snapshot(name))).payload
        first = decode_legacy_snapshot(payload)
    except (StorageError, FormatError):
        return {}
    return {first.id: name} if first.parent_id is None and first.id != name else {}


def rename_first(snapshot: Snapshot, names: Mapping[SnapshotId, SnapshotId]) -> Snapshot:
    parent_id = snapshot.parent_id
    if snapshot.id not in names and parent_id not in names:
        return snapshot
    return replace(
        snapshot,
        id=names.get(snapshot.id, snapshot.id),
        parent_id=None if parent_id is None else names.get(parent_id, parent_id),
    )


def collect_dimensions(snapshots: Iterable[Snapshot]) -> Dimensions:
    found: dict[tuple[ManifestId, NodeId], set[int]] = {}
    for snapshot in snapshots:
        for node in snapshot.nodes:
            if isinstance(node.node_data, ArrayNodeData):
                for ref in node.node_data.manifests:
                    count = len(node.node_data.shape)
                    found.setdefault((ref.object_id, node.id), set()).add(count)
    return found


def without_misplaced(manifest: Manifest, dimensions: Dimensions) -> Manifest:
    """The manifest without the references that do not fit the array they are listed under."""
    arrays = tuple(
        array
        for array in manifest.arrays
        if array.refs.coordinates.shape[1]
        in dimensions.get((manifest.id, array.node_id), {array.refs.coordinates.shape[1]})
    )
    return manifest if len(arrays) == len(manifest.arrays) else replace(manifest, arrays=arrays)
