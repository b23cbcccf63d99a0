"""Damage to the state in the `repo` file, and what gc decides then."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from icectl.errors import FormatError, IcectlError
from icectl.model.ids import SnapshotId
from icectl.model.repo import RepoInfo
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.storage.local import LocalStorage
from tests.engines.comparisons import planned
from tests.failures import raises
from tests.gc.repositories import collect, files, now
from tests.official import open_official
from tests.official.histories import commit


def planned_paths(where: Path) -> set[str]:
    return set(planned(plan_run(LocalStorage(where), GcOptions(now())).plan))


def bend_parent(info: RepoInfo) -> RepoInfo:
    """The tip of main skips its parent."""
    by_id = {snapshot.id: snapshot for snapshot in info.snapshots}
    tip = next(ref.snapshot_id for ref in info.branches if ref.name == "main")
    parent = by_id[tip].parent_id
    assert parent is not None
    other = next(ref for ref in info.branches if ref.name == "other")
    bent = {tip: by_id[parent].parent_id, other.snapshot_id: by_id[parent].parent_id}
    return replace(
        info,
        snapshots=tuple(
            replace(snapshot, parent_id=bent.get(snapshot.id, snapshot.parent_id))
            for snapshot in info.snapshots
        ),
    )


def move_branch_back(info: RepoInfo, name: str = "other") -> RepoInfo:
    by_id = {snapshot.id: snapshot for snapshot in info.snapshots}
    branches = []
    for ref in info.branches:
        parent = by_id[ref.snapshot_id].parent_id
        assert parent is not None
        branches.append(replace(ref, snapshot_id=parent) if ref.name == name else ref)
    return replace(info, branches=tuple(branches))


def lose_branch(info: RepoInfo) -> RepoInfo:
    return replace(info, branches=tuple(ref for ref in info.branches if ref.name != "other"))


def check_every_bit(where: Path, stride: int) -> None:
    """Of `repo`: whatever is planned, nothing that is needed is."""
    live_files = files(where) - planned_paths(where)
    data = (where / "repo").read_bytes()
    for bit in range(0, 8 * len(data), stride):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (where / "repo").write_bytes(flipped)
        try:
            paths = planned_paths(where)
        except IcectlError:
            continue
        assert not paths & live_files, f"bit {bit}"


def check_refused(where: Path, *, commits: int) -> None:
    """gc finds the damage of `repo`, also after official commits, and deletes nothing."""
    for number in range(commits):
        with commit(open_official(where), f"after the damage {number}") as root:
            root.attrs["number"] = number
    before = files(where)
    with raises(FormatError, path="repo", remedy="compare-repo-file"):
        collect(where)
    assert files(where) == before


def damage_by_chance(info: RepoInfo, chance: random.Random) -> RepoInfo:
    """Another state that decodes as well: a ref, a parent or an entry of the ops log is wrong."""
    ids = [snapshot.id for snapshot in info.snapshots]

    def changed(items: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
        if not items:
            return items
        row = chance.randrange(len(items))
        return (*items[:row], *change(items[row]), *items[row + 1 :])

    def elsewhere(record: Any) -> Any:
        """With one of its ids, or none, replaced."""
        names = [f.name for f in fields(record) if isinstance(getattr(record, f.name), SnapshotId)]
        return replace(record, **{chance.choice(names): chance.choice(ids)}) if names else record

    match chance.randrange(6):
        case 0:
            return replace(info, branches=changed(info.branches, lambda ref: (elsewhere(ref),)))
        case 1:
            return replace(info, branches=changed(info.branches, lambda ref: ()))
        case 2:
            return replace(info, tags=changed(info.tags, lambda ref: (elsewhere(ref),)))
        case 3:
            return replace(
                info,
                snapshots=changed(
                    info.snapshots, lambda one: (replace(one, parent_id=chance.choice(ids)),)
                ),
            )
        case 4:
            return replace(info, latest_updates=changed(info.latest_updates, lambda one: ()))
        case _:
            return replace(
                info,
                latest_updates=changed(
                    info.latest_updates,
                    lambda one: (replace(one, update_type=elsewhere(one.update_type)),),
                ),
            )


def decide(where: Path) -> set[str] | str:
    try:
        return planned_paths(where)
    except FormatError as error:
        return type(error).__name__
