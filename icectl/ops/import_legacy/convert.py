"""Files and settings of older generations as those of spec version 2. Pure.

Ids stay the same where the new format can hold them. The others are derived from the old ones, so
that every import of a repository gives the same files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from icectl.checks.manifest import Extents
from icectl.format.config import Variant
from icectl.format.manifest import decode_locations
from icectl.format.values import decode_metadata, encode_metadata
from icectl.model.ids import ManifestId, NodeId, ObjectId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import (
    ArrayNodeData,
    DimensionShapeV2,
    ManifestFileInfo,
    ManifestRef,
    NodeSnapshot,
    Snapshot,
)

Id = TypeVar("Id", bound=ObjectId)

Readers = Mapping[NodeId, Mapping[NodeId, int]]
"""The node ids in a manifest: which nodes look up references under each, and the number of
dimensions of these nodes."""

KNOWN_CODECS = re.compile(
    "bytes|transpose|gzip|zstd|blosc|crc32c|sharding_indexed|vlen-utf8|vlen-bytes|numcodecs[.].*"
)
"""The codecs of the Zarr specification and its registry that zarr-python implements."""

DROPPED_SETTINGS = ("storage", "unsafe_overwrite_refs")
"""The first describes the old storage; refs of spec version 2 do not know the second."""

_S3_DEFAULTS = {"region": None, "endpoint_url": None, "anonymous": False, "allow_http": False}


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest as the snapshots of spec version 2 describe it."""

    info: ManifestFileInfo
    extents: Mapping[NodeId, Extents]
    """Of the arrays that have references in it."""


def fit_id(id_: Id, salt: bytes = b"") -> Id:
    size = type(id_).sizes[0]
    if len(id_) == size:
        return id_
    return type(id_)(hashlib.sha256(id_ + salt).digest()[:size])


def convert_node_id(node: NodeSnapshot) -> NodeId:
    """Numbered nodes of different branches share their numbers; their paths tell them apart."""
    return fit_id(node.id, node.path.encode())


def convert_info(info: SnapshotInfo) -> SnapshotInfo:
    return replace(
        info,
        id=fit_id(info.id),
        parent_id=None if info.parent_id is None else fit_id(info.parent_id),
        metadata=encode_metadata(decode_metadata(info.metadata, 1), 2),
    )


def convert_snapshot(snapshot: Snapshot, files: Mapping[ManifestId, ManifestFile]) -> Snapshot:
    """`files` has every manifest of the snapshot by its old id."""
    nodes = tuple(_convert_node(node, files) for node in snapshot.nodes)
    used = {
        ref.object_id
        for node in nodes
        if isinstance(node.node_data, ArrayNodeData)
        for ref in node.node_data.manifests
    }
    return Snapshot(
        spec_version=2,
        id=fit_id(snapshot.id),
        parent_id=None,
        nodes=nodes,
        flushed_at=snapshot.flushed_at,
        message=snapshot.message,
        metadata=encode_metadata(decode_metadata(snapshot.metadata, 1), 2),
        manifest_files=(),
        manifest_files_v2=tuple(file.info for file in files.values() if file.info.id in used),
    )


def _convert_node(node: NodeSnapshot, files: Mapping[ManifestId, ManifestFile]) -> NodeSnapshot:
    node_id, data = convert_node_id(node), node.node_data
    if isinstance(data, ArrayNodeData):
        shape = map(DimensionShapeV2, data.array_shape, data.num_chunks)
        # Early writers named the manifest of a commit in every array, and left out the extents.
        manifests = (
            ManifestRef(file.info.id, file.extents[node_id])
            for file in (files[ref.object_id] for ref in data.manifests)
            if node_id in file.extents
        )
        data = ArrayNodeData((), data.dimension_names, tuple(manifests), tuple(shape))
    return NodeSnapshot(node_id, node.path, node.user_data, data)


def readable_arrays(manifest: Manifest, readers: Readers) -> Iterator[ArrayManifest]:
    """The references by the new id of the node; without those that no reader ever looks up."""
    for array in manifest.arrays:
        for node_id, dimensions in readers.get(array.node_id, {}).items():
            if array.refs.coordinates.shape[1] == dimensions:
                yield ArrayManifest(node_id, array.refs)


def convert_manifest(manifest: Manifest, readers: Readers) -> Manifest:
    arrays = tuple(
        replace(array, refs=_convert_refs(array.refs))
        for array in readable_arrays(manifest, readers)
    )
    return Manifest(2, fit_id(manifest.id), arrays)


def find_virtual_roots(manifest: Manifest, arrays: Iterable[ArrayManifest]) -> set[str]:
    """The scheme and bucket of each location, such as s3://bucket/."""
    locations = {one for array in arrays for one in decode_locations(manifest, array.refs) if one}
    urls = map(urlsplit, locations)
    return {f"{url.scheme}://{url.netloc}/" for url in urls}


def _convert_refs(refs: ChunkRefs) -> ChunkRefs:
    inline = refs.kind == RefKind.INLINE
    times = refs.checksum_last_modified
    return replace(
        refs,
        chunk_id=_fit_chunk_ids(refs.chunk_id),
        # The chunk itself has the length, as the official writer has it.
        length=np.where(inline, 0, refs.length).astype(np.uint64),
        checksum_last_modified=times if times is not None and times.any() else None,
    )


def _fit_chunk_ids(ids: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if ids.shape[1] == ObjectId.sizes[0]:
        return ids
    fitting = b"".join(fit_id(ObjectId(row.tobytes())) for row in ids)
    return np.frombuffer(fitting, np.uint8).reshape(len(ids), -1)


def describe_manifest(manifest: Manifest, size_bytes: int) -> ManifestFile:
    extents = {array.node_id: array.refs.extents() for array in manifest.arrays if len(array.refs)}
    info = ManifestFileInfo(manifest.id, size_bytes, manifest.num_chunk_refs)
    return ManifestFile(info, extents)


def find_unknown_codecs(codecs: object) -> Iterator[str]:
    """The names of codecs that need a plug-in of zarr-python, also of those inside of shards."""
    for codec in codecs if isinstance(codecs, list) else ():
        name, configuration = codec["name"], codec.get("configuration", {})
        if not KNOWN_CODECS.fullmatch(name):
            yield name
        for inner in ("codecs", "index_codecs"):
            yield from find_unknown_codecs(configuration.get(inner))


def convert_config(config: Mapping[str, object], roots: Iterable[str]) -> dict[str, object]:
    """The settings as the official reader of spec version 2 accepts them.

    It ignores containers without a bucket, such as s3://, which the alphas had; each of the
    `roots` of virtual chunks (s3://bucket/) gets a container with the same settings.
    """
    kept = {name: value for name, value in config.items() if name not in DROPPED_SETTINGS}
    converted = _convert_variants(kept)
    compression = converted.get("compression")
    if isinstance(compression, dict) and isinstance(compression.get("algorithm"), str):
        converted["compression"] = compression | {"algorithm": compression["algorithm"].lower()}
    containers = _containers(converted)
    prefixes = {str(one.get("url_prefix")): one for one in containers.values()}
    for root in sorted(find_uncovered(converted, roots)):
        scheme = root.partition("://")[0]
        whole = prefixes.get(f"{scheme}://") or prefixes.get(scheme)
        if whole is not None and not root.endswith(":///"):
            containers[root] = {**whole, "name": None, "url_prefix": root}
    return converted | ({"virtual_chunk_containers": containers} if containers else {})


def find_uncovered(config: Mapping[str, object], roots: Iterable[str]) -> set[str]:
    """The roots of virtual chunks that no container of the configuration is for."""
    prefixes = [str(one.get("url_prefix")) for one in _containers(config).values()]
    return {root for root in roots if not any(f"{one}/".startswith(root) for one in prefixes)}


def _containers(config: Mapping[str, object]) -> dict[str, dict[str, object]]:
    found = config.get("virtual_chunk_containers")
    containers = found.items() if isinstance(found, Mapping) else ()
    return {name: dict(one) for name, one in containers if isinstance(one, Mapping)}


def find_dropped_settings(config: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name in DROPPED_SETTINGS if config.get(name) is not None)


def _convert_variants(config: Mapping[str, object]) -> dict[str, object]:
    """The alphas named variants as their source code does, and left out some values."""
    converted: dict[str, object] = {}
    for name, value in config.items():
        if isinstance(value, Variant):
            [(variant, content)] = value.items()
            variant = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", variant).lower()
            if variant in ("s3", "s3_compatible", "tigris") and isinstance(content, Mapping):
                content = _S3_DEFAULTS | dict(content)
            converted[name] = {variant: content}
        else:
            converted[name] = _convert_variants(value) if isinstance(value, Mapping) else value
    return converted
