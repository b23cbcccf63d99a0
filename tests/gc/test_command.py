"""`icectl gc` as a user calls it: guards, plans, exit codes, output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from tests.gc.repositories import age_all, files, live, messy_repository
from tests.official import built, copied, ic, open_official

KEYS = {
    "dry_run",
    "engine",
    "snapshots_deleted",
    "transaction_logs_deleted",
    "manifests_deleted",
    "chunks_deleted",
    "bytes_deleted",
    "kept",
}


@pytest.fixture
def repository(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    mine = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    age_all(mine, 30 * 86400)
    return mine


@pytest.fixture
def gc(repository: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str) -> tuple[int, str, str]:
        code = run(["gc", "-r", str(repository), *words], {})
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_dry_run_is_what_the_real_run_does(gc: Any, repository: Path) -> None:
    before, data = files(repository), live(repository)
    code, out, _ = gc("--older-than", "7d", "--dry-run", "--json")
    planned = json.loads(out)
    assert code == 0 and planned["dry_run"] and planned.keys() >= KEYS
    assert files(repository) == before
    code, out, _ = gc("--older-than", "7d", "--yes", "--json")
    done = json.loads(out)
    assert code == 0 and not done["dry_run"]
    for key in KEYS - {"dry_run"}:
        assert planned[key] == done[key], key
    gone = before - files(repository)
    assert len(gone) == sum(
        done[f"{kind}_deleted"] for kind in ("snapshots", "transaction_logs", "manifests", "chunks")
    )
    assert sum(done["kept"].values()) == len(files(repository))
    assert live(repository) == data
    code, out, _ = gc("--older-than", "7d")
    assert (code, out) == (0, "there is no garbage\n")


def test_guards(gc: Any, repository: Path) -> None:
    before = files(repository)
    for words, expected, message in (
        ((), 2, "--older-than"),
        (("--older-than", "1h"), 16, "24 hours"),
        (("--older-than", "7d"), 16, "confirmation"),
        (("--older-than", "7d", "--yes", "--max-delete", "1"), 16, "--max-delete allows 1"),
        (("--older-than", "7d", "--yes", "--max-delete", "1%"), 16, "--max-delete allows 1%"),
        (("--older-than", "7d", "--yes", "--max-delete", "x"), 2, "--max-delete"),
        (("--older-than", "7d", "--only", "socks"), 2, "socks"),
        (
            (
                "--older-than",
                "never",
            ),
            2,
            "never",
        ),
        (
            (
                "--older-than",
                "2999-01-01",
            ),
            2,
            "future",
        ),
        (("--older-than", "7d", "--truncate-ops-log"), 2, "--overwritten-older-than"),
        (("--apply", "/nonexistent/plan.jsonl"), 2, "plan file"),
        (("--older-than", "7d", "--dry-run", "--plan", "/nonexistent/plan.jsonl"), 2, "plan file"),
        (("--older-than", "7d", "--known-missing", "/nonexistent"), 2, "/nonexistent"),
        (("--older-than", "7d", "--yes", "--max-runtime", "0s"), 3, "--max-runtime"),
    ):
        code, _, err = gc(*words)
        assert code == expected, (words, err)
        assert message in err and "Traceback" not in err
    assert files(repository) == before


def test_status_must_be_online(gc: Any, repository: Path) -> None:
    open_official(repository).set_status(ic.RepoStatus(ic.RepoAvailability.read_only))
    code, _, err = gc("--older-than", "7d", "--dry-run")
    assert code == 16 and "read-only" in err


def test_only(gc: Any, repository: Path) -> None:
    before, data = files(repository), live(repository)
    code, out, _ = gc("--older-than", "7d", "--yes", "--only", "chunks,manifests", "--json")
    assert code == 0
    gone = before - files(repository)
    assert {path.split("/")[0] for path in gone} == {"chunks", "manifests"}
    assert json.loads(out)["snapshots_deleted"] == 0
    assert live(repository) == data
    assert gc("--older-than", "7d", "--yes")[0] == 0
    assert live(repository) == data
    assert "there is no garbage" in gc("--older-than", "7d")[1]


def test_foreign_names_are_told_and_stay(gc: Any, repository: Path) -> None:
    foreign = [repository / "chunks" / "README.txt", repository / "snapshots" / "sub" / "x"]
    foreign += [repository / "manifests" / ("A" * 19 + "1"), repository / "own" / "file"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
    age_all(repository, 30 * 86400)
    code, out, err = gc("--older-than", "7d", "--yes", "--json")
    assert code == 0
    assert all(path.exists() for path in foreign)
    assert len(json.loads(out)["foreign"]) == 3
    assert "chunks/README.txt" in err and "own" not in err


def test_plan_and_apply(gc: Any, repository: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    before, data = files(repository), live(repository)
    assert gc("--older-than", "7d", "--dry-run", "--plan", str(plan))[0] == 0
    header, *rows = map(json.loads, plan.read_text().splitlines())
    assert header["num_objects"] == len(rows)
    assert {row["kind"] for row in rows} == {"snapshot", "transaction_log", "manifest", "chunk"}
    assert all(row.keys() == {"kind", "id", "size", "created_at", "reason"} for row in rows)
    # Since the plan was made, one of its snapshots was rescued, and there is new garbage.
    repo = open_official(repository)
    unreachable = next(row["id"] for row in rows if row["reason"].startswith("no branch"))
    repo.create_tag("rescued", unreachable)
    rescued = live(repository)
    (repository / "chunks" / ("0" * 20)).write_bytes(b"new garbage")
    age_all(repository, 30 * 86400)
    assert gc("--apply", str(plan), "--yes")[0] == 0
    assert live(repository) == rescued != data
    left = files(repository)
    assert f"snapshots/{unreachable}" in left
    assert f"chunks/{'0' * 20}" in left
    directories = {
        "snapshot": "snapshots",
        "transaction_log": "transactions",
        "manifest": "manifests",
        "chunk": "chunks",
    }
    named = {f"{directories[row['kind']]}/{row['id']}" for row in rows}
    assert before - left < named
    assert gc("--apply", str(repository / "repo"), "--yes")[0] == 2
    plan.write_text("\n".join(plan.read_text().splitlines()[:-1]))
    code, _, err = gc("--apply", str(plan), "--yes")
    assert code == 2 and "not complete" in err


def test_parquet_plan(gc: Any, repository: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.parquet"
    words = ("--older-than", "7d", "--dry-run", "--plan", str(plan))
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        code, _, err = gc(*words)
        assert code == 2 and "pyarrow" in err and len(err.splitlines()) == 2
        return
    assert gc(*words)[0] == 0
    data = live(repository)
    assert gc("--apply", str(plan), "--yes")[0] == 0
    assert live(repository) == data
    assert "there is no garbage" in gc("--older-than", "7d")[1]


def test_events(gc: Any, repository: Path) -> None:
    _code, out, _ = gc("--older-than", "7d", "--yes", "--jsonl")
    planned, finished = map(json.loads, out.splitlines())
    assert (planned["event"], finished["event"]) == ("planned", "finished")
    assert planned["chunks_deleted"] == finished["chunks_deleted"] > 0


def test_damage_is_named(gc: Any, repository: Path) -> None:
    manifest = sorted((repository / "manifests").iterdir())[0]
    for path in (repository / "manifests").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    code, _, err = gc("--older-than", "7d", "--yes")
    assert code == 13 and "manifests/" in err and "Traceback" not in err
    assert manifest.exists()


def test_backups(gc: Any, repository: Path) -> None:
    data = live(repository)
    overwritten = repository / "overwritten"
    orphan = overwritten / f"repo.30000000000000.{'0' * 20}"
    orphan.write_bytes(b"left by a lost race")
    age_all(repository, 30 * 86400)
    before = {path.name for path in overwritten.iterdir()}
    words = ("--older-than", "7d", "--yes", "--json", "--overwritten-older-than", "7d")
    code, out, _ = gc(*words)
    document = json.loads(out)
    assert code == 0
    assert document["backups_deleted"] == len(before) - len(
        before & {path.name for path in overwritten.iterdir()}
    )
    assert not orphan.exists()
    assert len(list(open_official(repository).ops_log())) > 10
    age_all(repository, 30 * 86400)
    code, out, _ = gc(*words, "--truncate-ops-log")
    assert code == 0 and json.loads(out)["backups_deleted"] > 10
    assert live(repository) == data
    log = list(open_official(repository).ops_log())
    assert 1 <= len(log) <= 3
    age_all(repository, 30 * 86400)
    assert gc("--older-than", "7d", "--yes")[0] == 0
    assert live(repository) == data


def test_legacy_is_refused(shared_fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(shared_fixtures / "test-repo-0.1.0")
    assert run(["gc", "-r", where, "--older-than", "7d", "--dry-run"], {}) == 15
    assert "cannot be collected" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["test-repo-v1", "test-repo-v2", "test-repo-v2-migrated", "split-repo-v2"]
)
def test_repositories_of_other_releases(
    shared_fixtures: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = copied(shared_fixtures / name, tmp_path / "repo")
    data = live(mine)
    code = run(["gc", "-r", str(mine), "--older-than", "0s", "--allow-recent", "--yes"], {})
    assert code == 0, capsys.readouterr().err
    assert live(mine) == data
