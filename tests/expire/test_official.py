"""A cutoff alone does exactly what the official expiration does, V1 and V2."""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icectl.ops.expire.execute import execute_expiration
from icectl.ops.expire.plan import plan_for
from icectl.ops.expire.policy import Policy
from icectl.repository.open import open_repository
from icectl.storage.open import open_storage
from tests.official.histories import commit, create, random_history
from tests.official.reading import open_official
from tests.repetition import repeated

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def expire_ours(path: Path, cutoff: datetime, **flags: bool) -> Any:
    repository = open_repository(open_storage(str(path), {}))
    policy = Policy(older_than=(cutoff - EPOCH) // timedelta(microseconds=1), **flags)
    return execute_expiration(repository, policy, plan_for(repository, policy)).plan


def official_view(path: Path) -> dict[str, Any]:
    """Refs, ancestries and diffs as the official package reads them."""
    repo = open_official(path)
    view: dict[str, Any] = {
        "branches": {name: repo.lookup_branch(name) for name in repo.list_branches()},
        "tags": {name: repo.lookup_tag(name) for name in repo.list_tags()},
    }
    for kind in ("branches", "tags"):
        for name, tip in view[kind].copy().items():
            ancestry = [snapshot.id for snapshot in repo.ancestry(snapshot_id=tip)]
            view[f"{kind}:{name}"] = ancestry
            if len(ancestry) > 1:
                diff = repo.diff(from_snapshot_id=ancestry[-1], to_snapshot_id=tip)
                view[f"diff:{kind}:{name}"] = repr(diff)
    return view


def pick_cutoff(path: Path, choose: random.Random) -> datetime:
    repo = open_official(path)
    times = sorted(
        snapshot.written_at
        for name in repo.list_branches()
        for snapshot in repo.ancestry(branch=name)
    )
    return choose.choice(times) + timedelta(microseconds=choose.choice([0, 1]))


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("seed", repeated(range(3), range(3, 6)))
def test_random_histories(tmp_path: Path, spec_version: int, seed: int) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    random_history(theirs, seed=seed, steps=25, spec_version=spec_version)
    choose = random.Random(seed)
    for _ in range(3):
        shutil.rmtree(ours, ignore_errors=True)
        shutil.copytree(theirs, ours)
        cutoff = pick_cutoff(theirs, choose)
        flags = {
            "delete_expired_branches": choose.random() < 0.5,
            "delete_expired_tags": choose.random() < 0.5,
        }
        released = open_official(theirs).expire_snapshots(cutoff, **flags)
        plan = expire_ours(ours, cutoff, **flags)
        assert {str(one) for one in plan.released} == released
        assert official_view(ours) == official_view(theirs)
        collected = datetime.now(UTC) + timedelta(seconds=1)
        if choose.random() < 0.5:
            for path in (ours, theirs):
                open_official(path).garbage_collect(collected)
            assert official_view(ours) == official_view(theirs)
        with commit(open_official(theirs), "between the rounds") as root:
            root.attrs["round"] = choose.random()


@pytest.mark.parametrize("spec_version", [1, 2])
def test_the_official_package_goes_on(tmp_path: Path, spec_version: int) -> None:
    repo = create(tmp_path, spec_version)
    for number in range(4):
        with commit(repo, f"commit {number}") as root:
            root.attrs["number"] = number
    plan = expire_ours(tmp_path, datetime.now(UTC) + timedelta(seconds=1))
    # The official V1 counts the tip itself as released, though the branch keeps it.
    assert len(plan.released) == (4 if spec_version == 1 else 3)
    assert len(plan.gone) == 3
    repo = open_official(tmp_path)
    assert [snapshot.message for snapshot in repo.ancestry(branch="main")] == [
        "commit 3",
        "Repository initialized",
    ]
    with commit(repo, "afterwards") as root:
        assert root.attrs["number"] == 3
    if spec_version == 2:
        kinds = [type(update.kind).__name__ for update in repo.ops_log()]
        assert "ExpirationRan" in kinds[1]
    assert expire_ours(tmp_path, datetime(2020, 1, 1, tzinfo=UTC)).is_empty
