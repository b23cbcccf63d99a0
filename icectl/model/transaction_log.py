"""Transaction logs: the nodes and chunks that one commit changed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icectl.model.ids import NodeId, SnapshotId
from icectl.model.values import UnknownField

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class NodeType(enum.IntEnum):
    GROUP = 0
    ARRAY = 1


@dataclass(frozen=True, slots=True)
class MoveOperation:
    from_: str
    to: str
    node_id: NodeId
    node_type: int
    """A `NodeType`, or a number that this version of icectl does not know."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayUpdatedChunks:
    """Chunk coordinates of one array, as rows of an (n, dimensions) array."""

    node_id: NodeId
    chunks: NDArray[np.uint32]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ArrayUpdatedChunks)
            and self.node_id == other.node_id
            and self.chunks.shape == other.chunks.shape
            and self.chunks.tobytes() == other.chunks.tobytes()
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class TransactionLog:
    spec_version: int
    """From the file's header."""
    id: SnapshotId
    new_groups: tuple[NodeId, ...]
    new_arrays: tuple[NodeId, ...]
    deleted_groups: tuple[NodeId, ...]
    deleted_arrays: tuple[NodeId, ...]
    updated_arrays: tuple[NodeId, ...]
    updated_groups: tuple[NodeId, ...]
    updated_chunks: tuple[ArrayUpdatedChunks, ...]
    moved_nodes: tuple[MoveOperation, ...] | None = None
    extra: bytes | None = None
    unknown_fields: tuple[UnknownField, ...] = ()
