"""Index of a snapshot's nodes by id and by path."""

from __future__ import annotations

from dataclasses import dataclass

from icectl.model.ids import NodeId, SnapshotId
from icectl.model.snapshot import ArrayNodeData, NodeSnapshot, Snapshot


@dataclass(frozen=True, slots=True)
class NodeTable:
    snapshot_id: SnapshotId
    by_id: dict[NodeId, NodeSnapshot]
    by_path: dict[str, NodeSnapshot]
    arrays: frozenset[NodeId]

    @classmethod
    def of(cls, snapshot: Snapshot) -> NodeTable:
        return cls(
            snapshot.id,
            {node.id: node for node in snapshot.nodes},
            {node.path: node for node in snapshot.nodes},
            frozenset(node.id for node in snapshot.nodes if is_array(node)),
        )


def is_array(node: NodeSnapshot) -> bool:
    return isinstance(node.node_data, ArrayNodeData)
