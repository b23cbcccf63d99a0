"""Convert snapshots of the MessagePack generations to those of spec version 1."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.errors import FormatError
from icectl.format.legacy.layouts import read_fields
from icectl.format.legacy.payload import (
    coordinates,
    json_mapping,
    mapping,
    microseconds,
    object_id,
    record,
    sequence,
    take,
    text,
    unsigned,
    variant,
)
from icectl.format.legacy.zarr_metadata import ArrayMetadata, encode_zarr_json
from icectl.format.values import encode_metadata
from icectl.model.ids import ManifestId, NodeId, ObjectId, SnapshotId
from icectl.model.snapshot import (
    ArrayNodeData,
    ChunkIndexRange,
    GroupNodeData,
    ManifestFileInfo,
    ManifestRef,
    NodeSnapshot,
    Snapshot,
)

_COMMIT = (("id", "written_at", "message"),)
_NODE = (("id", "path", "user_attributes", "node_data"),)
_MANIFEST_REF = (("object_id", "extents"), ("object_id", "flags", "extents"))
_ATTRIBUTES_REF = (("object_id", "location", "flags"), ("object_id", "location"))
_EXTENTS = (("start", "end"),)
_Layouts = tuple[tuple[str, ...], ...]
_FILE_INFO: _Layouts = (("id", "size_bytes", "num_chunk_refs"),)
_EARLY_FILE_INFO: _Layouts = (
    ("id", "format_version"),
    ("id", "format_version", "size_bytes"),
    ("id", "format_version", "size_bytes", "num_chunk_refs"),
)


def decode_legacy_snapshot(payload: bytes | bytearray) -> Snapshot:
    """Return the snapshot. Sizes and counts that the generation does not store are 0."""
    fields = read_fields(payload, "snapshot")
    if "id" in fields:
        what = "the snapshot"
        parent = fields.get("parent_id")
        commit = fields
        written_at, properties = take(fields, "flushed_at", what), take(fields, "metadata", what)
        file_layouts = _FILE_INFO
    else:
        what = "the metadata of the snapshot"
        commit = record(take(fields, "metadata", what), _COMMIT, what)
        parent = _parent_in_history(fields)
        written_at, properties = take(commit, "written_at", what), fields.get("properties", {})
        file_layouts = _EARLY_FILE_INFO
    return Snapshot(
        spec_version=1,
        id=object_id(SnapshotId, take(commit, "id", what)),
        parent_id=None if parent is None else object_id(SnapshotId, parent),
        nodes=tuple(_nodes(take(fields, "nodes", what))),
        flushed_at=microseconds(written_at, "the time of the snapshot"),
        message=text(take(commit, "message", what), "the message of the snapshot"),
        metadata=encode_metadata(json_mapping(properties, "the properties of the snapshot"), 1),
        manifest_files=tuple(
            _manifest_file(info, file_layouts)
            for info in sequence(fields.get("manifest_files", []), "the list of manifest files")
        ),
    )


def _parent_in_history(fields: dict[str, object]) -> object:
    """Return the id of the newest ancestor, which is the parent."""
    what = "the history of the snapshot"
    history = [
        record(commit, _COMMIT, what)
        for commit in sequence(take(fields, "short_term_history", what), what)
    ]
    if not history:
        return None
    first, last = history[0], history[-1]
    # The list begins with the parent, but the first writers appended it. Those writers did not
    # list the manifest files; for their snapshots the newest time identifies the parent.
    if "manifest_files" not in fields:
        first = max(first, last, key=lambda commit: _written_at(commit, what))
    return take(first, "id", what)


def _written_at(commit: dict[str, object], what: str) -> int:
    return microseconds(take(commit, "written_at", what), what)


def _manifest_file(value: object, layouts: _Layouts) -> ManifestFileInfo:
    what = "the description of a manifest file"
    fields = record(value, layouts, what)
    return ManifestFileInfo(
        id=object_id(ManifestId, take(fields, "id", what)),
        size_bytes=unsigned(fields.get("size_bytes", 0), what, 64),
        num_chunk_refs=unsigned(fields.get("num_chunk_refs", 0), what, 32),
    )


def find_attribute_files(payload: bytes | bytearray) -> dict[str, str]:
    """The path of each node that keeps its attributes in a file, and the id of the file.

    The early specification describes such references, but not the file; no release wrote any.
    """
    found = {}
    nodes = take(read_fields(payload, "snapshot"), "nodes", "the snapshot")
    for path, node in mapping(nodes, "the list of nodes").items():
        what = f"the node {path!r}"
        attributes = record(node, _NODE, what).get("user_attributes")
        choice, content = (None, None) if attributes is None else variant(attributes, what)
        if choice == "Ref":
            fields = record(content, _ATTRIBUTES_REF, what)
            found[path] = str(object_id(ObjectId, take(fields, "object_id", what)))
    return found


def _nodes(value: object) -> Iterator[NodeSnapshot]:
    ids: set[NodeId] = set()
    for path, node_value in mapping(value, "the list of nodes").items():
        what = f"the node {path!r}"
        fields = record(node_value, _NODE, what)
        if not path.startswith("/") or take(fields, "path", what) != path:
            raise FormatError(f"{what} is listed under a different path")
        node_id = object_id(NodeId, take(fields, "id", what))
        if node_id in ids:
            raise FormatError(f"{what} has the id of another node")
        ids.add(node_id)
        choice, content = variant(take(fields, "node_data", what), what)
        attributes = fields.get("user_attributes")
        node_data: ArrayNodeData | GroupNodeData
        if choice == "Group":
            document: dict[str, object] = {"zarr_format": 3, "node_type": "group"}
            node_data = GroupNodeData()
        elif choice == "Array":
            node_data, document = _array(content, what)
        else:
            raise FormatError(f"{what} has the unknown kind {choice!r}")
        yield NodeSnapshot(node_id, path, encode_zarr_json(document, attributes), node_data)


def _array(value: object, what: str) -> tuple[ArrayNodeData, dict[str, object]]:
    content = sequence(value, what)
    if len(content) != 2:
        raise FormatError(f"{what} is not an array with metadata and manifests")
    metadata = ArrayMetadata(content[0])
    manifests = tuple(_manifest_ref(ref, len(metadata.shape)) for ref in sequence(content[1], what))
    return (
        ArrayNodeData(metadata.shape, metadata.dimension_names, manifests),
        metadata.document,
    )


def _manifest_ref(value: object, dimensions: int) -> ManifestRef:
    what = "a reference to a manifest"
    fields = record(value, _MANIFEST_REF, what)
    extents = take(fields, "extents", what)
    ranges: tuple[ChunkIndexRange, ...] = ()
    # The first writers left the field empty.
    if extents != []:
        bounds = record(extents, _EXTENTS, what)
        start = coordinates(take(bounds, "start", what), what)
        end = coordinates(take(bounds, "end", what), what)
        if not len(start) == len(end) == dimensions:
            raise FormatError(f"{what} has extents that do not match the shape of the array")
        ranges = tuple(map(ChunkIndexRange, start, end))
    return ManifestRef(object_id(ManifestId, take(fields, "object_id", what)), ranges)
