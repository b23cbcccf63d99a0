"""The nodes of two versions compared as they are: matched by id, then by path."""

from __future__ import annotations

from collections.abc import Iterable

from icectl.model.ids import NodeId
from icectl.model.node_table import NodeTable
from icectl.ops.diff.metadata import compare_metadata
from icectl.ops.diff.nodes import PathFilter, moves_between, sorted_pairs, sorted_paths
from icectl.ops.diff.result import ArrayPair, MetadataChange, NodeDiff

Match = tuple[NodeId, NodeId]
"""A node of the older version, and the same or its successor in the newer one."""


def diff_by_content(before: NodeTable, after: NodeTable, within: PathFilter) -> NodeDiff:
    matches = _match(before, after)
    new = after.ids - {new_id for _, new_id in matches}
    deleted = before.ids - {old_id for old_id, _ in matches}
    matches = [match for match in matches if within(after.paths[match[1]])]
    changed = [
        change
        for old_id, new_id in matches
        if before.documents[old_id] != after.documents[new_id]
        and (change := compare_metadata(before.by_id[old_id], after.by_id[new_id])).changes
    ]
    updated = {change.path for change in changed}
    arrays = {after.paths[new_id] for _, new_id in matches if new_id in after.arrays}

    def paths_of(nodes: Iterable[NodeId], table: NodeTable) -> tuple[str, ...]:
        return sorted_paths(path for id_ in nodes if within(path := table.paths[id_]))

    return NodeDiff(
        from_id=before.snapshot_id,
        to_id=after.snapshot_id,
        method="content",
        new_groups=paths_of(new - after.arrays, after),
        new_arrays=paths_of(new & after.arrays, after),
        deleted_groups=paths_of(deleted - before.arrays, before),
        deleted_arrays=paths_of(deleted & before.arrays, before),
        updated_groups=sorted_paths(updated - arrays),
        updated_arrays=sorted_paths(updated & arrays),
        moved_nodes=moves_between(before, after, within),
        metadata_changes=_by_path(changed),
        arrays=sorted_pairs(
            pair
            for pair in (
                *_changed_pairs(before, after, matches),
                *_pairs_of_one_side(new & after.arrays, after, is_new=True),
                *_pairs_of_one_side(deleted & before.arrays, before, is_new=False),
            )
            if within(pair.path)
        ),
    )


def _match(before: NodeTable, after: NodeTable) -> list[Match]:
    matches: list[Match] = []
    for new_id, path in after.paths.items():
        if new_id in before.ids:
            matches.append((new_id, new_id))
        elif (old := before.by_path.get(path)) is not None:
            # A node that lives on elsewhere, or of another type, is not the same one.
            is_same_type = (old.id in before.arrays) == (new_id in after.arrays)
            if old.id not in after.ids and is_same_type:
                matches.append((old.id, new_id))
    return matches


def _by_path(changes: list[MetadataChange]) -> tuple[MetadataChange, ...]:
    by_path = {change.path: change for change in changes}
    return tuple(by_path[path] for path in sorted_paths(by_path))


def _changed_pairs(
    before: NodeTable, after: NodeTable, matches: Iterable[Match]
) -> Iterable[ArrayPair]:
    """The arrays in both versions, without those whose manifests are the same."""
    for old_id, new_id in matches:
        if new_id in after.arrays and not (
            old_id == new_id
            and new_id in before.arrays
            and before.manifests[old_id] == after.manifests[new_id]
        ):
            yield ArrayPair(after.paths[new_id], before.by_id[old_id], after.by_id[new_id])


def _pairs_of_one_side(
    arrays: Iterable[NodeId], table: NodeTable, *, is_new: bool
) -> Iterable[ArrayPair]:
    for id_ in arrays:
        node = table.by_id[id_]
        yield ArrayPair(node.path, *((None, node) if is_new else (node, None)))
