"""Convert manifests of the MessagePack generations to columns."""

from __future__ import annotations

from itertools import groupby

from icectl.format.legacy.manifest import LegacyManifest, LegacyRef
from icectl.model.ids import ManifestId, NodeId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans

_KINDS = {"native": RefKind.NATIVE, "inline": RefKind.INLINE, "virtual": RefKind.VIRTUAL}


def legacy_manifest_columns(legacy: LegacyManifest, name: ManifestId | None = None) -> Manifest:
    """`name` is the id from the file name, for generations that do not store the id.

    Early writers (0.1.0-alpha.4) also listed references of one array under the node id of another.
    If the references of a node differ in their number of dimensions, the result has one
    `ArrayManifest` for each number.
    """
    ordered = sorted(legacy.refs, key=lambda ref: (*_array_of(ref), ref.coordinates))
    arrays = tuple(
        ArrayManifest(node_id, _columns(list(refs)))
        for (node_id, _), refs in groupby(ordered, key=_array_of)
    )
    return Manifest(1, legacy.id or name or ManifestId(bytes(12)), arrays)


def _array_of(ref: LegacyRef) -> tuple[NodeId, int]:
    return ref.node_id, len(ref.coordinates)


def _columns(refs: list[LegacyRef]) -> ChunkRefs:
    import numpy as np

    data = bytearray(b"\0")

    def spans(values: list[bytes | None]) -> Spans:
        starts = []
        for value in values:
            starts.append(0 if value is None else len(data))
            data.extend(value or b"")
        return Spans(
            data,
            np.array(starts, np.uint32),
            np.array([len(value or b"") for value in values], np.uint32),
        )

    ids = [ref.chunk_id for ref in refs]
    width = max((len(one) for one in ids if one), default=12)
    etags = [None if ref.etag is None else ref.etag.encode() for ref in refs]
    return ChunkRefs(
        np.array([ref.coordinates for ref in refs], np.uint32).reshape(len(refs), -1),
        np.array([_KINDS[ref.kind] for ref in refs], np.uint8),
        np.frombuffer(b"".join(one or bytes(width) for one in ids), np.uint8).reshape(-1, width),
        np.array([ref.offset for ref in refs], np.uint64),
        np.array([ref.length for ref in refs], np.uint64),
        spans([ref.inline if ref.location is None else ref.location.encode() for ref in refs]),
        spans(etags) if any(etags) else None,
        np.array([ref.last_modified or 0 for ref in refs], np.uint32),
        None,
    )
