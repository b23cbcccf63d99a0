"""Repair a repository, and compare what the official package reads before and after."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from icectl.checks.rules import Level
from icectl.cli.main import run
from icectl.ops.repair import NamedStep
from icectl.ops.repair.run import (
    RepairOptions,
    RepairResult,
    execute_repair,
    plan_repair,
)
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.storage.local import LocalStorage
from tests.official import ic, zarr

LOSSY = frozenset(NamedStep)


def repair(where: Path, chosen: frozenset[str] = frozenset(), *, dry_run: bool = False) -> Any:
    storage = LocalStorage(where)
    plan = plan_repair(storage, RepairOptions(chosen=chosen), storage.read_clock())
    if dry_run:
        return plan.result(dry_run=True, left=plan.left)
    return execute_repair(storage, plan)


def findings(where: Path) -> list[tuple[str, str, str]]:
    result, _ = validate(LocalStorage(where), ValidateOptions(level=Level.CHUNKS))
    return [(one.code, one.object, one.detail) for one in result.findings if one.severity != "info"]


def content(where: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(where)): path.read_bytes()
        for path in sorted(where.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock")
    }


def official(where: Path) -> ic.Repository:
    return ic.Repository.open(ic.local_filesystem_storage(str(where)))


def read_version(repo: ic.Repository, **version: str) -> dict[str, Any]:
    """Every array and attribute, except virtual chunks, as the official package reads them."""
    try:
        root = zarr.open_group(repo.readonly_session(**version).store, mode="r")
    except zarr.errors.GroupNotFoundError:
        return {}  # the first snapshot
    found: dict[str, Any] = {"/": dict(root.attrs)}
    for name, node in root.members(max_depth=None):
        found[name] = dict(node.attrs)
        if isinstance(node, zarr.Array) and name != "virtual":
            found[f"{name}[]"] = node[...].tobytes()
    return found


def versions(repo: ic.Repository) -> dict[str, dict[str, Any]]:
    """Each snapshot that a branch or tag reaches."""
    ids = {
        one.id
        for kind, names in (("branch", repo.list_branches()), ("tag", repo.list_tags()))
        for name in names
        for one in repo.ancestry(**{kind: name})
    }
    return {id_: read_version(repo, snapshot_id=id_) for id_ in sorted(ids)}


def lost_chunks(result: RepairResult) -> Iterator[tuple[str, tuple[int, ...]]]:
    for step in result.steps:
        for array in step.arrays:
            assert len(array.chunks) == array.num_chunks
            for chunk in array.chunks:
                yield array.path.lstrip("/"), chunk


def check_survivors(
    before: dict[str, dict[str, Any]], where: Path, result: RepairResult
) -> set[str]:
    """What the official package reads is what it read before, except for what the plan lost.

    Returns the ids of the versions that it reads.
    """
    after = versions(official(where))
    released = {
        id_ for id_ in before if any(id_ in loss for step in result.steps for loss in step.loses)
    }
    for id_, content_before in before.items():
        if id_ in after:
            assert after[id_] == content_before, id_
        else:
            assert id_ in released, id_
    return {*after}


def commits_work(where: Path) -> None:
    """Official commits, diffs and both collections, which change nothing that can be read."""
    repo = official(where)
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").attrs["after"] = "repair"
    session.commit("after the repair")
    for one in repo.ancestry(branch="main"):
        if one.parent_id is not None:
            repo.diff(from_snapshot_id=one.parent_id, to_snapshot_id=one.id)
    before = versions(repo)
    collect = ["gc", "--older-than", "0s", "--allow-recent", "--yes", "--quiet", "-r", str(where)]
    assert run(collect, {"HOME": str(where)}) == 0
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1)
    official(where).garbage_collect(now)
    assert versions(official(where)) == before
