"""The history that is validated, and whether it contains cycles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from icectl.checks.problem import UNREADABLE, Problem
from icectl.checks.snapshot import check_ancestry_v1
from icectl.errors import ObjectNotFoundError
from icectl.model.ids import SnapshotId
from icectl.model.repo import parents_of
from icectl.repository.history import History, find_reachable
from icectl.repository.repository import Repository


def read_history(repository: Repository, refs: Collection[str]) -> History:
    """The history that the refs lead to; without refs, all of it.

    Up to spec version 1 the snapshot files name their parents; an unreadable one ends its ancestry
    here, and the check of that file reports why.
    """
    tips = [repository.resolve(ref).snapshot_id for ref in refs]
    branches, tags = repository.branches(), repository.tags()
    if repository.lists_snapshots:
        parents = parents_of(repository.all_snapshots())
    else:
        parents = _read_parents(repository, tips or [*branches.values(), *tags.values()])
    history = History(parents, branches, tags)
    return history.restricted_to(tips) if refs else history


def check_ancestry(repository: Repository, history: History) -> Iterator[Problem]:
    """Cycles in the parents that snapshot files name; those of the repo file are found there."""
    if repository.lists_snapshots:
        return
    yield from check_ancestry_v1(history.parents, repository.layout)


def _read_parents(
    repository: Repository, tips: Iterable[SnapshotId]
) -> dict[SnapshotId, SnapshotId | None]:
    parents: dict[SnapshotId, SnapshotId | None] = {}

    def parent_of(snapshot_id: SnapshotId) -> SnapshotId | None:
        try:
            parents[snapshot_id] = repository.snapshot_info(snapshot_id).parent_id
        except (*UNREADABLE, ObjectNotFoundError):
            parents[snapshot_id] = None
        return parents[snapshot_id]

    find_reachable(tips, parent_of)
    return parents
