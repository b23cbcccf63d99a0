"""Each kind of operation: do, undo, and the repository is as it was before, apart from the log."""

from __future__ import annotations

import pytest

from icectl.errors import RefusedError, Remedy
from icectl.model.ids import ChunkId, ManifestId
from icectl.ops.undo.run import UndoOptions, execute_undo, plan_undo
from icectl.pipeline.progress import Progress
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.gc.place import Place
from tests.undo.operations import (
    KINDS,
    ancestor,
    check_usable,
    expire,
    reset,
    undo,
)
from tests.undo.states import official_state, own_state


@pytest.mark.parametrize("kind", KINDS)
def test_do_and_undo(place: Place, kind: str) -> None:
    official, own = official_state(place.where), own_state(place.info())
    KINDS[kind](place)
    changed, changed_own = official_state(place.where), own_state(place.info())
    assert changed != official
    planned = place.run("undo", "--dry-run", "--undelete-tag")[1]
    assert planned["dry_run"] and official_state(place.where) == changed
    options = ("--undelete-tag",) if kind in ("tag_deleted", "expire_refs") else ()
    done = undo(place, *options)
    assert {**planned, "dry_run": False} == done
    after = official_state(place.where)
    if kind == "tag_created":
        # The exception: its name can never be used again.
        assert done["burnt_tags"] == ["new"]
        assert after.pop("deleted_tags") == ["new"] and official.pop("deleted_tags") == []
    else:
        assert own_state(place.info()) == own
    assert after == official
    # And back again.
    undo(place, *(("--undelete-tag",) if kind == "tag_created" else ()))
    assert official_state(place.where) == changed
    if kind != "tag_deleted":
        assert own_state(place.info()) == changed_own
    undo(place, *options)
    if kind != "status":
        check_usable(place)


def test_the_operation_that_was_undone_is_reported(place: Place) -> None:
    tip = ancestor(place, 0)
    new = place.commit(9)
    done = undo(place)
    assert done["operation"]["kind"] == "new_commit" and done["operation"]["new_snap_id"] == new
    assert done["branches"] == [{"name": "main", "snapshot_id": tip, "previous_snapshot_id": new}]
    assert (done["restored_snapshots"], done["removed_snapshots"]) == ([], [new])
    newest = place.run("ops-log", "-n", "1")[1]["updates"][0]
    assert (newest["kind"], newest["name"], newest["previous_snapshot_id"]) == (
        "branch_reset",
        "main",
        new,
    )


def test_later_operations_are_in_the_way(place: Place) -> None:
    new = place.commit(9)
    place.commit(10)
    before = (place.where / "repo").read_bytes()
    code, document = place.run("undo", "@1", "--yes")
    assert (code, document["error"]["kind"]) == (11, "conflict")
    assert new in document["error"]["message"] and "main" in document["error"]["message"]
    assert "icectl restore --to @2 " in document["error"]["hint"]
    assert (place.where / "repo").read_bytes() == before
    # What came later elsewhere is not in the way.
    place.official().create_tag("elsewhere", ancestor(place, 3))
    place.official().update_metadata({"more": 1})
    undo(place, "@2")
    assert ancestor(place, 0) == new
    assert "elsewhere" in place.official().list_tags()
    check_usable(place)


def test_a_commit_that_something_else_needs_stays(place: Place) -> None:
    new = place.commit(9)
    place.official().create_tag("needed", new)
    done = undo(place, "@1")
    assert done["removed_snapshots"] == []
    assert place.official().lookup_tag("needed") == new
    check_usable(place)


def test_an_expiration_below_later_commits(place: Place) -> None:
    before = {info.id: info.parent_id for info in place.official().ancestry(branch="main")}
    expire(place)
    place.commit(9, 10)
    undo(place, "@2")
    after = {info.id: info.parent_id for info in place.official().ancestry(branch="main")}
    assert before.items() < after.items() and len(after) == len(before) + 2
    check_usable(place)


def test_what_gc_deleted_is_gone(place: Place) -> None:
    expire(place)
    place.commit(9)
    place.official().reset_branch("main", ancestor(place, 1))
    code, document = place.run("gc", "--older-than", "0s", "--allow-recent", "--yes")
    assert code == 0 and document["snapshots_deleted"]
    before, backups = (place.where / "repo").read_bytes(), place.backups()
    code, document = place.run("undo", "--yes")
    assert (code, document["error"]["kind"]) == (16, "refused")
    for words in (
        ["undo", "@3", "--yes"],
        ["undo", "@3", "--dry-run"],
        ["restore", "--to", "@4", "--yes"],
        ["restore", "--to", "@4", "--only", "history", "--yes"],
    ):
        code, document = place.run(*words)
        assert code == 16
        assert any(path.startswith("snapshots/") for path in document["missing"])
    # The branch would point at a snapshot that is not listed any more.
    code, document = place.run("undo", "@1", "--yes")
    assert (code, document["error"]["kind"]) == (11, "conflict")
    assert ((place.where / "repo").read_bytes(), place.backups()) == (before, backups)


@pytest.mark.parametrize("kind", ["snapshots", "transactions", "manifests", "chunks"])
@pytest.mark.parametrize("how", ["missing", "short"])
def test_one_object_is_gone(place: Place, kind: str, how: str) -> None:
    place.commit(9)
    reset(place)
    there = {path.name for path in (place.where / kind).iterdir()}
    mine = place.run("undo", "--dry-run")
    assert mine[0] == 0
    place.commit(10)
    repo = place.official()
    needed = read_needed(place, kind)
    path = place.where / kind / sorted(needed & there)[0]
    if how == "missing":
        path.unlink()
    elif kind in ("transactions", "chunks"):
        path.write_bytes(path.read_bytes()[:3])
    else:
        path.write_bytes(path.read_bytes()[:-3])
    place.run("undo", "--yes")
    code, document = place.run("undo", "@2", "--yes")
    if how == "missing" or kind in ("transactions", "chunks"):
        assert (code, document["missing"]) == (16, [f"{kind}/{path.name}"])
    else:
        assert (code, document["error"]["kind"]) == (13, "damaged")
    assert repo.lookup_branch("main")


def test_a_collection_is_blamed_only_if_one_ran(place: Place) -> None:
    tip = place.commit(9)
    reset(place)
    path = place.where / "snapshots" / tip
    path.rename(place.where / tip)

    def hint(name: str) -> str:
        repository = open_repository(LocalStorage(place.where))
        plan = plan_undo(repository, name, int, UndoOptions(), Progress())
        with pytest.raises(RefusedError) as error:
            execute_undo(repository, plan, UndoOptions(), Progress())
        assert isinstance(error.value.hint, Remedy)
        return error.value.hint.name

    assert hint("@0") == "restore-lost"
    (place.where / tip).rename(path)
    expire(place)
    place.run("gc", "--older-than", "0s", "--allow-recent", "--yes")
    assert hint("@1") == "restore-collected"


def read_needed(place: Place, kind: str) -> set[str]:
    """The objects that only the commits of the reset have."""
    repo = place.official()
    tip = place.run("ops-log", "--kind", "branch_reset")[1]["updates"][0]["previous_snap_id"]
    parent = list(repo.ancestry(snapshot_id=tip))[1].id
    if kind in ("snapshots", "transactions"):
        return {tip}

    def manifests(snapshot: str) -> set[str]:
        return {file.id for file in repo.list_manifest_files(snapshot)}

    own = manifests(tip) - manifests(parent)
    if kind == "manifests":
        return own
    repository = open_repository(LocalStorage(place.where))
    arrays = [
        array
        for manifest in own
        for array in repository.read_manifest(ManifestId.parse(manifest)).arrays
    ]
    return {str(ChunkId(row.tobytes())) for array in arrays for row in array.refs.chunk_id}


def test_tags_come_back_only_on_request(place: Place) -> None:
    target = place.official().lookup_tag("v1")
    place.official().delete_tag("v1")
    code, document = place.run("undo", "--yes")
    assert (code, document["error"]["kind"]) == (16, "refused")
    assert "v1" in document["error"]["message"] and "--undelete-tag" in document["error"]["hint"]
    undo(place, "--undelete-tag")
    assert place.official().lookup_tag("v1") == target
    check_usable(place)


def test_read_only(place: Place) -> None:
    place.commit(9)
    place.run("status", "set", "read-only")
    code, document = place.run("undo", "@1", "--yes")
    assert (code, document["error"]["kind"]) == (16, "refused")
    undo(place, "@1", "--while-read-only")
    assert place.run("status")[1]["availability"] == "read_only"
    undo(place, "@1")
    assert place.run("status")[1]["availability"] == "online"
    check_usable(place)
