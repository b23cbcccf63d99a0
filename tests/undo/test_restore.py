"""`icectl restore`: an earlier state, or a part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gc.place import Place
from tests.official import copied, ic, linear_history
from tests.official.histories import commit
from tests.undo.operations import ancestor, check_usable, expire, save_config, undo
from tests.undo.states import official_state


def restore(place: Place, to: str, *words: str) -> dict[str, Any]:
    code, document = place.run("restore", "--to", to, "--yes", *words)
    assert code == 0, document
    return document


@pytest.fixture
def changed(place: Place) -> dict[str, Any]:
    """Everything is changed; what it was before."""
    before = official_state(place.where)
    repo = place.official()
    repo.delete_branch("side")
    repo.create_branch("new", ancestor(place, 1))
    place.commit(9)
    expire(place)
    place.commit(10)
    repo.update_metadata({"owner": "you", "more": 1})
    repo.set_feature_flag("move_node", False)
    save_config(place)
    place.run("status", "set", "read-only", "--reason", "why")
    place.run("status", "set", "online")
    return before


NUM_OPERATIONS = 10
TO = f"@{NUM_OPERATIONS}"


def test_a_whole_state(place: Place, changed: dict[str, Any]) -> None:
    now = official_state(place.where)
    planned = place.run("restore", "--to", TO, "--dry-run")[1]
    assert official_state(place.where) == now
    done = restore(place, TO)
    assert done == {**planned, "dry_run": False}
    assert official_state(place.where) == changed
    kinds = [one["kind"] for one in place.run("ops-log", "show", "@0")[1]["written_together"]]
    assert {"new_detached_snapshot", "branch_reset", "branch_created", "config_changed"} <= {*kinds}
    undo(place)
    assert official_state(place.where) == now
    check_usable(place)


def test_by_time_and_by_backup(place: Place, changed: dict[str, Any]) -> None:
    update = place.run("ops-log")[1]["updates"][NUM_OPERATIONS]
    for name in (update["updated_at"], update["backup_path"], update["backup_path"][-8:]):
        restore(place, name)
        assert official_state(place.where) == changed
        undo(place)


@pytest.mark.parametrize(
    ("part", "keys"),
    [
        ("branch:side", {"branches", "snapshots", "ancestry"}),
        ("branch:new", {"branches"}),
        ("config", {"config"}),
        ("metadata", {"metadata"}),
        ("flags", {"flags"}),
        ("status", {"status"}),
        ("history", {"snapshots", "ancestry"}),
    ],
)
def test_a_part(place: Place, changed: dict[str, Any], part: str, keys: set[str]) -> None:
    now = official_state(place.where)
    restore(place, TO, "--only", part)
    after = official_state(place.where)
    differing = {key for key in after if after[key] != now[key]}
    assert differing and differing <= keys
    for key in keys - {"branches", "snapshots", "ancestry"}:
        assert after[key] == changed[key]
    repo = place.official()
    if part == "branch:side":
        assert repo.lookup_branch("side") and "new" in repo.list_branches()
    if part == "branch:new":
        assert "new" not in repo.list_branches() and "side" not in repo.list_branches()
    if part == "history":
        assert changed["ancestry"].items() <= after["ancestry"].items()
    check_usable(place)


def test_only_a_tag(place: Place) -> None:
    target = place.official().lookup_tag("v1")
    place.official().delete_tag("v1")
    place.official().create_tag("v2", ancestor(place, 0))
    code, document = place.run("restore", "--to", "@2", "--only", "tag:v1", "--yes")
    assert (code, document["error"]["kind"]) == (16, "refused")
    restore(place, "@2", "--only", "tag:v1", "--undelete-tag")
    assert place.official().lookup_tag("v1") == target
    assert "v2" in place.official().list_tags()
    done = restore(place, "@3", "--undelete-tag")
    assert done["burnt_tags"] == ["v2"]
    assert place.official().list_tags() == {"v1"}
    check_usable(place)


def test_an_undo_of_a_part(place: Place) -> None:
    """The branch moved on; what else the expiration did can be undone."""
    expire(place, delete_expired_branches=True, delete_expired_tags=True)
    place.official().create_branch("side", ancestor(place, 0))
    code, document = place.run("undo", "@1", "--yes", "--undelete-tag")
    assert (code, document["error"]["kind"]) == (11, "conflict")
    done = undo(place, "@1", "--only", "history")
    assert done["restored_snapshots"] and not done["branches"] and not done["tags"]
    number = place.run("ops-log", "--kind", "expiration_ran")[1]["updates"][0]["op"]
    undo(place, f"@{number}", "--only", "tag:v1", "--undelete-tag")
    assert place.official().lookup_tag("v1")
    check_usable(place)


def test_nothing_to_do(place: Place) -> None:
    before = (place.where / "repo").read_bytes()
    done = restore(place, "@0")
    assert done["branches"] == done["restored_snapshots"] == []
    assert (place.where / "repo").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["undo", "--only", "everything", "--yes"], 2),
        (["undo", "--only", "branch:", "--yes"], 2),
        (["undo", "--only", "branch:nobody", "--yes"], 12),
        (["undo", "@99", "--yes"], 12),
        (["undo"], 16),
        (["restore", "--to", "@1"], 16),
        (["restore"], 2),
        (["restore", "--to", "tomorrow", "--yes"], 2),
    ],
)
def test_refusals(place: Place, words: list[str], code: int) -> None:
    before = (place.where / "repo").read_bytes()
    found, document = place.run(*words)
    assert (found, document["error"]["exit_code"]) == (code, code)
    assert (place.where / "repo").read_bytes() == before


def test_the_first_operation_stays(place: Place) -> None:
    number = len(place.run("ops-log")[1]["updates"]) - 1
    code, document = place.run("undo", f"@{number}", "--yes")
    assert (code, document["error"]["kind"]) == (16, "refused")


def test_spec_version_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    linear_history(tmp_path / "repo", 2, 1)
    place = Place.existing(tmp_path / "repo", capsys)
    for words in (["undo", "--yes"], ["restore", "--to", "@1", "--yes"]):
        code, document = place.run(*words)
        assert (code, document["error"]["kind"]) == (15, "unsupported")


def test_a_migrated_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo = linear_history(tmp_path / "repo", 4, 1)
    repo.create_tag("v1", repo.lookup_branch("main"))
    ic.upgrade_icechunk_repository(repo, dry_run=False)
    place = Place.existing(tmp_path / "repo", capsys)
    updates = place.run("ops-log")[1]["updates"]
    assert not any(update["undoable"] for update in updates)
    for number in (0, 1):
        code, document = place.run("undo", f"@{number}", "--yes")
        assert code in (12, 16), document
    before = official_state(place.where)
    with commit(place.official(), "new") as root:
        root.attrs["new"] = 1
    expire(place)
    place.run("expire", "--keep-last", "1", "--yes")
    restore(place, place.run("ops-log", "--kind", "repo_migrated")[1]["updates"][0]["backup_path"])
    assert official_state(place.where) == before
    place.commit(5)
    check_usable(place)


def test_backups_that_were_cleared(place: Place, tmp_path: Path) -> None:
    """Their states are gone; the rest can be undone."""
    place.commit(9)
    for name in place.backups()[1:]:
        (place.where / "overwritten" / name).unlink()
    code, document = place.run("undo", "@1", "--yes")
    assert (code, document["error"]["kind"]) == (12, "ref_not_found")
    undo(place)
    check_usable(place)


def test_an_old_repo_file_was_put_back(place: Place, tmp_path: Path) -> None:
    """An undo refuses it, as every change does."""
    then = copied(place.where, tmp_path / "then")
    place.commit(9, 10)
    (place.where / "repo").write_bytes((then / "repo").read_bytes())
    code, document = place.run("undo", "--yes")
    assert (code, document["error"]["kind"]) == (13, "damaged")
