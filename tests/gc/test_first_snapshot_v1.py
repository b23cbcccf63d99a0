"""Which snapshot of spec version 1 may have no parent: `gc` and `validate` agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from tests.gc.repositories import age_all, files, messy_repository
from tests.official import build_zoo, built, copied, linear_history, open_official
from tests.official.histories import commit, create
from tests.validate.damage import Patient


def expired(where: Path, spec_version: int) -> None:
    """An official expiration rewrites the oldest version that stays: its parent is the first."""
    repo = linear_history(where, 6, spec_version)
    third = [*repo.ancestry(branch="main")][2]
    assert repo.expire_snapshots(third.written_at)
    assert len([*open_official(where).ancestry(branch="main")]) == 4


def only_groups(where: Path, spec_version: int) -> None:
    repo = create(where, spec_version)
    for number in range(3):
        with commit(repo, f"commit {number}") as root:
            root.attrs["number"] = number


@pytest.fixture
def icectl(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str) -> tuple[int, Any]:
        code = run([*words, "--json"], {})
        out, err = capsys.readouterr()
        return code, json.loads(out or err)

    return call


GC = ("--older-than", "7d", "--yes")


@pytest.mark.parametrize("build", [messy_repository, build_zoo, expired, only_groups])
def test_what_official_writers_leave_is_sound(
    build: Any, icectl: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    where = copied(built(tmp_path_factory, build, 1), tmp_path / "repo")
    age_all(where, 30 * 86400)
    code, found = icectl("validate", "-r", str(where))
    assert "ICE0104" not in {finding["code"] for finding in found["findings"]} and code == 0
    code, _ = icectl("gc", "-r", str(where), *GC)
    assert code == 0
    code, found = icectl("validate", "-r", str(where), "--level", "chunks")
    assert found["ok"] and code == 0


def test_first_snapshot_of_an_old_release(
    icectl: Any, tmp_path: Path, shared_fixtures: Path
) -> None:
    """Before 1.0 its id was random."""
    where = copied(shared_fixtures / "test-repo-v1", tmp_path / "repo")
    assert icectl("validate", "-r", str(where))[0] == 0
    assert icectl("gc", "-r", str(where), *GC, "--dry-run")[0] == 0


def test_a_lost_parent_is_found_by_both(
    icectl: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also where the version has no more than the root group."""
    where = copied(built(tmp_path_factory, only_groups, 1), tmp_path / "repo")
    age_all(where, 30 * 86400)
    patient = Patient(where)
    patient.snapshot(lambda raw: raw._replace(parent_id=None))
    before = files(where)
    code, found = icectl("validate", "-r", str(where))
    assert code == 3
    assert [finding["object"] for finding in found["findings"] if finding["code"] == "ICE0104"] == [
        f"snapshots/{patient.tip}"
    ]
    code, found = icectl("gc", "-r", str(where), *GC)
    assert code == 13 and found["error"]["kind"] == "damaged"
    assert files(where) == before
