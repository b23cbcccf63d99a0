"""Branches of spec version 1 at an unreadable snapshot.

Only the snapshot files name parents there, so the ancestors of an unreadable one are unknown. Its
parent is a snapshot without children and refs; if there is exactly one, the branch can go back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from icectl.errors import FormatError, StorageError, UnsupportedError
from icectl.model.ids import SnapshotId
from icectl.ops.repair.step import Step, key_of
from icectl.ops.repair.survey import Survey
from icectl.pipeline.objects import ObjectKind
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

NOTE = (
    "in spec version 1 only a snapshot's own file names its parent, so nothing before an "
    "unreadable snapshot can be found from it; restore the file, or move the refs by hand"
)


def plan_branches_v1(repository: Repository, survey: Survey, notes: list[str]) -> Iterator[Step]:
    lost = {name: tip for name, tip in repository.branches().items() if tip in survey.unreadable}
    if survey.unreadable and len(survey.unreadable) > len(set(lost.values())):
        notes.append(NOTE)
    if len(set(lost.values())) != 1:
        if lost and NOTE not in notes:
            notes.append(NOTE)
        return
    ends = [*_find_ends(repository)]
    if len(ends) != 1:
        if NOTE not in notes:
            notes.append(NOTE)
        return
    (target,) = ends
    tip = next(iter(lost.values()))
    path = ObjectKind.SNAPSHOT.path(tip)
    is_tagged = tip in repository.tags().values()
    for number, name in enumerate(sorted(lost)):

        def reset(storage: Storage, name: str = name) -> None:
            open_repository(storage).refs.reset_branch(name, target, expect=tip)

        def simulate(state: Repository, name: str = name) -> Repository:
            return replace(state, branch_tips={**state.branch_tips, name: target})

        is_last = number == len(lost) - 1 and not is_tagged
        yield Step(
            "reset_branch",
            f"branch:{name}",
            f"reset the branch {name} to {target}, the only snapshot that it can have followed",
            reset,
            (f"the snapshot {tip}",),
            frozenset(
                key_of(problem)
                for problem, _ in survey.problems
                if is_last and problem.object == path
            ),
            simulate=simulate,
        )


def _find_ends(repository: Repository) -> Iterator[SnapshotId]:
    """Readable snapshots that are no other's parent, and that no ref reaches."""
    found: set[SnapshotId] = set()
    parents: set[SnapshotId] = set()
    for snapshot_id in repository.find_snapshots(""):
        try:
            info = repository.snapshot_info(snapshot_id)
        except (FormatError, UnsupportedError, StorageError):
            continue
        found.add(snapshot_id)
        if info.parent_id is not None:
            parents.add(info.parent_id)
    refs = {*repository.branches().values(), *repository.tags().values()}
    yield from sorted(found - parents - refs)
