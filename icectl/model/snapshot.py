"""Snapshot files: every node of one version, and the manifests of its arrays."""

from __future__ import annotations

from dataclasses import dataclass

from icectl.model.ids import INITIAL_SNAPSHOT_ID, ManifestId, NodeId, SnapshotId
from icectl.model.values import MetadataItem, UnknownField


@dataclass(frozen=True, slots=True)
class DimensionShape:
    """Spec version 1. `chunk_length` may be inexact; the Zarr metadata is authoritative."""

    array_length: int
    chunk_length: int


@dataclass(frozen=True, slots=True)
class DimensionShapeV2:
    array_length: int
    num_chunks: int


@dataclass(frozen=True, slots=True)
class ChunkIndexRange:
    """Chunk indexes `from_` (inclusive) to `to` (exclusive) along one dimension."""

    from_: int
    to: int


@dataclass(frozen=True, slots=True)
class ManifestRef:
    object_id: ManifestId
    extents: tuple[ChunkIndexRange, ...]


@dataclass(frozen=True, slots=True)
class ArrayNodeData:
    shape: tuple[DimensionShape, ...]
    """Spec version 1; empty in version 2."""
    dimension_names: tuple[str | None, ...] | None
    manifests: tuple[ManifestRef, ...]
    shape_v2: tuple[DimensionShapeV2, ...] | None = None

    @property
    def array_shape(self) -> tuple[int, ...]:
        dimensions = self.shape if self.shape_v2 is None else self.shape_v2
        return tuple(dimension.array_length for dimension in dimensions)

    @property
    def num_chunks(self) -> tuple[int, ...]:
        """The number of chunks along each dimension."""
        if self.shape_v2 is not None:
            return tuple(dimension.num_chunks for dimension in self.shape_v2)
        return tuple(
            -(-dimension.array_length // dimension.chunk_length) if dimension.chunk_length else 0
            for dimension in self.shape
        )


@dataclass(frozen=True, slots=True)
class GroupNodeData:
    pass


@dataclass(frozen=True, slots=True)
class UnknownNodeData:
    """A node of a kind that this version of icectl does not know."""

    type_code: int


NodeData = ArrayNodeData | GroupNodeData | UnknownNodeData


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    id: NodeId
    path: str
    user_data: bytes
    """The node's `zarr.json`."""
    node_data: NodeData
    extra: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFileInfo:
    """A snapshot's claims about a manifest file (`…FileInfo` and `…FileInfoV2`)."""

    id: ManifestId
    size_bytes: int
    num_chunk_refs: int
    extra: bytes | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    spec_version: int
    """From the file's header."""
    id: SnapshotId
    parent_id: SnapshotId | None
    """Spec version 1 only; in version 2 the repo info file stores the parent."""
    nodes: tuple[NodeSnapshot, ...]
    flushed_at: int
    message: str
    metadata: tuple[MetadataItem, ...]
    manifest_files: tuple[ManifestFileInfo, ...]
    manifest_files_v2: tuple[ManifestFileInfo, ...] | None = None
    extra: bytes | None = None
    unknown_fields: tuple[UnknownField, ...] = ()

    @property
    def all_manifest_files(self) -> tuple[ManifestFileInfo, ...]:
        return self.manifest_files + (self.manifest_files_v2 or ())

    @property
    def has_lost_parent(self) -> bool:
        return is_parent_lost(self.id, self.parent_id, len(self.nodes))


def is_parent_lost(id_: SnapshotId, parent_id: SnapshotId | None, num_nodes: int) -> bool:
    """Whether the parent is missing from a file of spec version 1 that should have one.

    A missing parent hides all older versions. Every official release wrote the first snapshot
    without nodes; since 1.0 it has a fixed id.
    """
    return parent_id is None and id_ != INITIAL_SNAPSHOT_ID and num_nodes > 0


def path_sort_key(path: str) -> tuple[bytes, ...]:
    """Return a key that sorts node paths component-wise: /a < /a/b < /a-b < /ab."""
    return tuple(segment.encode() for segment in path.split("/") if segment)
