"""A wrong clock: nothing is written, ages go by the storage's clock, and a locked repository
can be unlocked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Icectl
from tests.official import open_official
from tests.official.histories import commit, create

DAY = 86400
real_time_ns = time.time_ns


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts the clock of this process ahead; files keep their times from the kernel's clock."""

    def set_ahead(seconds: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: real_time_ns() + int(seconds * 1e9))

    return set_ahead


@pytest.fixture(params=[1, 2])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    where = tmp_path / "repository"
    repo = create(where, request.param)
    for number in range(3):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
    return where


def content(where: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(where)): path.read_bytes()
        for path in where.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.mark.parametrize("ahead", [DAY, -DAY, 700, -700])
@pytest.mark.parametrize(
    "call",
    [
        "tag create v1",
        "branch create dev",
        "branch reset main main~1",
        "status set read-only",
        "metadata set a 1",
        "flags set create_tag off",
        "config set compression.level 3",
        "expire --keep-last 1 --yes",
        "gc --older-than 0s --allow-recent --yes",
    ],
)
def test_nothing_is_written(
    icectl: Icectl, repository: Path, set_clock: Any, call: str, ahead: int
) -> None:
    open_official(repository).reset_branch(
        "main", list(open_official(repository).ancestry(branch="main"))[1].id
    )
    if not (repository / "repo").exists() and not call.startswith("config"):
        pytest.skip("spec version 1 stores no time, or has no such setting")
    before = content(repository)
    set_clock(ahead)
    outcome = icectl(*call.split(), "--json", "-r", str(repository))
    assert (outcome.code, outcome.error["kind"]) == (16, "refused"), outcome.err
    assert "clock" in outcome.error["message"]
    assert content(repository) == before


@pytest.mark.parametrize("version", ["1", "2"])
def test_no_repository_is_made(
    icectl: Icectl, tmp_path: Path, set_clock: Any, version: str
) -> None:
    set_clock(DAY)
    where = tmp_path / "new"
    where.mkdir()
    outcome = icectl("init", str(where), "--spec-version", version, "--json")
    assert (outcome.code, outcome.error["kind"]) == (16, "refused")
    assert content(where) == {}


def test_a_few_minutes_are_allowed_and_not_written(
    icectl: Icectl, repository: Path, set_clock: Any
) -> None:
    """The official client commits right after: no entry lies in the future."""
    set_clock(500)
    assert icectl("tag", "create", "v1", "-r", str(repository)).code == 0
    set_clock(0)
    with commit(open_official(repository), "after") as root:
        root.attrs["number"] = -1


def test_expire_goes_by_the_clock_of_the_storage(
    icectl: Icectl, repository: Path, set_clock: Any
) -> None:
    set_clock(10 * DAY)
    outcome = icectl("expire", "--older-than", "7d", "--dry-run", "--json", "-r", str(repository))
    assert outcome.document["released_snapshots"] == []
    outcome = icectl("stats", "--older-than", "7d", "--json", "-r", str(repository))
    assert outcome.code == 0
