"""The nodes of a version by id and by path, and what both ways of comparing need of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from icectl.model.node_table import NodeTable
from icectl.model.snapshot import path_sort_key
from icectl.ops.diff.result import ArrayPair, Move

PathFilter = Callable[[str], bool]


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
