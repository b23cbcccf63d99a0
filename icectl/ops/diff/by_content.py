"""The nodes of two versions compared as they are: matched by id, then by path."""

from __future__ import annotations

from collections.abc import Iterable

from icectl.model.node_table import NodeTable, is_array
from icectl.model.snapshot import NodeSnapshot
from icectl.ops.diff.metadata import compare_metadata
from icectl.ops.diff.nodes import PathFilter, moves_between, sorted_pairs, sorted_paths
from icectl.ops.diff.result import ArrayPair, MetadataChange, NodeDiff


def diff_by_content(before: NodeTable, after: NodeTable, within: PathFilter) -> NodeDiff:
    pairs = _match(before, after)
    matched = {id(old) for old, _ in pairs} | {id(new) for _, new in pairs}
    new = [node for node in after.by_id.values() if id(node) not in matched]
    deleted = [node for node in before.by_id.values() if id(node) not in matched]
    pairs = [(old, new_node) for old, new_node in pairs if within(new_node.path)]
    changed = [
        change for old, new_node in pairs if (change := compare_metadata(old, new_node)).changes
    ]
    updated = {change.path for change in changed}
    arrays = {node.path for _, node in pairs if is_array(node)}

    def paths_of(nodes: Iterable[NodeSnapshot], *, array: bool) -> tuple[str, ...]:
        return sorted_paths(
            node.path for node in nodes if is_array(node) == array and within(node.path)
        )

    return NodeDiff(
        from_id=before.snapshot_id,
        to_id=after.snapshot_id,
        method="content",
        new_groups=paths_of(new, array=False),
        new_arrays=paths_of(new, array=True),
        deleted_groups=paths_of(deleted, array=False),
        deleted_arrays=paths_of(deleted, array=True),
        updated_groups=sorted_paths(updated - arrays),
        updated_arrays=sorted_paths(updated & arrays),
        moved_nodes=moves_between(before, after, within),
        metadata_changes=_by_path(changed),
        arrays=_arrays(pairs, new, deleted, within),
    )


def _match(before: NodeTable, after: NodeTable) -> list[tuple[NodeSnapshot, NodeSnapshot]]:
    pairs = []
    for new in after.by_id.values():
        old = before.by_id.get(new.id)
        if old is None:
            old = before.by_path.get(new.path)
            # A node that lives on elsewhere, or of another type, is not the same one.
            if old is None or old.id in after.by_id or is_array(old) != is_array(new):
                continue
        pairs.append((old, new))
    return pairs


def _by_path(changes: list[MetadataChange]) -> tuple[MetadataChange, ...]:
    by_path = {change.path: change for change in changes}
    return tuple(by_path[path] for path in sorted_paths(by_path))


def _arrays(
    pairs: list[tuple[NodeSnapshot, NodeSnapshot]],
    new: list[NodeSnapshot],
    deleted: list[NodeSnapshot],
    within: PathFilter,
) -> tuple[ArrayPair, ...]:
    found = [ArrayPair(new.path, old, new) for old, new in pairs if is_array(new)]
    found += [ArrayPair(node.path, None, node) for node in new if is_array(node)]
    found += [ArrayPair(node.path, node, None) for node in deleted if is_array(node)]
    return sorted_pairs(pair for pair in found if within(pair.path))
