"""What is told beside the result: commands to paste, notes, and what no REF means."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Icectl
from tests.cli.small_repository import sid, write_small_repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the directory `my w`, as seen from the current one."""
    monkeypatch.chdir(tmp_path)
    return write_small_repository(tmp_path / "my w")


def undo_of(err: str) -> list[str]:
    words = shlex.split(err.removeprefix("icectl: to undo: "))
    assert words[0] == "icectl"
    return words[1:]


@pytest.mark.parametrize("name", ["a b", "-x", "it's"])
def test_undo_can_be_pasted(icectl: Icectl, repository: Path, name: str) -> None:
    place = ("-r", "my w")
    assert icectl("branch", "create", *place, "--", name, "v1").code == 0
    moved = icectl("branch", "reset", *place, "--", name, "dev")
    back = icectl(*undo_of(moved.err))
    assert back.out == f"branch {name} moved from {sid(4)} to {sid(1)}\n"
    deleted = icectl("branch", "delete", *place, "--", name)
    assert icectl(*undo_of(deleted.err)).out == f"branch {name} created at {sid(1)}\n"


def test_undo_has_the_options_of_the_storage(icectl: Icectl, repository: Path) -> None:
    outcome = icectl("branch", "delete", "dev", "-r", "my w")
    assert outcome.err == f"icectl: to undo: icectl branch create dev {sid(4)} -r 'my w'\n"
    outcome = icectl("branch", "create", "dev", "main", ICECTL_REPO="my w")
    outcome = icectl("branch", "delete", "dev", ICECTL_REPO="my w")
    assert outcome.err == f"icectl: to undo: icectl branch create dev {sid(3)}\n"
    outcome = icectl("tag", "delete", "v1", "-r", "my w")
    assert outcome.err.endswith(f": icectl tag create NAME {sid(1)} -r 'my w'\n")


def test_init_leads_to_the_repository_that_is_there(
    icectl: Icectl, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "hint: `icectl log -r 'my w'` shows it\n" in icectl("init", "my w").err
    assert "hint: `icectl log -r 'my w'` shows it\n" in icectl("init", "-r", "my w").err
    monkeypatch.chdir(repository)
    assert "hint: `icectl log` shows it\n" in icectl("init").err


def test_no_ref_is_the_branch_main(icectl: Icectl, repository: Path) -> None:
    """Also where a tag has the same name."""
    place = ("-r", "my w")
    assert icectl("tag", "create", "main", "v1", *place).code == 0
    assert icectl("log", "main", *place).code == 12
    log = icectl("log", "--json", *place).document
    assert (log["ref"], log["snapshots"][0]["id"]) == ("main", str(sid(3)))
    assert icectl("show", "--json", *place).document["snapshot"]["id"] == str(sid(3))
    assert icectl("ls", "--json", *place).document["snapshot_id"] == str(sid(3))
    assert icectl("diff", "v1", "--name-only", *place).code == 0
    for kind in ("branch", "tag"):
        made = icectl(kind, "create", "new", "--json", *place).document
        assert made["snapshot_id"] == str(sid(3))
    assert json.loads(icectl("log", "--all", "--json", *place).out)["ref"] is None
