"""Each damage that repair covers: repaired, nothing is found, and what survives is unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icectl.checks.rules import Level
from icectl.ops.repair.run import (
    NAMED,
    RepairOptions,
    RepairResult,
    execute_repair,
    plan_repair,
)
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.storage.local import LocalStorage
from tests.official import built, ic, zarr
from tests.validate.damage import Patient, build, copied_with_source
from tests.validate.damages import DAMAGES

REPAIRED = (
    "ICE0001", "ICE0002", "ICE0003", "ICE0004", "ICE0005", "ICE0006", "ICE0007", "ICE0008",
    "ICE0009", "ICE0013", "ICE0017", "ICE0020", "ICE0022",
    "ICE0101", "ICE0102", "ICE0103",
    "ICE0201", "ICE0202", "ICE0203", "ICE0204", "ICE0206", "ICE0209",
    "ICE0301", "ICE0302", "ICE0303", "ICE0304", "ICE0309",
    "ICE0316", "ICE0401", "ICE0402", "ICE0501",
)  # fmt: skip
REPAIRED_V1 = ("ICE0301",)
LOSSY = frozenset(NAMED)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 2)


@pytest.fixture(scope="session")
def whole_v1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 1)


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


def check_survivors(before: dict[str, dict[str, Any]], where: Path, result: RepairResult) -> None:
    """What the official package reads is what it read before, except for what the plan lost."""
    repo = official(where)
    after = versions(repo)
    released = {
        id_ for id_ in before if any(id_ in loss for step in result.steps for loss in step.loses)
    }
    for id_, content_before in before.items():
        if id_ in after:
            assert after[id_] == content_before, id_
        else:
            assert id_ in released, id_


def commits_work(where: Path) -> None:
    repo = official(where)
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").attrs["after"] = "repair"
    session.commit("after the repair")
    parent = list(repo.ancestry(branch="main"))[1]
    assert repo.diff(from_snapshot_id=parent.id, to_branch="main") is not None
    for one in repo.ancestry(branch="main"):
        if one.parent_id is not None:
            repo.diff(from_snapshot_id=one.parent_id, to_snapshot_id=one.id)


@pytest.mark.parametrize("code", REPAIRED)
def test_damage_is_repaired(code: str, whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    before = versions(official(where))
    DAMAGES[code](Patient(where))
    damaged = content(where)
    assert findings(where)
    plan = repair(where, LOSSY, dry_run=True)
    assert content(where) == damaged
    assert plan.left == (), plan
    done = repair(where, LOSSY)
    assert done.left == (), done
    assert [step.done for step in done.steps] == [True] * len(plan.steps)
    assert [(one.action, one.loses) for one in plan.steps] == [
        (one.action, one.loses) for one in done.steps
    ]
    assert findings(where) == []
    check_survivors(before, where, done)
    assert repair(where, LOSSY).steps == ()
    commits_work(where)
    assert findings(where) == []


@pytest.mark.parametrize("code", sorted(DAMAGES.keys() - set(REPAIRED)))
def test_what_cannot_be_repaired_is_left_as_it_was(code: str, whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    DAMAGES[code](Patient(where))
    damaged, found = content(where), findings(where)
    done = repair(where, LOSSY)
    assert done.steps == (), done.steps
    assert content(where) == damaged
    assert sorted((one.code, one.object, one.detail) for one in done.left) == sorted(found)


@pytest.mark.parametrize("code", REPAIRED)
def test_nothing_is_lost_that_was_not_asked_for(code: str, whole: Path, tmp_path: Path) -> None:
    """Without `--step`, tags and readable versions stay."""
    where = copied_with_source(whole, tmp_path / "repo")
    DAMAGES[code](Patient(where))
    done = repair(where)
    assert all(step.done != step.by_name for step in done.steps)
    again = repair(where)
    assert [step for step in again.steps if step.done] == []
    assert {one.code for one in again.left} == {one.code for one in done.left}
