"""What official clients write in normal use is at most information, never a warning."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icectl.cli.main import run
from icectl.format.repo import decode_repo, encode_repo
from icectl.model.repo import Availability, RepoStatus
from tests.official import ic, open_official, random_history, zarr
from tests.official.histories import CONCURRENT_V1, CONCURRENT_V2, commit, create
from tests.repetition import repeated

Capture = pytest.CaptureFixture[str]
SOLVER = ic.BasicConflictSolver()


def validated(where: Path, capsys: Capture) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    command = ["validate", "-r", str(where), "--level", "chunks", "--fail-on", "warning"]
    code = run([*command, "--json"], {})
    return code, json.loads(capsys.readouterr().out)


def check_healthy(where: Path, capsys: Capture) -> dict[str, Any]:
    code, document = validated(where, capsys)
    assert code == 0, document["findings"]
    for command in (["gc", "--older-than", "1d", "--dry-run"], ["stats"], ["log", "main"]):
        assert run([*command, "-r", str(where)], {}) == 0
    return document


def codes(document: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in document["findings"]}


def sessions(repo: ic.Repository) -> list[tuple[ic.Session, Any]]:
    """Two sessions from one tip, each with its root group."""
    found = []
    for _ in range(2):
        session = repo.writable_session("main")
        found.append((session, zarr.open_group(session.store, mode="a")))
    return found


def start(where: Path, spec_version: int) -> ic.Repository:
    repo = create(where, spec_version)
    with commit(repo, "start") as root:
        root.create_array("array", shape=(40,), chunks=(10,), dtype="i8", compressors=None)[:] = 1
        root.create_array("other", shape=(4, 4), chunks=(1, 1), dtype="i8", compressors=None)
        root["other"][...] = np.arange(16).reshape(4, 4)
        root.create_group("group/inner")
    return repo


Scenario = Callable[[ic.Repository], set[str]]
"""Does something to the repository; returns the codes that must be among the information."""
SCENARIOS: dict[str, tuple[Scenario, tuple[int, ...]]] = {}


def scenario(*spec_versions: int) -> Callable[[Scenario], Scenario]:
    def register(function: Scenario) -> Scenario:
        SCENARIOS[function.__name__] = function, spec_versions or (1, 2)
        return function

    return register


@scenario()
def two_sessions_delete_one_array(repo: ic.Repository) -> set[str]:
    (first, first_root), (second, second_root) = sessions(repo)
    del first_root["array"]
    del second_root["array"]
    first.commit("one")
    second.commit("two", rebase_with=SOLVER)
    return {"ICE0212"}


@scenario()
def two_sessions_delete_one_group(repo: ic.Repository) -> set[str]:
    (first, first_root), (second, second_root) = sessions(repo)
    del first_root["group"]
    del second_root["group"]
    first.commit("one")
    second.commit("two", rebase_with=SOLVER)
    return {"ICE0212"}


@scenario(2)
def rebased_onto_a_reset_branch(repo: ic.Repository) -> set[str]:
    base = repo.lookup_branch("main")
    with commit(repo, "more") as root:
        root.create_array("more", shape=(4,), chunks=(1,), dtype="i8")[:] = 1
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a")["more"][:2] = 5
    repo.reset_branch("main", base)
    with commit(repo, "another way") as root:
        root["array"][:10] = 9
    session.commit("rebased", rebase_with=SOLVER)
    return {"ICE0212"}


@scenario(2)
def attributes_of_what_a_reset_took_away(repo: ic.Repository) -> set[str]:
    base = repo.lookup_branch("main")
    with commit(repo, "more") as root:
        root.create_group("more")
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a")["more"].attrs["a"] = 1
    repo.reset_branch("main", base)
    with commit(repo, "another way") as root:
        root["array"][:10] = 9
    session.commit("rebased", rebase_with=SOLVER)
    return {"ICE0212"}


@scenario(2)
def deleted_where_a_reset_moved_it_back(repo: ic.Repository) -> set[str]:
    base = repo.lookup_branch("main")
    moving = repo.rearrange_session("main")
    moving.move("/array", "/moved")
    moving.commit("moved")
    session = repo.writable_session("main")
    del zarr.open_group(session.store, mode="a")["moved"]
    repo.reset_branch("main", base)
    with commit(repo, "another way") as root:
        root.create_group("another")
    session.commit("rebased", rebase_with=SOLVER)
    return {"ICE0212"}


@scenario(2)
def moves_rebased_onto_a_reset_branch(repo: ic.Repository) -> set[str]:
    base = repo.lookup_branch("main")
    with commit(repo, "more") as root:
        root.create_array("group/more", shape=(4,), chunks=(1,), dtype="i8")[:] = 1
    moving = [repo.rearrange_session("main") for _ in range(2)]
    moving[0].move("/group", "/elsewhere")
    moving[1].move("/group/more", "/array2")
    repo.reset_branch("main", base)
    with commit(repo, "another way") as root:
        root.create_group("another")
    for session in moving:
        with suppress(ic.IcechunkError):
            session.commit("rebased", rebase_with=SOLVER)
    return set()


@scenario(2)
def moves_beside_each_other(repo: ic.Repository) -> set[str]:
    moving = [repo.rearrange_session("main") for _ in range(4)]
    moving[0].move("/group", "/elsewhere")
    moving[1].move("/group/inner", "/inner")
    moving[2].move("/array", "/elsewhere2")
    moving[3].move("/array", "/other2")
    for session in moving:
        with suppress(ic.IcechunkError):
            session.commit("rebased", rebase_with=SOLVER)
    return set()


@scenario(2)
def move_of_what_another_deletes(repo: ic.Repository) -> set[str]:
    moving = [repo.rearrange_session("main") for _ in range(2)]
    moving[0].move("/array", "/moved")
    moving[1].move("/other", "/group/other")
    with commit(repo, "deleted") as root:
        del root["array"]
        del root["other"]
    for session in moving:
        with suppress(ic.IcechunkError):
            session.commit("rebased", rebase_with=SOLVER)
    return set()


@scenario(2)
def move_of_what_another_recreates(repo: ic.Repository) -> set[str]:
    moving = repo.rearrange_session("main")
    moving.move("/array", "/group/array")
    with commit(repo, "recreated") as root:
        root.create_array("array", shape=(4,), chunks=(1,), dtype="i8", overwrite=True)[:] = 1
    moving.commit("rebased", rebase_with=SOLVER)
    return {"ICE0212"}


@scenario(2)
def changes_of_what_another_moves(repo: ic.Repository) -> set[str]:
    found = [repo.writable_session("main") for _ in range(4)]
    roots = [zarr.open_group(session.store, mode="a") for session in found]
    roots[0]["array"][:10] = 5
    roots[1]["other"].attrs["a"] = 1
    del roots[2]["group"]
    roots[3].create_group("group/inner/more")
    moving = repo.rearrange_session("main")
    moving.move("/array", "/moved")
    moving.move("/other", "/other2")
    moving.move("/group", "/group2")
    moving.commit("moved")
    for session in found:
        with suppress(ic.IcechunkError):
            session.commit("rebased", rebase_with=SOLVER)
    return set()


@scenario()
def array_in_a_group_that_another_deletes(repo: ic.Repository) -> set[str]:
    (first, first_root), (second, second_root) = sessions(repo)
    del first_root["group"]
    second_root.create_array("group/inner/array", shape=(4,), chunks=(1,), dtype="i8")[:] = 1
    first.commit("one")
    second.commit("two", rebase_with=SOLVER)
    return {"ICE0110"}


@scenario()
def chunks_of_both(repo: ic.Repository) -> set[str]:
    for selection in (ic.VersionSelection.UseOurs, ic.VersionSelection.UseTheirs):
        (first, first_root), (second, second_root) = sessions(repo)
        first_root["array"][:20] = 3
        second_root["array"][10:30] = 4
        second_root["array"].attrs["a"] = str(selection)
        first.commit("one")
        solver = ic.BasicConflictSolver(on_chunk_conflict=selection)
        second.commit("two", rebase_with=solver)
    return set()


@scenario(2)
def amend_of_new_nodes(repo: ic.Repository) -> set[str]:
    with commit(repo, "new") as root:
        root.create_array("new", shape=(40,), chunks=(10,), dtype="i8", compressors=None)[:] = 1
        root.create_group("gone")
        root.create_array("recreated", shape=(4,), chunks=(1,), dtype="i8")[:] = 1
    with commit(repo, "amended", amend=True) as root:
        root["new"].attrs["a"] = 1
        root["new"][:10] = 2
        root["new"].resize((20,))
        root.attrs["b"] = 2
        del root["gone"]
        root.create_array("recreated", shape=(2,), chunks=(1,), dtype="i8", overwrite=True)[:] = 1
    with commit(repo, "amended again", amend=True) as root:
        del root["new"]
        root["array"][:] = 3
    return {"ICE0205"}


@scenario(2)
def amend_after_a_reset(repo: ic.Repository) -> set[str]:
    base = repo.lookup_branch("main")
    with commit(repo, "more") as root:
        root["array"][:] = 2
    repo.reset_branch("main", base)
    with commit(repo, "amended", amend=True) as root:
        root["array"].attrs["a"] = 1
    return {"ICE0205"}


@scenario(2)
def move_takes_along_what_another_created(repo: ic.Repository) -> set[str]:
    moving = repo.rearrange_session("main")
    moving.move("/group", "/elsewhere")
    with commit(repo, "one") as root:
        root.create_array("group/inner/array", shape=(4,), chunks=(1,), dtype="i8")[:] = 1
    moving.commit("two", rebase_with=SOLVER)
    return set()


@scenario(2)
def chains_of_moves_and_an_amend(repo: ic.Repository) -> set[str]:
    for amend in (False, True):
        moving = repo.rearrange_session("main")
        moving.move("/array", "/group/array")
        moving.move("/group", "/elsewhere")
        moving.move("/elsewhere", "/group")
        moving.move("/group/array", "/array")
        moving.move("/other", f"/renamed {amend}")
        moving.move(f"/renamed {amend}", "/other" if amend else "/third")
        if amend:
            break
        moving.commit("moves")
        moving = repo.rearrange_session("main")
        moving.move("/third", "/other")
        moving.amend("moves amended")
    return set()


def recreate(repo: ic.Repository, path: str) -> ic.Session:
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array(path, shape=(4,), chunks=(2,), dtype="i8", overwrite=True)[:] = 7
    return session


def move(repo: ic.Repository, old: str, new: str) -> ic.Session:
    session = repo.rearrange_session("main")
    session.move(old, new)
    return session


@scenario(2)
def move_of_what_another_recreated(repo: ic.Repository) -> set[str]:
    """Moves are by path: the new array moves, and the log names the old one."""
    moving = move(repo, "/array", "/moved")
    recreate(repo, "array").commit("recreated")
    moving.commit("moved", rebase_with=ic.ConflictDetector())
    moving = repo.rearrange_session("main")
    moving.move("/group", "/elsewhere")
    moving.move("/other", "/elsewhere/other")
    recreate(repo, "other").commit("recreated")
    moving.commit("moved", rebase_with=ic.ConflictDetector())
    return {"ICE0212"}


@scenario(2)
def recreation_of_what_a_reset_moved_back(repo: ic.Repository) -> set[str]:
    """Deletions are by path: the array is there at its old path, and stays."""
    base = repo.lookup_branch("main")
    move(repo, "/array", "/moved").commit("moved")
    recreating = recreate(repo, "moved")
    repo.reset_branch("main", base)
    with commit(repo, "another way") as root:
        root["other"].attrs["a"] = 1
    recreating.commit("recreated", rebase_with=ic.ConflictDetector())
    return {"ICE0212"}


@scenario(2)
def group_deleted_that_a_reset_moved_back(repo: ic.Repository) -> set[str]:
    base = repo.lookup_branch("main")
    move(repo, "/group", "/moved").commit("moved")
    deleting = repo.writable_session("main")
    del zarr.open_group(deleting.store, mode="a")["moved"]
    repo.reset_branch("main", base)
    with commit(repo, "another way") as root:
        root["other"].attrs["a"] = 1
    deleting.commit("deleted", rebase_with=ic.ConflictDetector())
    return {"ICE0212"}


@scenario(2)
def move_of_what_a_reset_moved_back(repo: ic.Repository) -> set[str]:
    base = repo.lookup_branch("main")
    move(repo, "/array", "/moved").commit("moved")
    moving = move(repo, "/moved", "/moved again")
    repo.reset_branch("main", base)
    recreate(repo, "moved").commit("another way")
    moving.commit("moved again", rebase_with=ic.ConflictDetector())
    return {"ICE0212"}


@scenario(2)
def expired_around_moves(repo: ic.Repository) -> set[str]:
    """What the logs of released parents would explain is not a fault either."""
    recreation_of_what_a_reset_moved_back(repo)
    moving = move(repo, "/other", "/another")
    recreate(repo, "other").commit("recreated")
    moving.commit("moved", rebase_with=ic.ConflictDetector())
    tip = repo.lookup_snapshot(repo.lookup_branch("main"))
    repo.expire_snapshots(tip.written_at)
    with commit(repo, "last") as root:
        root.attrs["a"] = 1
    return set()


@scenario()
def reindexed(repo: ic.Repository) -> set[str]:
    session = repo.writable_session("main")
    session.reindex_array("/array", lambda index: [index[0] + 1] if index[0] < 3 else None)
    session.commit("reindexed")
    return {"ICE0315"}


@scenario()
def shifted(repo: ic.Repository) -> set[str]:
    session = repo.writable_session("main")
    session.shift_array("/other", [1, -1])
    session.shift_array("/array", [-2])
    session.commit("shifted")
    return set()


@scenario()
def smaller_larger_and_cleared(repo: ic.Repository) -> set[str]:
    with commit(repo, "smaller") as root:
        root["array"].resize((15,))
        root["other"].resize((1, 2))
    with commit(repo, "smaller again") as root:
        root["array"].resize((0,))
    with commit(repo, "larger") as root:
        root["array"].resize((60,))
        root["other"].resize((4, 4))
    session = repo.writable_session("main")
    asyncio.run(session.store.delete_dir("array/c"))
    asyncio.run(session.store.delete("other/c/0/0"))
    session.commit("chunks deleted", allow_empty=True)
    repo.rewrite_manifests("rewritten", branch="main")
    session = repo.writable_session("main")
    asyncio.run(session.store.delete_dir("group"))
    session.commit("directory deleted")
    return set()


@scenario()
def dimension_names(repo: ic.Repository) -> set[str]:
    with commit(repo, "names") as root:
        for number, names in enumerate([("", "x"), ("y", None), ("", ""), (None, "")]):
            root.create_array(
                f"named{number}", shape=(2, 2), chunks=(1, 1), dtype="i8", dimension_names=names
            )
    return set()


@scenario()
def empty_and_detached_commits(repo: ic.Repository) -> set[str]:
    repo.writable_session("main").commit("nothing", allow_empty=True)
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a")["array"][:] = 7
    snapshot = session.flush("detached")
    repo.create_branch("detached", snapshot)
    return set()


@scenario()
def root_deleted_and_created(repo: ic.Repository) -> set[str]:
    session = repo.writable_session("main")
    asyncio.run(session.store.clear())
    session.commit("cleared")
    with commit(repo, "created") as root:
        root.create_group("group")
    return set()


@scenario()
def expired_with_an_open_session(repo: ic.Repository) -> set[str]:
    session = repo.writable_session("main")
    zarr.open_group(session.store, mode="a").create_group("late")
    for number in range(3):
        with commit(repo, f"more {number}") as root:
            root["array"][:10] = number
    tip = repo.lookup_snapshot(repo.lookup_branch("main"))
    with commit(repo, "last") as root:
        root["array"][10:] = 9
    repo.expire_snapshots(tip.written_at)
    repo.garbage_collect(tip.written_at)
    with suppress(ic.IcechunkError):
        session.commit("rebased", rebase_with=SOLVER)
    return set()


@scenario(2)
def rewritten_by_amend(repo: ic.Repository) -> set[str]:
    repo.rewrite_manifests("rewritten", branch="main", commit_method="amend")
    return set()


@pytest.mark.parametrize(
    ("name", "spec_version"),
    [(name, version) for name, (_, versions) in SCENARIOS.items() for version in versions],
)
def test_scenario(tmp_path: Path, capsys: Capture, name: str, spec_version: int) -> None:
    where = tmp_path / "repo"
    expected = SCENARIOS[name][0](start(where, spec_version))
    assert codes(check_healthy(where, capsys)) >= expected
    repo = open_official(where)
    repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    check_healthy(where, capsys)
    if spec_version == 1:
        ic.upgrade_icechunk_repository(open_official(where), dry_run=False)
        check_healthy(where, capsys)


@pytest.mark.parametrize("seed", repeated(range(2), range(2, 4)))
@pytest.mark.parametrize("spec_version", [1, 2])
def test_random_histories(tmp_path: Path, capsys: Capture, spec_version: int, seed: int) -> None:
    weights = CONCURRENT_V1 if spec_version == 1 else CONCURRENT_V2
    random_history(tmp_path / "repo", seed, 30, spec_version, weights=weights)
    check_healthy(tmp_path / "repo", capsys)
    if spec_version == 1:
        ic.upgrade_icechunk_repository(open_official(tmp_path / "repo"), dry_run=False)
        check_healthy(tmp_path / "repo", capsys)


def test_status_that_changed_without_an_entry_in_the_ops_log(
    tmp_path: Path, capsys: Capture
) -> None:
    """The format allows it: the official writer takes the entry as optional."""
    where = tmp_path / "repo"
    start(where, 2)
    info = decode_repo((where / "repo").read_bytes())
    status = RepoStatus(Availability.READ_ONLY, info.latest_updates[0].updated_at + 5, "backup")
    (where / "repo").write_bytes(encode_repo(replace(info, status=status)))
    assert open_official(where).status.limited_availability_reason == "backup"
    code, document = validated(where, capsys)
    assert (code, document["findings"]) == (0, [])


def test_two_nodes_with_one_path_are_a_fault(tmp_path: Path, capsys: Capture) -> None:
    """Two sessions recreate one array, one is rebased: the official package writes both nodes."""
    where = tmp_path / "repo"
    repo = start(where, 2)
    (first, first_root), (second, second_root) = sessions(repo)
    for root in (first_root, second_root):
        root.create_array("array", shape=(10,), chunks=(5,), dtype="i8", overwrite=True)[:] = 1
    first.commit("one")
    second.commit("two", rebase_with=SOLVER)
    tip = repo.inspect_snapshot(repo.lookup_branch("main"))
    assert [node["path"] for node in tip["nodes"]].count("/array") == 2
    code, document = validated(where, capsys)
    assert code == 3
    assert "ICE0107" in codes(document)


def test_a_move_onto_what_another_created_is_a_fault(tmp_path: Path, capsys: Capture) -> None:
    """The official package accepts it: the other array is gone, and no log says so."""
    where = tmp_path / "repo"
    repo = start(where, 2)
    moving = move(repo, "/array", "/new")
    recreate(repo, "new").commit("one")
    moving.commit("two", rebase_with=ic.ConflictDetector())
    code, document = validated(where, capsys)
    assert code == 3
    errors = {one["code"] for one in document["findings"] if one["severity"] == "error"}
    assert errors == {"ICE0208", "ICE0210"}
