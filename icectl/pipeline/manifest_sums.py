"""What one manifest refers to, by columns. Pure; every engine calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.model.ids import ManifestId, NodeId
from icectl.model.manifest import ArrayManifest, Manifest, RefKind
from icectl.pipeline.id_columns import id_columns
from icectl.pipeline.locations import number_locations


@dataclass(frozen=True, slots=True, eq=False)
class ArraySums:
    """The references of one array; native and virtual ones by columns, inline ones summed up."""

    node_id: NodeId
    chunk_high: NDArray[np.uint64]
    chunk_low: NDArray[np.unsignedinteger[Any]]
    """The two parts of native chunk ids."""
    native_length: NDArray[np.uint64]
    location: NDArray[np.intp]
    """The place of each virtual location in `locations`."""
    virtual_offset: NDArray[np.uint64]
    virtual_length: NDArray[np.uint64]
    locations: list[str]
    num_inline: int
    inlined_bytes: int

    @property
    def num_refs(self) -> int:
        return len(self.native_length) + len(self.virtual_length) + self.num_inline


@dataclass(frozen=True, slots=True, eq=False)
class ManifestSums:
    id: ManifestId
    arrays: tuple[ArraySums, ...]

    @property
    def num_refs(self) -> int:
        return sum(array.num_refs for array in self.arrays)

    def bytes(self) -> tuple[int, int, int]:
        """Native, virtual and inlined; each reference for itself."""
        return (
            sum(int(array.native_length.sum()) for array in self.arrays),
            sum(int(array.virtual_length.sum()) for array in self.arrays),
            sum(array.inlined_bytes for array in self.arrays),
        )


def sum_manifest(manifest: Manifest) -> ManifestSums:
    return ManifestSums(
        manifest.id, tuple(_sum_array(manifest, array) for array in manifest.arrays)
    )


def _sum_array(manifest: Manifest, array: ArrayManifest) -> ArraySums:
    refs = array.refs
    native = refs.kind == RefKind.NATIVE
    every = bool(native.all())
    high, low = _id_parts(refs.chunk_id if every else refs.chunk_id[native])
    inline = refs.kind == RefKind.INLINE
    virtual = number_locations(manifest, refs)
    return ArraySums(
        array.node_id,
        high,
        low,
        refs.length if every else refs.length[native],
        virtual.numbers,
        refs.offset[virtual.rows],
        refs.length[virtual.rows],
        virtual.locations,
        int(inline.sum()),
        int(refs.content.length[inline].sum(dtype=np.uint64)),
    )


def _id_parts(
    ids: NDArray[np.uint8],
) -> tuple[NDArray[np.uint64], NDArray[np.unsignedinteger[Any]]]:
    if ids.shape[1] == 12:
        columns = id_columns(ids)
        return columns.high, columns.low
    # Early generations had ids of 16 bytes.
    parts = np.ascontiguousarray(ids).view(">u8").reshape(-1, 2).astype(np.uint64)
    return parts[:, 0], parts[:, 1]
