"""The references in kept files, read after the checks that must pass before anything is deleted.

Files have no checksum: a flipped bit can decode to another valid file. Therefore every fact that
is stored twice is compared. The checks are those of `validate`, limited to the facts that decide
which objects are needed; the first problem is raised as a `FormatError` that names the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icectl.checks.listing import missing
from icectl.checks.manifest import (
    ManifestClaim,
    check_manifest_count,
    check_manifest_id,
    check_manifest_size,
    check_same_claim,
)
from icectl.checks.problem import decoding_error, error_of, raise_first
from icectl.checks.snapshot import (
    check_manifest_repeats,
    check_manifest_use,
    check_node_kinds,
    check_parent_v1,
    check_snapshot_id,
)
from icectl.errors import FormatError, ObjectNotFoundError, UnsupportedError
from icectl.format.manifest import decode_native_refs
from icectl.format.node_columns import decode_snapshot_columns
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.node_columns import SnapshotColumns
from icectl.model.snapshot import ManifestFileInfo, Snapshot
from icectl.pipeline.engine import REFERENCES, Column, Columns, Rows, Work
from icectl.pipeline.id_columns import IdSet, id_columns
from icectl.pipeline.objects import ObjectKind
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True, eq=False)
class MarkedManifest:
    """The chunk files that a manifest needs, in no particular order."""

    ids: IdSet
    end: NDArray[np.uint64] | None
    """The minimum length of each file, if it was requested."""


@dataclass(frozen=True, slots=True)
class ReadReferences:
    """The chunks that manifests need, as rows of the table `REFERENCES`."""

    storage: Storage
    with_ends: bool

    def __call__(self, claims: Sequence[ManifestClaim]) -> Iterator[Rows]:
        for claim in claims:
            marked = mark_manifest(self._read(claim), claim, with_ends=self.with_ends)
            columns: Columns = {"high": marked.ids.high, "low": marked.ids.low}
            if marked.end is not None:
                columns["end"] = marked.end
            yield Rows(REFERENCES, columns)

    def _read(self, claim: ManifestClaim) -> bytes:
        try:
            return self.storage.read(claim.path)
        except ObjectNotFoundError:
            raise error_of(missing(claim.path, "a kept snapshot refers to it")) from None


def read_references(
    storage: Storage, claims: Collection[ManifestClaim], *, with_ends: bool
) -> Work:
    """The work of reading all chunk references of these manifests.

    `with_ends`: also the minimum length of each chunk, for storages that list sizes.
    """
    return Work(
        "reading manifests",
        storage,
        claims,
        ReadReferences(storage, with_ends),
        weigh_claim,
        {REFERENCES: {"end": Column("uint64", "max")} if with_ends else {}},
        has_notes=False,
        references_at_once=4_000_000,
    )


def weigh_claim(claim: ManifestClaim) -> tuple[int, int]:
    return claim.size_bytes, claim.num_chunk_refs


def mark_manifest(data: bytes, claim: ManifestClaim, *, with_ends: bool = True) -> MarkedManifest:
    """The native chunk ids of a manifest whose size, id and count are as claimed."""
    raise_first(check_manifest_size(claim, len(data)))
    try:
        refs = decode_native_refs(data, with_ends=with_ends)
    except (FormatError, UnsupportedError) as error:
        raise decoding_error(error, claim.path) from None
    raise_first(check_manifest_id(claim, refs.id))
    raise_first(check_manifest_count(claim, refs.num_chunk_refs))
    return MarkedManifest(id_columns(refs.chunk_id), refs.end)


def mark_snapshot(data: bytes, snapshot_id: SnapshotId) -> SnapshotColumns:
    """The snapshot, if its id is its name and it lists exactly the manifests that its nodes use."""
    try:
        snapshot = decode_snapshot_columns(data)
    except (FormatError, UnsupportedError) as error:
        raise decoding_error(error, ObjectKind.SNAPSHOT.path(snapshot_id)) from None
    raise_first(check_snapshot_id(snapshot, snapshot_id))
    raise_first(check_node_kinds(snapshot))
    raise_first(check_manifest_repeats(snapshot))
    raise_first(check_manifest_use(snapshot))
    return snapshot


def check_root_v1(snapshot: Snapshot | SnapshotColumns) -> None:
    raise_first(check_parent_v1(snapshot))


def merge_claims(
    claims: dict[ManifestId, ManifestClaim], files: Iterable[ManifestFileInfo], snapshot: SnapshotId
) -> None:
    """Add the claims of one snapshot about its manifests to those of the others."""
    for file in files:
        claim = ManifestClaim.of(file)
        raise_first(check_same_claim(claim, claims.setdefault(file.id, claim), snapshot))
