"""What a kept file keeps, and whether it fits what others say about it. Pure functions.

The files carry no checksum: a flipped bit can decode to another valid file. Each fact that is
stored twice is therefore compared, and the first one that does not fit is a `FormatError` that
names the file. Both engines call these functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icectl.errors import FormatError, Remedy, UnsupportedError
from icectl.format.manifest import decode_native_refs
from icectl.format.snapshot import decode_snapshot
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.snapshot import ArrayNodeData, ManifestFileInfo, Snapshot, UnknownNodeData
from icectl.ops.gc.id_sets import IdSet, id_columns
from icectl.ops.gc.objects import ObjectKind


@dataclass(frozen=True, slots=True)
class ManifestClaim:
    """What the snapshots say about a manifest file."""

    id: ManifestId
    size_bytes: int
    num_chunk_refs: int

    @property
    def path(self) -> str:
        return ObjectKind.MANIFEST.path(self.id)


@dataclass(frozen=True, slots=True, eq=False)
class MarkedManifest:
    """The chunk files that a manifest needs, in no order."""

    ids: IdSet
    end: NDArray[np.uint64] | None
    """How long each file must be at least, where that was asked for."""


def mark_manifest(data: bytes, claim: ManifestClaim, *, with_ends: bool = True) -> MarkedManifest:
    """The native chunk ids of a manifest whose size, id and count are as claimed."""
    try:
        if len(data) != claim.size_bytes:
            raise FormatError(
                f"the file has {len(data)} bytes, its snapshots say {claim.size_bytes}"
            )
        refs = decode_native_refs(data, with_ends=with_ends)
        if refs.id != claim.id:
            raise FormatError(f"the file says that it is {refs.id}")
        if refs.num_chunk_refs != claim.num_chunk_refs:
            raise FormatError(
                f"the file has {refs.num_chunk_refs} chunk references, "
                f"its snapshots say {claim.num_chunk_refs}"
            )
    except FormatError as error:
        raise error.at(claim.path) from None
    except UnsupportedError as error:
        raise _unsupported_at(claim.path, error) from None
    return MarkedManifest(id_columns(refs.chunk_id), refs.end)


def mark_snapshot(data: bytes, snapshot_id: SnapshotId) -> Snapshot:
    """The snapshot, whose id is its name and whose nodes and manifest list agree."""
    path = ObjectKind.SNAPSHOT.path(snapshot_id)
    try:
        snapshot = decode_snapshot(data)
        if snapshot.id != snapshot_id:
            raise FormatError(f"the file says that it is {snapshot.id}")
        _check_manifest_list(snapshot)
    except FormatError as error:
        raise error.at(path) from None
    except UnsupportedError as error:
        raise _unsupported_at(path, error) from None
    return snapshot


def _unsupported_at(path: str, error: UnsupportedError) -> UnsupportedError:
    """The repository is of a version that is known, so that this one file is the exception."""
    return UnsupportedError(
        f"{path}: {error.message}",
        hint=Remedy("validate-unknown-version"),
    )


def _check_manifest_list(snapshot: Snapshot) -> None:
    listed = {file.id for file in snapshot.all_manifest_files}
    used: set[ManifestId] = set()
    for node in snapshot.nodes:
        if isinstance(node.node_data, UnknownNodeData):
            raise FormatError(f"the node {node.path} is of a kind that this icectl does not know")
        if isinstance(node.node_data, ArrayNodeData):
            used.update(ref.object_id for ref in node.node_data.manifests)
    if len(listed) < len(snapshot.all_manifest_files):
        raise FormatError("the list of manifests names one twice")
    for manifest_id in sorted(used ^ listed):
        raise FormatError(
            f"the manifest {manifest_id} is listed and no array refers to it"
            if manifest_id in listed
            else f"an array refers to the manifest {manifest_id}, which is not listed"
        )


def check_root_v1(snapshot: Snapshot) -> None:
    if snapshot.has_lost_parent:
        raise FormatError(
            "the snapshot has no parent, yet it is not the first one",
            path=ObjectKind.SNAPSHOT.path(snapshot.id),
        )


def merge_claims(
    claims: dict[ManifestId, ManifestClaim], files: Iterable[ManifestFileInfo], snapshot: SnapshotId
) -> None:
    """Add what one snapshot says about its manifests to what the others say."""
    for file in files:
        claim = ManifestClaim(file.id, file.size_bytes, file.num_chunk_refs)
        if claims.setdefault(file.id, claim) != claim:
            raise FormatError(
                f"its size or count of the manifest {file.id} is not what another snapshot says",
                path=ObjectKind.SNAPSHOT.path(snapshot),
            )
