"""Cycles in the ancestry of snapshots, which no writer makes and damage can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from icectl.model.ids import SnapshotId


def find_cycles(
    parents: Mapping[SnapshotId, SnapshotId | None],
) -> Iterator[list[SnapshotId]]:
    """The snapshots of each cycle, from child to parent. A parent that is not known ends a line."""
    done: set[SnapshotId] = set()
    for start in parents:
        walk: dict[SnapshotId, int] = {}
        next_id: SnapshotId | None = start
        while (
            next_id is not None
            and next_id in parents
            and next_id not in done
            and next_id not in walk
        ):
            walk[next_id] = len(walk)
            next_id = parents[next_id]
        if next_id is not None and next_id in walk:
            yield list(walk)[walk[next_id] :]
        done.update(walk)
