"""Index of a snapshot's nodes by id and by path.

A table made of columns has no object for a node until it is asked for one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import compress
from typing import TYPE_CHECKING, TypeVar

from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.snapshot import ArrayNodeData, NodeSnapshot, Snapshot

if TYPE_CHECKING:
    from icectl.model.node_columns import SnapshotColumns

Key = TypeVar("Key")


@dataclass(frozen=True, eq=False)
class NodeTable:
    snapshot_id: SnapshotId
    by_id: Mapping[NodeId, NodeSnapshot]
    by_path: Mapping[str, NodeSnapshot]
    arrays: AbstractSet[NodeId]
    num_chunk_refs: Mapping[ManifestId, int]
    """What the snapshot claims about the size of its manifests."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> NodeTable:
        files = {file.id: file.num_chunk_refs for file in snapshot.all_manifest_files}
        return cls.of_nodes(snapshot.id, snapshot.nodes, files)

    @classmethod
    def of_nodes(
        cls, id_: SnapshotId, nodes: Collection[NodeSnapshot], files: Mapping[ManifestId, int]
    ) -> NodeTable:
        by_id = {node.id: node for node in nodes}
        by_path = {node.path: node for node in nodes}
        arrays = frozenset(node.id for node in nodes if is_array(node))
        return cls(id_, by_id, by_path, arrays, files)

    @property
    def ids(self) -> AbstractSet[NodeId]:
        return self.by_id.keys()

    @cached_property
    def paths(self) -> Mapping[NodeId, str]:
        return {node_id: node.path for node_id, node in self.by_id.items()}

    @cached_property
    def documents(self) -> Mapping[NodeId, bytes]:
        """The `zarr.json` of each node."""
        return {node_id: node.user_data for node_id, node in self.by_id.items()}

    @cached_property
    def manifests(self) -> Mapping[NodeId, Hashable]:
        """Equal values, in tables of the same kind, stand for equal lists of manifests."""
        return {
            node_id: node.node_data.manifests
            for node_id, node in self.by_id.items()
            if isinstance(node.node_data, ArrayNodeData)
        }


class ColumnNodeTable(NodeTable):
    """A table without an object for each node."""

    def __init__(self, columns: SnapshotColumns) -> None:
        nodes, files = columns.nodes, columns.manifest_files
        ids, paths = nodes.ids(), nodes.paths()
        read = lru_cache(None)(nodes.read)
        super().__init__(
            columns.id,
            _LazyNodes(dict(zip(ids, range(len(ids)), strict=True)), read),
            _LazyNodes(dict(zip(paths, range(len(ids)), strict=True)), read),
            frozenset(compress(ids, nodes.is_array().tolist())),
            dict(zip(files.ids(), files.num_chunk_refs.tolist(), strict=True)),
        )
        self.__dict__["paths"] = dict(zip(ids, paths, strict=True))
        self._columns = nodes
        self._ids = ids

    @property
    def ids(self) -> AbstractSet[NodeId]:
        return self.paths.keys()

    @cached_property
    def documents(self) -> Mapping[NodeId, bytes]:
        return dict(zip(self._ids, self._columns.user_data.to_list(), strict=True))

    @cached_property
    def manifests(self) -> Mapping[NodeId, Hashable]:
        found = dict(zip(self._ids, self._columns.manifest_lists(), strict=True))
        return {node_id: found[node_id] for node_id in self.arrays}


class _LazyNodes(Mapping[Key, NodeSnapshot]):
    def __init__(self, rows: dict[Key, int], read: Callable[[int], NodeSnapshot]) -> None:
        self._rows = rows
        self._read = read

    def __getitem__(self, key: Key) -> NodeSnapshot:
        return self._read(self._rows[key])

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def is_array(node: NodeSnapshot) -> bool:
    return isinstance(node.node_data, ArrayNodeData)
