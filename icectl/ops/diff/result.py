"""What a diff says. Paths are those of TO, and of FROM where a node is not in TO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.snapshot import NodeSnapshot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Method = Literal["transaction_logs", "content"]


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One value of a node's `zarr.json`; `pointer` is its JSON pointer."""

    pointer: str
    before: Any
    after: Any
    """JSON values, or `ABSENT` on a side without the key."""


@dataclass(frozen=True, slots=True)
class MetadataChange:
    path: str
    changes: tuple[ValueChange, ...]
    """Empty when the metadata was written, and is the same at both ends."""


@dataclass(frozen=True, slots=True)
class Move:
    from_: str
    to: str
    with_parent: bool
    """The node only followed the group it is in."""


@dataclass(frozen=True, slots=True)
class ArrayPair:
    """An array whose chunks may differ; `before` or `after` is None where it does not exist."""

    path: str
    before: NodeSnapshot | None
    after: NodeSnapshot | None
    written: NDArray[np.uint32] | None = None
    """The coordinates that the logs name, distinct and in order; None: compare every chunk."""


@dataclass(frozen=True, slots=True)
class NodeDiff:
    from_id: SnapshotId
    to_id: SnapshotId
    method: Method
    new_groups: tuple[str, ...] = ()
    new_arrays: tuple[str, ...] = ()
    deleted_groups: tuple[str, ...] = ()
    deleted_arrays: tuple[str, ...] = ()
    updated_groups: tuple[str, ...] = ()
    """Metadata was written. By logs a new or deleted node can be here too, as it happened."""
    updated_arrays: tuple[str, ...] = ()
    moved_nodes: tuple[Move, ...] = ()
    """By the path in TO."""
    metadata_changes: tuple[MetadataChange, ...] = ()
    """For the updated nodes that are in both versions."""
    arrays: tuple[ArrayPair, ...] = ()
    """In the order of their paths; an array, and a deleted one behind it, can have the same."""
    num_chunk_refs: Mapping[ManifestId, int] = field(default_factory=dict)
    """What the two snapshots claim about the size of their manifests."""
    fallback: str | None = None
    """Why the logs were not used although FROM is an ancestor."""

    @property
    def is_empty(self) -> bool:
        return not (
            self.new_groups
            or self.new_arrays
            or self.deleted_groups
            or self.deleted_arrays
            or self.updated_groups
            or self.updated_arrays
            or self.moved_nodes
        )


@dataclass(frozen=True, slots=True, eq=False)
class ChunkChanges:
    """The chunks of one array that changed."""

    path: str
    num_chunks: int
    """By logs everything that was written, else the sum of the three counts below."""
    chunks: tuple[NDArray[np.uint32], ...]
    """The coordinates behind `num_chunks`: one block, or two where the dimensions changed."""
    added: NDArray[np.uint32] | None = None
    """None when the references were not compared."""
    overwritten: NDArray[np.uint32] | None = None
    deleted: NDArray[np.uint32] | None = None
    bytes_added: int | None = None
    """Of the references in TO that are new or another."""
    bytes_removed: int | None = None
    of_deleted_array: bool = False

    @property
    def num_same(self) -> int:
        """Chunks that were written, and whose reference is the same at both ends."""
        kinds = (self.added, self.overwritten, self.deleted)
        return self.num_chunks - sum(len(rows) for rows in kinds if rows is not None)
