"""Lost chunks and manifests: a new commit without them, which keeps everything else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.official import ic, zarr
from tests.official.histories import commit, create
from tests.repair.helpers import (
    LOSSY,
    commits_work,
    findings,
    lost_chunks,
    official,
    repair,
    versions,
)
from tests.validate.damage import Patient, copied_with_source

DROP = frozenset({"drop_lost_references"})


def arrays_of(repo: ic.Repository, **version: str) -> dict[str, Any]:
    root = zarr.open_group(repo.readonly_session(**version).store, mode="r")
    return {
        name: node
        for name, node in root.members(max_depth=None)
        if isinstance(node, zarr.Array) and name != "virtual"
    }


def check_fill(before: dict[str, np.ndarray], repo: ic.Repository, result: Any, branch: str) -> int:
    """Only the chunks that the plan names are fill value; returns their number."""
    lost: dict[str, list[tuple[int, ...]]] = {}
    step = next(one for one in result.steps if one.object == f"branch:{branch}")
    for array in step.arrays:
        assert len(array.chunks) == array.num_chunks
        lost[array.path.lstrip("/")] = list(array.chunks)
    for name, array in arrays_of(repo, branch=branch).items():
        expected = before[name].copy()
        for chunk in lost.get(name, []):
            place = tuple(
                slice(index * size, (index + 1) * size)
                for index, size in zip(chunk, array.chunks, strict=True)
            )
            expected[place] = array.fill_value
        np.testing.assert_array_equal(array[...], expected, err_msg=name)
    return sum(map(len, lost.values()))


def losses(where: Path) -> Iterator[Path]:
    yield from sorted((where / "manifests").iterdir())
    yield from sorted((where / "chunks").iterdir())


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("kind", ["manifests", "chunks"])
def test_each_file(
    kind: str, spec_version: int, whole: Path, whole_v1: Path, tmp_path: Path
) -> None:
    """Every manifest and every chunk of the repository is lost once."""
    built = whole if spec_version == 2 else whole_v1
    names = sorted(path.name for path in (built / kind).iterdir())
    repo = official(built)
    before = {
        branch: {name: array[...] for name, array in arrays_of(repo, branch=branch).items()}
        for branch in ("main", "dev")
    }
    all_before = versions(repo)
    for number, name in enumerate(names[:: 1 if kind == "manifests" else 7]):
        where = copied_with_source(built, tmp_path / str(number))
        (where / kind / name).unlink()
        done = repair(where, DROP)
        repo = official(where)
        for step in done.steps:
            if step.action == "drop_lost_references":
                branch = step.object.removeprefix("branch:")
                lost = check_fill(before[branch], repo, done, branch)
                assert lost == 1 or kind == "manifests"
        # What is left is in older versions.
        tips = {repo.lookup_branch(branch) for branch in ("main", "dev")}
        after = versions_of(repo, tips)
        assert len(after) == 2 or len(tips) == 1
        if spec_version == 2:
            done = repair(where, LOSSY)
            assert done.left == ()
            assert findings(where) == []
            commits_work(where)
    assert all_before


def versions_of(repo: ic.Repository, ids: set[str]) -> dict[str, Any]:
    return {
        id_: {name: array[...] for name, array in arrays_of(repo, snapshot_id=id_).items()}
        for id_ in ids
    }


def test_a_lost_manifest_costs_only_what_changed(whole: Path, tmp_path: Path) -> None:
    """The rest of its references is in an older version."""
    where = copied_with_source(whole, tmp_path / "repo")
    before = {name: a[...] for name, a in arrays_of(official(where), branch="main").items()}
    (where / "manifests" / Patient(where).manifest_of("/g/native")).unlink()
    done = repair(where, DROP)
    assert set(lost_chunks(done)) == {("g/native", (0, 0))}
    assert check_fill(before, official(where), done, "main") == 1
    assert check_fill(before | {"split": np.arange(32)}, official(where), done, "dev") == 1


def test_a_split_manifest_and_a_resized_array(tmp_path: Path) -> None:
    where = tmp_path / "repo"
    splitting = ic.ManifestSplittingConfig.from_dict(
        {ic.ManifestSplitCondition.AnyArray(): {ic.ManifestSplitDimCondition.Any(): 3}}
    )
    repo = create(where, 2, manifest=ic.ManifestConfig(splitting=splitting))
    with commit(repo, "array") as root:
        root.create_array("a", shape=(40, 4), chunks=(4, 2), dtype="i4")[...] = 1
    with commit(repo, "grown") as root:
        root["a"].resize((48, 4))
        root["a"][44:, :2] = 2
    with commit(repo, "written") as root:
        root["a"][:4] = 3
    before = {"a": arrays_of(official(where), branch="main")["a"][...]}
    for manifest in sorted((where / "manifests").iterdir()):
        data = manifest.read_bytes()
        manifest.unlink()
        tip = official(where).lookup_branch("main")
        done = repair(where, DROP)
        if any(step.action in DROP for step in done.steps):
            check_fill(before, official(where), done, "main")
            official(where).reset_branch("main", tip)
        manifest.write_bytes(data)


def test_a_lost_manifest_that_costs_nothing(tmp_path: Path) -> None:
    """A manifest that only repeats the references of an older one: a rewrite, for example."""
    where = tmp_path / "repo"
    repo = create(where, 2)
    with commit(repo, "array") as root:
        root.create_array("a", shape=(40,), chunks=(4,), dtype="i4")[...] = 1
    first = {path.name for path in (where / "manifests").iterdir()}
    repo.rewrite_manifests("rewritten", branch="main")
    (rewritten,) = {path.name for path in (where / "manifests").iterdir()} - first
    (where / "manifests" / rewritten).unlink()
    done = repair(where)
    (step,) = [one for one in done.steps if one.action in DROP]
    assert (step.done, step.loses, step.by_name) == (True, (), False)
    assert (arrays_of(official(where), branch="main")["a"][...] == 1).all()
    assert repair(where, LOSSY).left == ()
    commits_work(where)
