"""A transaction log compared with the specification and with its snapshot and parent. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from icectl.checks import rules
from icectl.checks.order import first_disorder, first_row_in_disorder
from icectl.checks.problem import UNREADABLE, Found, Problem, unreadable, wrong_id
from icectl.format.transaction_log import decode_transaction_log
from icectl.model.ids import NodeId, SnapshotId
from icectl.model.node_table import NodeTable, is_array
from icectl.model.snapshot import ArrayNodeData, NodeSnapshot, path_sort_key
from icectl.model.transaction_log import MoveOperation, NodeType, TransactionLog
from icectl.repository.layout import STANDARD

_LISTS = {
    "new_groups": (False, "new"),
    "new_arrays": (True, "new"),
    "deleted_groups": (False, "deleted"),
    "deleted_arrays": (True, "deleted"),
    "updated_groups": (False, "updated"),
    "updated_arrays": (True, "updated"),
}
"""For each list: whether it contains arrays, and what happened to the nodes."""


@dataclass(frozen=True, slots=True)
class Step:
    """A snapshot and its parent."""

    before: NodeTable | None
    after: NodeTable
    is_first: bool
    is_direct: bool
    """Whether no snapshot between the two was removed, so the log alone explains the changes."""


def _path(snapshot_id: SnapshotId) -> str:
    return f"{STANDARD.transactions}/{snapshot_id}"


def check_log(data: bytes, snapshot_id: SnapshotId) -> tuple[TransactionLog | None, list[Problem]]:
    """The log, if it can be used, and all problems of its file alone."""
    path = _path(snapshot_id)
    try:
        log = decode_transaction_log(data)
    except UNREADABLE as error:
        return None, [unreadable(rules.LOG_UNREADABLE, path, error)]
    problems = [*check_log_id(log.id, snapshot_id)]
    if problems:
        return None, problems
    return log, [Problem(rule, path, detail, node) for rule, detail, node in _check_alone(log)]


def check_log_id(found: SnapshotId, expected: SnapshotId) -> Iterator[Problem]:
    if found != expected:
        yield wrong_id(rules.LOG_ID, _path(expected), found)


def _check_alone(log: TransactionLog) -> Iterator[Found]:
    for name in _LISTS:
        if first_disorder(getattr(log, name)) is not None:
            yield rules.LOG_ORDER, name, None
    if first_disorder([array.node_id for array in log.updated_chunks]) is not None:
        yield rules.LOG_ORDER, "the arrays of updated_chunks", None
    for array in log.updated_chunks:
        if first_row_in_disorder(array.chunks) is not None:
            yield rules.LOG_ORDER, f"the chunks of the array {array.node_id}", None
    moves = log.moved_nodes or ()
    if first_disorder([path_sort_key(move.to) for move in moves]) is not None:
        yield rules.LOG_ORDER, "moved_nodes", None
    for node_id in sorted(_nodes_twice(log)):
        yield rules.LOG_TWICE, f"the node {node_id}", None
    for field in log.unknown_fields:
        yield rules.NODE_UNKNOWN, f"unknown field {field.slot} of {field.table}", None


def _nodes_twice(log: TransactionLog) -> set[NodeId]:
    found: set[NodeId] = set()
    for kind in ("groups", "arrays"):
        new, deleted, updated = (
            set(getattr(log, f"{what}_{kind}")) for what in ("new", "deleted", "updated")
        )
        found |= (new & deleted) | (new & updated) | (deleted & updated)
    return found


def check_log_against(log: TransactionLog, step: Step) -> list[Problem]:
    path = _path(log.id)
    found = (*_check_claims(log, step), *_check_chunks(log, step), *_check_moves(log, step))
    return [Problem(rule, path, detail, node) for rule, detail, node in found]


def _check_claims(log: TransactionLog, step: Step) -> Iterator[Found]:
    if step.is_first:
        if any(getattr(log, name) for name in (*_LISTS, "updated_chunks", "moved_nodes")):
            yield rules.LOG_NOT_EMPTY, "it contains changes", None
        return
    # An amended commit may list a node as new and deleted, or new and updated.
    twice = _nodes_twice(log)
    for name, (array, what) in _LISTS.items():
        for node_id in getattr(log, name):
            if node_id in twice:
                continue
            node = step.after.by_id.get(node_id)
            old = step.before.by_id.get(node_id) if step.before is not None else None
            # A rebased session's change to a node that its new parent lacks has no effect.
            if what == "deleted" and node is not None:
                is_wrong = step.before is not None and step.is_direct and old is None
                rule = rules.LOG_CLAIMS if is_wrong else rules.LOG_NO_EFFECT
                yield rule, f"{name} lists it, but it exists", node.path
            elif what == "deleted":
                if step.before is None or not step.is_direct:
                    continue
                if old is None:
                    yield rules.LOG_NO_EFFECT, f"{name} lists {node_id}, which did not exist", None
                elif is_array(old) != array:
                    yield rules.LOG_CLAIMS, f"{name} lists it, but it had another type", old.path
            elif what == "updated" and node is None and (old is None or not step.is_direct):
                yield rules.LOG_NO_EFFECT, f"{name} lists {node_id}, which does not exist", None
            elif node is None:
                yield rules.LOG_CLAIMS, f"{name} lists {node_id}, which does not exist", None
            elif is_array(node) != array:
                yield rules.LOG_CLAIMS, f"{name} lists it, but it has another type", node.path
            elif what == "new" and old is not None:
                yield rules.LOG_CLAIMS, f"{name} lists it, but it existed before", node.path
            elif what == "updated" and old is None and step.before and step.is_direct:
                yield rules.LOG_CLAIMS, f"{name} lists it, but it did not exist before", node.path


def _check_chunks(log: TransactionLog, step: Step) -> Iterator[Found]:
    twice = _nodes_twice(log)
    for array in log.updated_chunks:
        if array.node_id in twice:
            continue
        node = step.after.by_id.get(array.node_id)
        if node is None and step.before is not None:
            node = step.before.by_id.get(array.node_id)
        if node is None:
            if step.is_direct:
                yield (
                    rules.LOG_NO_EFFECT,
                    f"updated_chunks lists {array.node_id}, which does not exist",
                    None,
                )
        elif not isinstance(node.node_data, ArrayNodeData):
            yield rules.LOG_CHUNKS, "it is not an array", node.path
        elif len(array.chunks) and array.chunks.shape[1] != len(node.node_data.num_chunks):
            yield (
                rules.LOG_CHUNKS,
                f"its coordinates have {array.chunks.shape[1]} dimensions",
                node.path,
            )


def _check_moves(log: TransactionLog, step: Step) -> Iterator[Found]:
    moves = log.moved_nodes or ()
    sources = {move.from_ for move in moves}
    if len({move.node_id for move in moves}) < len(moves) or len(sources) < len(moves):
        yield rules.LOG_MOVES, "a node is moved twice", None
    for move in moves:
        node = step.after.by_id.get(move.node_id)
        old = step.before.by_id.get(move.node_id) if step.before is not None else None
        if node is None and (old is None or not step.is_direct):
            yield (
                rules.LOG_NO_EFFECT,
                f"moved_nodes lists {move.node_id}, which does not exist",
                None,
            )
            continue
        if move.from_ == move.to:
            yield rules.LOG_MOVES, "it is moved to its own path", move.to
        is_stray = _is_stray(move, step)
        if is_stray:
            yield rules.LOG_NO_EFFECT, f"moved_nodes lists {move.node_id}", move.to
        elif node is None or node.path != move.to:
            yield rules.LOG_MOVES, f"{move.from_} was moved to this path, but is not there", move.to
        elif is_array(node) != (move.node_type == NodeType.ARRAY):
            yield rules.LOG_MOVES, "the move names another type of node", move.to
        if step.before is None or not step.is_direct:
            continue
        if not is_stray and (old is None or old.path != move.from_):
            yield rules.LOG_MOVES, f"it was moved from {move.from_}, but was not there", move.to
        if move.to in step.before.by_path and move.to not in sources:
            yield rules.LOG_MOVES, "it was moved onto an existing node", move.to


def _is_stray(move: MoveOperation, step: Step) -> bool:
    """Whether the commit did not change the node that the move names.

    After a rebase, a move by path affects the node that the new parent has at that path; the log
    still names the node that the session moved.
    """
    node = step.after.by_id.get(move.node_id)
    if step.before is None or not step.is_direct:
        return node is None or node.path not in (move.from_, move.to)
    old = step.before.by_id.get(move.node_id)
    if node is None or old is None:
        return node is old
    return old.path == node.path and node.path not in (move.from_, move.to)


def check_changes_logged(logs: Sequence[TransactionLog], step: Step) -> list[Problem]:
    """The logs between the two snapshots name every node that differs."""
    if step.before is None:
        return []
    path = STANDARD.snapshot(step.after.snapshot_id)
    new = _nodes_of(logs, "new_groups", "new_arrays")
    deleted = _nodes_of(logs, "deleted_groups", "deleted_arrays")
    updated = new | _nodes_of(logs, "updated_groups", "updated_arrays")
    before, after = step.before.by_id, step.after.by_id
    found: list[tuple[str, str]] = []
    for node_id, node in after.items():
        old = before.get(node_id)
        if old is None:
            if node_id not in new:
                found.append((node.path, "it is new"))
        elif old is not node and old != node:
            found += (
                (node.path, what)
                for what, is_logged in _differences(old, node, updated, logs)
                if not is_logged
            )
    found += (
        (old.path, "it was deleted")
        for node_id, old in before.items()
        if node_id not in after and node_id not in deleted
    )
    detail = "{}, but no transaction log records it"
    return [Problem(rules.LOG_OMITS, path, detail.format(what), node) for node, what in found]


def _differences(
    old: NodeSnapshot, new: NodeSnapshot, updated: set[NodeId], logs: Sequence[TransactionLog]
) -> Iterator[tuple[str, bool]]:
    if old.path != new.path:
        yield f"it was moved from {old.path}", _is_move_logged(old, new, logs)
    if is_array(old) != is_array(new):
        yield "its type changed", False
    if old.user_data != new.user_data:
        yield "its zarr.json changed", new.id in updated


def _is_move_logged(old: NodeSnapshot, new: NodeSnapshot, logs: Sequence[TransactionLog]) -> bool:
    """Whether the logs name the node, or move its path or a parent group.

    A rebased move also moves nodes that another commit put into the group or at the path, and its
    log does not name these.
    """
    path = old.path
    for log in logs:
        moves = {move.from_: move.to for move in log.moved_nodes or ()}
        if any(move.node_id == new.id for move in log.moved_nodes or ()):
            return True
        above = path
        while above and above not in moves:
            above = above.rpartition("/")[0]
        if above:
            path = moves[above] + path[len(above) :]
    return path == new.path


def _nodes_of(logs: Iterable[TransactionLog], *names: str) -> set[NodeId]:
    return {node_id for log in logs for name in names for node_id in getattr(log, name)}
