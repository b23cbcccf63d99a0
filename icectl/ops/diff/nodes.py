"""Groups and arrays of two versions: from the logs where they serve, else by content.

By logs: node ids are stable and never used twice, so the logs of a range can be united in any
order. A node that was both created and deleted is gone, and a move is the difference of a node's
paths at both ends, however many steps it took. By content: nodes are matched by id, then by path.

A node's `zarr.json` is compared as a list of the values that differ. Objects are followed key by
key, and lists of objects of one length (codecs) item by item; any other list, such as a shape,
changes as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from icectl.errors import (
    FormatError,
    ObjectNotFoundError,
    RefNotFoundError,
    Remedy,
    UnsupportedError,
)
from icectl.model.ids import NodeId, SnapshotId
from icectl.model.node_table import NodeTable
from icectl.model.snapshot import NodeSnapshot, path_sort_key
from icectl.model.transaction_log import TransactionLog
from icectl.model.values import ABSENT
from icectl.ops.diff.result import (
    ArrayPair,
    MetadataChange,
    Move,
    NodeDiff,
    ValueChange,
)
from icectl.ops.diff.versions import Versions
from icectl.pipeline.coordinates import CoordinateSet
from icectl.pipeline.progress import Progress
from icectl.repository.names import nearest_hint
from icectl.repository.repository import Repository

PathFilter = Callable[[str], bool]
Match = tuple[NodeId, NodeId]
"""A node of the older version, and the same or its successor in the newer one."""


def diff_nodes(
    repository: Repository,
    versions: Versions,
    *,
    path: str = "/",
    progress: Progress | None = None,
) -> NodeDiff:
    """What happened to the nodes at `path` and below; `NodeDiff.fallback` says why not by logs."""
    tables = repository.read_node_tables({versions.from_id, versions.to_id})
    before, after = tables[versions.from_id], tables[versions.to_id]
    within = _path_filter(path, before, after)
    fallback = None
    diff = None
    if versions.log_ids is not None:
        try:
            changes = read_log_changes(repository, versions.log_ids, progress or Progress())
            diff = diff_from_logs(changes, before, after, within)
        except LogsInsufficientError as error:
            fallback = str(error)
    return replace(
        diff or diff_by_content(before, after, within),
        num_chunk_refs={**before.num_chunk_refs, **after.num_chunk_refs},
        fallback=fallback,
    )


def _path_filter(path: str, before: NodeTable, after: NodeTable) -> PathFilter:
    root = "/" + path.strip("/")
    if root == "/":
        return lambda _path: True
    if root not in before.by_path and root not in after.by_path:
        raise RefNotFoundError(
            f"neither version has a node {root}",
            hint=nearest_hint(root, sorted({*before.by_path, *after.by_path} - {"/"}))
            or Remedy("list-newer-nodes", {"snapshot": str(after.snapshot_id)}),
        )
    return lambda path: path == root or path.startswith(f"{root}/")


class LogsInsufficientError(Exception):
    """The logs are missing, damaged, or do not tell the whole change."""


@dataclass(slots=True)
class LogChanges:
    created: set[NodeId] = field(default_factory=set)
    deleted: set[NodeId] = field(default_factory=set)
    updated_groups: set[NodeId] = field(default_factory=set)
    updated_arrays: set[NodeId] = field(default_factory=set)
    chunks: dict[NodeId, CoordinateSet] = field(default_factory=dict)

    def add(self, log: TransactionLog) -> None:
        self.created.update(log.new_groups, log.new_arrays)
        self.deleted.update(log.deleted_groups, log.deleted_arrays)
        self.updated_groups.update(log.updated_groups)
        self.updated_arrays.update(log.updated_arrays)
        for updated in log.updated_chunks:
            coordinates = self.chunks.setdefault(updated.node_id, CoordinateSet())
            if not coordinates.add(updated.chunks):
                raise LogsInsufficientError(
                    f"the transaction logs give chunks of the node {updated.node_id} "
                    "different numbers of dimensions"
                )


def read_log_changes(
    repository: Repository, log_ids: Sequence[SnapshotId], progress: Progress
) -> LogChanges:
    changes = LogChanges()
    try:
        logs = repository.read_transaction_logs(log_ids)
        for log in progress.count(logs, "reading transaction logs", len(log_ids)):
            changes.add(log)
    except ObjectNotFoundError as error:
        raise LogsInsufficientError(f"the transaction log {error.path} is missing") from None
    except FormatError as error:
        raise LogsInsufficientError(f"a transaction log is damaged: {error.message}") from None
    except UnsupportedError as error:
        raise LogsInsufficientError(error.message) from None
    return changes


def diff_from_logs(
    changes: LogChanges, before: NodeTable, after: NodeTable, within: PathFilter
) -> NodeDiff:
    _check_account(changes, before, after)

    def path_of(node_id: NodeId) -> str | None:
        path = after.paths.get(node_id) or before.paths.get(node_id)
        return path if path is not None and within(path) else None

    def paths_of(node_ids: Iterable[NodeId]) -> tuple[str, ...]:
        return sorted_paths(path for path in map(path_of, node_ids) if path is not None)

    new = after.ids - before.ids
    deleted = before.ids - after.ids
    return NodeDiff(
        from_id=before.snapshot_id,
        to_id=after.snapshot_id,
        method="transaction_logs",
        new_groups=paths_of(new - after.arrays),
        new_arrays=paths_of(new & after.arrays),
        deleted_groups=paths_of(deleted - before.arrays),
        deleted_arrays=paths_of(deleted & before.arrays),
        updated_groups=paths_of(changes.updated_groups),
        updated_arrays=paths_of(changes.updated_arrays),
        moved_nodes=moves_between(before, after, within),
        metadata_changes=_metadata_changes(changes, before, after, within),
        arrays=_arrays(changes, before, after, within),
    )


def _check_account(changes: LogChanges, before: NodeTable, after: NodeTable) -> None:
    """Expiration in spec version 1 drops logs without a trace; the nodes give it away."""
    for there, other, recorded in (
        (after, before, changes.created),
        (before, after, changes.deleted),
    ):
        unrecorded = there.ids - other.ids - recorded
        if unrecorded:
            path = min(there.paths[node_id] for node_id in unrecorded)
            word = "creation" if there is after else "deletion"
            raise LogsInsufficientError(f"no transaction log records the {word} of {path}")
    known = changes.updated_groups | changes.updated_arrays | changes.created
    for node_id, document in after.documents.items():
        if before.documents.get(node_id, document) != document and node_id not in known:
            raise LogsInsufficientError(
                f"no transaction log records the change of the metadata of {after.paths[node_id]}"
            )


def _metadata_changes(
    changes: LogChanges, before: NodeTable, after: NodeTable, within: PathFilter
) -> tuple[MetadataChange, ...]:
    updated = (changes.updated_groups | changes.updated_arrays) & before.ids & after.ids
    nodes = (after.by_id[node_id] for node_id in updated)
    chosen = {node.path: node for node in nodes if within(node.path)}
    return tuple(
        compare_metadata(before.by_id[chosen[path].id], chosen[path])
        for path in sorted_paths(chosen)
    )


def _arrays(
    changes: LogChanges, before: NodeTable, after: NodeTable, within: PathFilter
) -> tuple[ArrayPair, ...]:
    pairs: list[ArrayPair] = []
    paired: set[NodeId] = set()
    for node_id, coordinates in changes.chunks.items():
        old, new = before.by_id.get(node_id), after.by_id.get(node_id)
        node = new or old
        # Where another array took the path, what was written there is what it has.
        if node is None or not within(node.path) or (new is None and node.path in after.by_path):
            continue
        pairs.append(ArrayPair(node.path, old, new, coordinates.rows()))
        paired.add(node_id)
    for node_id in before.arrays - after.ids - paired:
        old = before.by_id[node_id]
        if within(old.path):
            pairs.append(ArrayPair(old.path, old, None))
    return sorted_pairs(pairs)


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


def sorted_paths(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(paths), key=path_sort_key))


def sorted_pairs(pairs: Iterable[ArrayPair]) -> tuple[ArrayPair, ...]:
    """At one path there can be two: the array that is there, and behind it a deleted one."""
    return tuple(sorted(pairs, key=lambda pair: (path_sort_key(pair.path), pair.after is None)))


def moves_between(before: NodeTable, after: NodeTable, within: PathFilter) -> tuple[Move, ...]:
    """Every node that is in both versions at different paths."""
    moves = [
        Move(old, new, _followed_parent(old, new, before, after))
        for node_id, new in after.paths.items()
        if (old := before.paths.get(node_id, new)) != new and (within(old) or within(new))
    ]
    return tuple(sorted(moves, key=lambda move: path_sort_key(move.to)))


def _followed_parent(old: str, new: str, before: NodeTable, after: NodeTable) -> bool:
    old_parent, _, old_name = old.rpartition("/")
    new_parent, _, new_name = new.rpartition("/")
    was, is_now = before.by_path.get(old_parent or "/"), after.by_path.get(new_parent or "/")
    return old_name == new_name and was is not None and is_now is not None and was.id == is_now.id


def compare_metadata(before: NodeSnapshot, after: NodeSnapshot) -> MetadataChange:
    """The changed values in the order in which the documents have them."""
    if before.user_data == after.user_data:
        return MetadataChange(after.path, ())
    old, new = _decode(before.user_data), _decode(after.user_data)
    return MetadataChange(after.path, tuple(_diff("", old, new)))


def _decode(user_data: bytes) -> Any:
    """Metadata that is not JSON is one opaque value, so that its change is still reported."""
    try:
        return json.loads(user_data)
    except (ValueError, RecursionError):
        return user_data.decode(errors="backslashreplace")


def _diff(pointer: str, before: Any, after: Any) -> Iterator[ValueChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            step = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            yield from _diff(step, before.get(key, ABSENT), after.get(key, ABSENT))
    elif _are_objects(before) and _are_objects(after) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _diff(f"{pointer}/{index}", old, new)
    elif not _same(before, after):
        yield ValueChange(pointer, before, after)


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _same(before: Any, after: Any) -> bool:
    if before is ABSENT or after is ABSENT:
        return before is after
    # As text, since to Python True, 1 and 1.0 are equal and NaN is not equal to itself.
    return json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)
