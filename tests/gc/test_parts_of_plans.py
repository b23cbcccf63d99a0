"""Runs of some kinds only, plans that were saved, and what is asked and told about them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.errors import StorageError
from icectl.storage.local import LocalStorage
from tests.cli.terminals import Terminal
from tests.gc.repositories import age_all, files, live, messy_repository
from tests.official import built, copied, ic
from tests.official.histories import commit, create

MONTH = 30 * 86400
DELETED = ("snapshots", "transaction_logs", "manifests", "chunks")


def num_deleted(document: dict[str, Any]) -> int:
    return sum(document[f"{kind}_deleted"] for kind in DELETED)


@pytest.fixture(params=[1, 2])
def repository(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    mine = copied(built(tmp_path_factory, messy_repository, request.param), tmp_path / "repo")
    age_all(mine, MONTH)
    return mine


@pytest.fixture
def gc(repository: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str) -> tuple[int, str, str]:
        code = run(["gc", "-r", str(repository), *words], {})
        return (code, *capsys.readouterr())

    return call


@pytest.mark.parametrize("kind", DELETED)
def test_a_saved_plan_is_the_one_that_was_shown(
    gc: Any, repository: Path, tmp_path: Path, kind: str
) -> None:
    plan = tmp_path / "plan.jsonl"
    before, data = files(repository), live(repository)
    words = ("--older-than", "7d", "--only", kind)
    code, out, err = gc(*words, "--dry-run", "--json", "--plan", str(plan))
    shown = json.loads(out)
    assert code == 0 and str(plan) in err
    header, *rows = map(json.loads, plan.read_text().splitlines())
    assert header["num_objects"] == len(rows) == num_deleted(shown)
    assert {f"{row['kind']}s" for row in rows} <= {kind}
    assert header["cutoff_at"].endswith("Z")
    code, out, err = gc("--apply", str(plan), "--yes", "--json")
    assert code == 0, err
    assert num_deleted(json.loads(out)) == len(rows) == len(before - files(repository))
    assert json.loads(out)["num_spared"] == 0
    assert live(repository) == data


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_snapshot_whose_file_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spec_version: int
) -> None:
    """Before spec version 2 the file is all that a snapshot is: who knows its id can use it."""
    where = tmp_path / "repo"
    repo = create(where, spec_version, inline_chunk_threshold_bytes=0)
    for number in range(3):
        with commit(repo, f"{number}") as root:
            root.create_array(f"a{number}", shape=(4,), chunks=(2,), dtype="i8")[:] = number + 1
    before = live(where)
    tip, _, first = (info.id for info in list(repo.ancestry(branch="main"))[:3])
    repo.reset_branch("main", first)
    age_all(where, MONTH)
    words = ["gc", "-r", str(where), "--older-than", "7d", "--yes", "--json"]
    assert run([*words, "--only", "chunks,manifests"], {}) == 0
    document = json.loads(capsys.readouterr().out)
    if spec_version == 1:
        assert num_deleted(document) == 0
        repo.reset_branch("main", tip)
        assert live(where) == before
    else:
        assert document["chunks_deleted"] == 4
        with pytest.raises(ic.SnapshotNotFoundError):
            repo.reset_branch("main", tip)


def test_what_a_plan_names_and_stays_is_told(gc: Any, repository: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    assert gc("--older-than", "7d", "--dry-run", "--plan", str(plan))[0] == 0
    num_rows = len(plan.read_text().splitlines()) - 1
    code, out, _ = gc("--apply", str(plan), "--older-than", "60d", "--yes", "--json")
    spared = json.loads(out)
    assert (code, num_deleted(spared), spared["num_spared"]) == (0, 0, num_rows)
    elsewhere = repository.parent / "elsewhere"
    elsewhere.symlink_to(repository)
    code, out, err = gc("-r", str(elsewhere), "--apply", str(plan), "--yes", "--json")
    assert code == 0, err
    done = json.loads(out)
    assert (num_deleted(done), done["num_spared"]) == (num_rows, 0)
    code, out, err = gc("--apply", str(plan), "--yes", "--json")
    assert (code, json.loads(out)["num_spared"]) == (0, num_rows)
    assert str(num_rows) in err, "the text says it as well"


def test_when_no_delete_works(gc: Any, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(storage: LocalStorage, paths: Any) -> Any:
        for path in paths:
            yield path, StorageError(f"{path}: permission denied")

    monkeypatch.setattr(LocalStorage, "delete_many", refuse)
    code, out, err = gc("--older-than", "7d", "--yes", "--only", "chunks", "--json")
    done = json.loads(out)
    assert (code, num_deleted(done), done["bytes_deleted"]) == (3, 0, 0)
    assert done["failures"] and not done["is_complete"]
    warnings = [line for line in err.splitlines() if "permission denied" in line]
    assert warnings and all(line.count("chunks/") == 1 for line in warnings)


def test_nothing_of_that_kind_asks_nothing(gc: Any) -> None:
    assert gc("--older-than", "7d", "--only", "snapshots", "--yes")[0] == 0
    code, out = gc("--older-than", "7d", "--only", "snapshots")[:2]
    assert code == 0 and out.startswith("no garbage")


def test_an_ops_log_that_cannot_be_cut_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = tmp_path / "repo"
    repo = create(where, num_updates_per_repo_info_file=3)
    for number in range(10):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
    age_all(where, MONTH)
    *young, oldest = sorted((where / "overwritten").iterdir())
    for path in (*young[:4], oldest):
        os.utime(path)
    words = ["--older-than", "7d", "--overwritten-older-than", "7d", "--truncate-ops-log", "--yes"]
    assert run(["gc", "-r", str(where), *words], {}) == 0
    assert "the ops log was not truncated" in capsys.readouterr().err
    assert oldest.exists()


def test_more_than_was_confirmed_is_asked_again(tmp_path: Path) -> None:
    """The plan is void, since somebody took a snapshot back; the new one holds much more."""
    where = tmp_path / "repo"
    repo = create(where, inline_chunk_threshold_bytes=0)
    with commit(repo, "first") as root:
        root.create_array("a", shape=(8,), chunks=(2,), dtype="i8")[:] = 1
    tip = repo.lookup_branch("main")
    for name, commits in (("large", 5), ("small", 1)):
        repo.create_branch(name, tip)
        for number in range(commits):
            with commit(repo, f"{name} {number}", branch=name) as root:
                root["a"][:] = number + 2
    dropped = repo.lookup_branch("small")
    repo.delete_branch("small")
    age_all(where, MONTH)
    before = files(where)
    words = [sys.executable, "-m", "icectl.cli.main", "gc", "-r", str(where), "--older-than", "7d"]
    with Terminal(words, os.environ | {"NO_COLOR": "1"}, columns=200) as terminal:
        first = " ".join(terminal.read_until("(n)").split())
        assert "delete 7 objects" in first and f"from {where}?" in first
        repo.create_branch("rescued", dropped)
        repo.delete_branch("large")
        terminal.send("y\n")
        terminal.read_until("changed by others")
        terminal.read_until("delete 35 objects")
        terminal.send("n\n")
        _, code = terminal.finish()
    assert code == 16
    assert files(where) == before
