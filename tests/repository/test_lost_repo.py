"""A `repo` file that is missing or unreadable: the hint leads to the backups, and works."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.command_line import Icectl
from tests.faults.lost_repo import LOSSES
from tests.official import ic
from tests.official.histories import commit

COMMANDS = (
    ("log",),
    ("gc", "--older-than", "1d", "--dry-run"),
    ("expire", "--keep-last", "1", "--yes"),
    ("tag", "create", "x"),
    ("inspect-file", "repo"),
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits by the official package, and a repository with a similar name beside it."""
    where = tmp_path / "a weather"
    repo = ic.Repository.create(ic.local_filesystem_storage(str(where)))
    for name in ("a", "b", "c"):
        with commit(repo, name) as root:
            root.create_group(name)
    shutil.copytree(where, tmp_path / "a weather2")
    return where


@pytest.mark.parametrize("loss", LOSSES)
def test_the_hint_leads_to_the_backups(icectl: Icectl, repository: Path, loss: str) -> None:
    LOSSES[loss](repository / "repo")
    count = len(list((repository / "overwritten").iterdir()))
    code, kind = (10, "repository_not_found") if loss == "missing" else (13, "damaged")
    for command in COMMANDS:
        done = icectl(*command, "-r", str(repository), "--json")
        assert (done.code, done.error["kind"]) == (code, kind), command
        assert f"{count} backups" in done.error["hint"], command
        assert "weather2" not in done.error["hint"], command
    _, mend = re.findall("`([^`]*)`", done.error["hint"])
    assert icectl(*shlex.split(mend)[1:], "--yes").code == 0
    log = icectl("log", "--all", "-r", str(repository), "--json").document["snapshots"]
    assert [one["message"] for one in log][:3] == ["c", "b", "a"]


def test_validate_and_doctor_know_of_the_backups(icectl: Icectl, repository: Path) -> None:
    (repository / "repo").write_bytes(b"")
    done = icectl("validate", "-r", str(repository), "--json")
    assert done.code == 3
    assert any("backups" in note for note in done.document["notes"])
    for loss in ("empty", "missing"):
        LOSSES[loss](repository / "repo")
        done = icectl("doctor", "--read-only", "-r", str(repository), "--json")
        (check,) = (one for one in done.document["checks"] if one["name"] == "repository")
        assert check["state"] == "failed"
        assert "backups" in check["hint"]


def test_files_of_a_repository_without_backups(icectl: Icectl, repository: Path) -> None:
    (repository / "repo").unlink()
    shutil.rmtree(repository / "overwritten")
    done = icectl("log", "-r", str(repository), "--json")
    assert done.code == 10
    assert "weather2" not in done.error["hint"]


def test_a_mistyped_name_still_finds_its_neighbour(icectl: Icectl, repository: Path) -> None:
    done = icectl("log", "-r", f"{repository}1", "--json")
    assert done.code == 10
    assert str(repository) in done.error["hint"]
