"""Copies of some refs, and of a part of the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from icectl.errors import RefNotFoundError, RefusedError
from icectl.ops.copy.state import Selection
from tests.copy.repositories import assert_equal, assert_part, assert_sound, copy
from tests.gc.repositories import collect, messy_repository, official_gc, random_repository
from tests.official import open_official, read_everything
from tests.official.histories import commit, create, linear_history

SOURCES = [
    pytest.param((messy_repository, 2), id="messy"),
    *(pytest.param((random_repository, 7400 + n, 40, 2), id=f"random-{n}") for n in range(3)),
    pytest.param((messy_repository, 1), id="messy-v1"),
    pytest.param((random_repository, 7410, 40, 1), id="random-v1"),
]
SELECTIONS = [
    pytest.param(Selection(branches=("main",)), id="main"),
    pytest.param(Selection(branches=("[!m]*",), tags=("*",)), id="not-main"),
    pytest.param(Selection(shallow=1), id="shallow-1"),
    pytest.param(Selection(shallow=3), id="shallow-3"),
    pytest.param(Selection(branches=("main",), tags=("*",), shallow=2), id="both"),
]


@pytest.mark.parametrize("source", SOURCES, indirect=True)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_parts_are_sound(selection: Selection, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    try:
        copy(source, target, selection=selection, verify="sizes")
    except RefNotFoundError:
        assert not target.exists()
        return
    is_main_selected = selection.has_branch("main")
    repo, whole = open_official(target), open_official(source)
    names = {name for name in whole.list_branches() if selection.has_branch(name)}
    assert repo.list_branches() == names | {"main"}
    assert repo.list_tags() == {name for name in whole.list_tags() if selection.has_tag(name)}
    if is_main_selected:
        assert_part(source, target)
    assert_sound(target)
    assert copy(source, target, selection=selection).is_up_to_date
    with commit(repo, "on the copy") as root:
        root.attrs["x"] = 1
    collect(target)
    assert_sound(target)
    before = read_everything(open_official(target))
    official_gc(target)
    assert read_everything(open_official(target)) == before


def test_a_whole_copy_that_is_cut_is_told(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    linear_history(source, 6)
    copy(source, target)
    (note,) = copy(source, target, selection=Selection(shallow=2), dry_run=True).notes
    assert "4" in note
    assert copy(source, target).notes == ()


def test_a_shallow_copy_keeps_the_changes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    repo = linear_history(source, 6)
    copy(source, target, selection=Selection(shallow=2))
    tips = [*open_official(target).ancestry(branch="main")]
    assert [one.id for one in tips[:2]] == [one.id for one in repo.ancestry(branch="main")][:2]
    assert len(tips) == 3
    whole = repo.diff(from_snapshot_id=tips[-1].id, to_branch="main")
    part = open_official(target).diff(from_snapshot_id=tips[-1].id, to_branch="main")
    assert (part.new_arrays, part.updated_chunks) == (whole.new_arrays, whole.updated_chunks)
    # It moves on with its source.
    with commit(repo, "next") as root:
        root.attrs["x"] = 1
    copy(source, target, selection=Selection(shallow=2))
    assert len([*open_official(target).ancestry(branch="main")]) == 3
    assert_part(source, target)
    assert_sound(target)
    collect(target)
    assert_sound(target)


def test_since(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    repo = linear_history(source, 5)
    third = [*repo.ancestry(branch="main")][2]
    since = int(third.written_at.timestamp() * 1_000_000)
    copy(source, target, selection=Selection(since=since))
    assert len([*open_official(target).ancestry(branch="main")]) == 4
    assert_sound(target)


def test_refs_that_are_not_selected_stay(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    repo = create(source)
    for name in ("a", "b"):
        repo.create_branch(name, repo.lookup_branch("main"))
        with commit(repo, name, branch=name) as root:
            root.attrs["name"] = name
    copy(source, target, selection=Selection(branches=("a",)))
    copy(source, target, selection=Selection(branches=("b",)))
    assert open_official(target).list_branches() == {"main", "a", "b"}
    assert_part(source, target)
    assert_sound(target)
    copy(source, target)
    assert copy(source, target).is_up_to_date


def test_refs_that_are_not_selected_keep_their_history(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    repo = linear_history(source, 4)
    repo.create_branch("other", repo.lookup_branch("main"))
    copy(source, target)
    before = [one.id for one in open_official(target).ancestry(branch="other")]
    only_tip = Selection(branches=("main",), shallow=1)
    copy(source, target, selection=only_tip)
    collect(target)
    assert [one.id for one in open_official(target).ancestry(branch="other")] == before
    assert copy(source, target, selection=only_tip).is_up_to_date
    assert_equal(source, target)
    assert_sound(target)


@pytest.mark.parametrize("version", [1, 2])
def test_tags_that_are_not_selected_stay(version: int, tmp_path: Path) -> None:
    """Also if the source deleted them."""
    source, target = tmp_path / "source", tmp_path / "target"
    repo = linear_history(source, 2, version)
    for name in ("gone", "also"):
        repo.create_tag(name, repo.lookup_branch("main"))
    copy(source, target)
    for name in ("gone", "also"):
        repo.delete_tag(name)
    with commit(repo, "more") as root:
        root.attrs["x"] = 1
    only_main = Selection(branches=("main",), tags=("also",))
    copy(source, target, selection=only_main)
    assert open_official(target).list_tags() == {"gone"}
    assert copy(source, target, selection=only_main).is_up_to_date
    assert_sound(target)
    copy(source, target)
    assert_equal(source, target)


def test_unknown_refs(source: Path, tmp_path: Path) -> None:
    with pytest.raises(RefNotFoundError):
        copy(source, tmp_path / "target", selection=Selection(branches=("none",)))


class TestVersion1:
    """The history is in the snapshot files, some of which are written again."""

    def test_it_moves_on_with_its_source(self, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = linear_history(source, 6, 1)
        only_two = Selection(shallow=2)
        for number in range(3):
            done = copy(source, target, selection=only_two, verify="bytes")
            assert done.spec_version == 1
            part = [one.id for one in open_official(target).ancestry(branch="main")]
            whole = [one.id for one in repo.ancestry(branch="main")]
            assert part == [*whole[:2], whole[-1]]
            assert_part(source, target)
            assert_sound(target)
            assert copy(source, target, selection=only_two).is_up_to_date
            with commit(repo, "next") as root:
                root.attrs["x"] = number
        collect(target)
        assert_sound(target)
        copy(source, target)
        assert_equal(source, target)

    def test_a_part_becomes_whole(self, tmp_path: Path) -> None:
        """The refs are the same already."""
        source, target = tmp_path / "source", tmp_path / "target"
        linear_history(source, 6, 1)
        copy(source, target, selection=Selection(shallow=2))
        assert copy(source, target).copied["snapshots"] == 5
        assert_equal(source, target)
        assert copy(source, target).is_up_to_date
        # The files of the older ones stay when it is cut.
        copy(source, target, selection=Selection(shallow=2))
        assert copy(source, target).copied["snapshots"] == 1
        assert_equal(source, target)

    def test_a_whole_copy_is_cut(self, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        linear_history(source, 6, 1)
        copy(source, target)
        planned = copy(source, target, selection=Selection(shallow=2), dry_run=True)
        done = copy(source, target, selection=Selection(shallow=2))
        assert done.copied == planned.copied and done.copied["snapshots"] == 1
        (note,) = done.notes
        assert "4" in note
        assert len([*open_official(target).ancestry(branch="main")]) == 3

    def test_refs_that_are_not_selected_keep_their_history(self, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = linear_history(source, 6, 1)
        repo.create_branch("other", repo.lookup_branch("main"))
        copy(source, target)
        with pytest.raises(RefusedError):
            copy(source, target, selection=Selection(branches=("main",), shallow=1))
        assert_equal(source, target)
