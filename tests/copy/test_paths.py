"""Copies of some groups and arrays of the newest versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icectl.errors import RefNotFoundError, RefusedError
from icectl.ops.copy.state import Selection
from tests.command_line import Icectl
from tests.copy.repositories import assert_sound, copy
from tests.gc.repositories import collect, official_gc
from tests.official import ic, open_official, zarr
from tests.official.histories import commit, create

INNER = Selection(paths=("/kept/inner",))


def groups_of_arrays(where: Path, spec_version: int = 2) -> ic.Repository:
    repo = create(where, spec_version)
    with commit(repo, "arrays") as root:
        for group in ("kept", "left"):
            for name in ("inner", "other"):
                path = f"{group}/{name}"
                array = root.create_array(path, shape=(40,), chunks=(4,), dtype="i4")
                array[:20] = np.arange(20) + len(path)
        root["kept"].attrs["units"] = "K"
        root.create_array("inline", shape=(2,), chunks=(1,), dtype="i1")[:] = 7
    repo.create_branch("dev", repo.lookup_branch("main"))
    repo.create_tag("v1", repo.lookup_branch("main"))
    with commit(repo, "more") as root:
        root["kept/inner"][20:] = 5
        root["left/inner"][:] = 6
    return repo


def nodes(repo: ic.Repository, **ref: str) -> dict[str, Any]:
    root = zarr.open_group(repo.readonly_session(**ref).store, mode="r")
    return {
        path: (dict(node.attrs), node[:].tolist() if isinstance(node, zarr.Array) else None)
        for path, node in root.members(max_depth=None)
    }


@pytest.mark.parametrize("version", [1, 2])
def test_the_nodes_and_what_is_above_them(version: int, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    repo = groups_of_arrays(source, version)
    planned = copy(source, target, selection=INNER, dry_run=True)
    assert not target.exists()
    done = copy(source, target, selection=INNER, verify="bytes")
    assert done.copied == planned.copied
    part = open_official(target)
    for ref in ({"branch": "main"}, {"branch": "dev"}, {"tag": "v1"}):
        whole = nodes(repo, **ref)
        assert nodes(part, **ref) == {path: whole[path] for path in ("kept", "kept/inner")}
    assert [one.message for one in part.ancestry(branch="main")][:1] == ["more"]
    assert len([*part.ancestry(branch="main")]) == 2
    assert_sound(target)
    assert copy(source, target, selection=INNER).is_up_to_date


@pytest.mark.parametrize("version", [1, 2])
def test_life_goes_on(version: int, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    repo = groups_of_arrays(source, version)
    copy(source, target, selection=INNER)
    with commit(repo, "newest") as root:
        root["kept/inner"][:4] = 9
    assert copy(source, target, selection=INNER).objects
    part = open_official(target)
    assert nodes(part, branch="main")["kept/inner"] == nodes(repo, branch="main")["kept/inner"]
    before = nodes(part, branch="main")
    collect(target)
    official_gc(target)
    assert_sound(target)
    assert nodes(open_official(target), branch="main") == before
    with commit(open_official(target), "by others") as root:
        root.attrs["x"] = 1
    with pytest.raises(RefusedError):
        copy(source, target, selection=INNER)


@pytest.mark.parametrize("version", [1, 2])
def test_a_whole_copy_becomes_a_part(version: int, tmp_path: Path) -> None:
    """Its tags move, which no other operation does."""
    source, target = tmp_path / "source", tmp_path / "target"
    groups_of_arrays(source, version)
    copy(source, target)
    copy(source, target, selection=INNER)
    part = open_official(target)
    assert (
        nodes(part, tag="v1").keys() == nodes(part, branch="dev").keys() == {"kept", "kept/inner"}
    )
    assert_sound(target)
    assert copy(source, target, selection=INNER).is_up_to_date
    collect(target)
    assert_sound(target)


@pytest.mark.parametrize("version", [1, 2])
def test_a_branch_that_was_reset(version: int, tmp_path: Path) -> None:
    """The original of the tip of the target is not reachable at the source any more."""
    source, target = tmp_path / "source", tmp_path / "target"
    repo = groups_of_arrays(source, version)
    copy(source, target, selection=INNER)
    repo.reset_branch("main", repo.lookup_branch("dev"))
    with commit(repo, "instead") as root:
        root["kept/inner"][:4] = 9
    copy(source, target, selection=INNER)
    part = open_official(target)
    assert nodes(part, branch="main")["kept/inner"] == nodes(repo, branch="main")["kept/inner"]
    assert_sound(target)


def test_several_paths_are_one_selection(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    groups_of_arrays(source)
    copy(source, target, selection=Selection(branches=("main",), paths=("/left", "/inline")))
    part = open_official(target)
    assert nodes(part, branch="main").keys() == {"left", "left/inner", "left/other", "inline"}
    assert (part.list_branches(), part.list_tags()) == ({"main"}, set())
    assert_sound(target)


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_repository(version: int, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    create(source, version)
    assert copy(source, target, selection=Selection(paths=("/",))).is_new
    assert_sound(target)


def test_refusals(tmp_path: Path, icectl: Icectl) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    groups_of_arrays(source)
    with pytest.raises(RefNotFoundError):
        copy(source, target, selection=Selection(paths=("/nothing",)))
    words = ("copy", str(source), str(target), "--path", "kept/")
    assert icectl(*words, "--shallow", "1").code == 2
    assert icectl(*words, "--engine", "spark").code == 2
    assert icectl("copy", str(source), str(target), "--path", "").code == 2
    assert not target.exists()
    assert icectl(*words).code == 0
