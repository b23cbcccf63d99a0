"""`icectl gc` as a user calls it: guards, plans, exit codes, output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.errors import StorageError
from icectl.storage.local import LocalStorage
from tests.gc.repositories import age_all, files, live, messy_repository
from tests.official import built, copied, ic, open_official
from tests.official.histories import commit, create

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
    assert (code, out) == (0, "no garbage\n")


def test_guards(gc: Any, repository: Path) -> None:
    before = files(repository)
    for words, expected, message in (
        ((), 2, "--older-than"),
        (("--older-than", "1h"), 16, "24 hours"),
        (("--older-than", "7d"), 16, "confirmation"),
        (("--older-than", "7d", "--yes", "--max-delete", "1"), 16, "the limit allows 1"),
        (("--older-than", "7d", "--yes", "--max-delete", "1%"), 16, "the limit allows 1%"),
        (("--older-than", "7d", "--yes", "--max-delete", "x"), 2, "--max-delete"),
        (("--older-than", "7d", "--only", "socks"), 2, "socks"),
        (("--older-than", "7d", "--only", "chunks", "--only", "snapshots,socks"), 2, "socks"),
        (("--older-than", "7d", "--only", ""), 2, "'' for --only"),
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
        (("--older-than", "7d", "--yes", "--max-delete", ""), 2, "--max-delete"),
        (("--older-than", "7d", "--yes", "--max-runtime", ""), 2, "is not an age"),
        (("--older-than", "7d", "--yes", "--apply", ""), 2, "plan file"),
        (("--older-than", "7d", "--dry-run", "--plan", ""), 2, "plan file"),
        (("--older-than", "7d", "--yes", "--known-missing", ""), 2, "cannot be read"),
        (("--older-than", "7d", "--yes", "--overwritten-older-than", ""), 2, "is not a time"),
    ):
        code, _, err = gc(*words)
        assert code == expected, (words, err)
        assert message in err and "Traceback" not in err
    assert files(repository) == before


def test_hints_lead_to_the_call_that_was_meant(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    misspelt, older = repository.with_name("rep"), ("--older-than", "7d")
    for words, expected, message in (
        ((str(repository), *older), 2, f"hint: give the repository with -r: icectl gc -r {repository}\n"),
        (("-r", str(misspelt), *older), 10, f"hint: did you mean {repository}?\n"),
        (("-r", str(repository), *older, "--spark-conf", "x"), 2, "KEY=VALUE\n"),
        (("-r", str(repository), *older, "--storage-option", "x"), 2, "KEY=VALUE\n"),
        (("-r", str(repository), *older, "--spark-remote", "host"), 2, "hint: write sc://HOST:PORT\n"),
        (("-r", str(repository), *older, "--engine", "local", "--spark-master", "local"), 2, "cannot be combined"),
    ):  # fmt: skip
        assert run(["gc", *words], {}) == expected, words
        assert message in capsys.readouterr().err, words
    for path in (repository / "manifests").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert run(["gc", "-r", str(repository), *older, "--yes"], {}) == 13
    assert "icectl validate --level manifests" in capsys.readouterr().err


def test_status_must_be_online(gc: Any, repository: Path) -> None:
    open_official(repository).set_status(ic.RepoStatus(ic.RepoAvailability.read_only))
    code, _, err = gc("--older-than", "7d", "--dry-run")
    assert code == 16 and "read-only" in err


def test_only(gc: Any, repository: Path) -> None:
    before, data = files(repository), live(repository)
    code, out, _ = gc(
        "--older-than", "7d", "--yes", "--only", "chunks", "--only", "manifests", "--json"
    )
    assert code == 0
    gone = before - files(repository)
    assert {path.split("/")[0] for path in gone} == {"chunks", "manifests"}
    document = json.loads(out)
    assert document["snapshots_deleted"] == 0
    assert sum(document["kept"].values()) == len(files(repository))
    assert live(repository) == data
    assert gc("--older-than", "7d", "--yes")[0] == 0
    assert live(repository) == data
    assert "no garbage" in gc("--older-than", "7d")[1]


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
    assert code == 2 and "but its first line says" in err


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
    assert "no garbage" in gc("--older-than", "7d")[1]


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
    orphan = overwritten / f"repo.31000000000000.{'0' * 20}"
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


def break_plan(lines: list[str], how: str) -> str:
    header, row = json.loads(lines[0]), json.loads(lines[1])
    changed = {
        "empty": [],
        "another document": ['"abc"'],
        "nested": ["[" * 100_000],
        "no version": [json.dumps({"cutoff_at": "2026-01-01T00:00:00Z"}), *lines[1:]],
        "no time": [json.dumps(header | {"cutoff_at": True}), *lines[1:]],
        "row cut": [*lines[:-1], lines[-1][:-1]],
        "row is a list": [lines[0], "[1, 2]", *lines[2:]],
        "kind": [lines[0], json.dumps(row | {"kind": "sock"}), *lines[2:]],
        "kind is a list": [lines[0], json.dumps(row | {"kind": []}), *lines[2:]],
        "id": [lines[0], json.dumps(row | {"id": "../../repo"}), *lines[2:]],
        "id is a number": [lines[0], json.dumps(row | {"id": 12}), *lines[2:]],
        "row missing": lines[:-1],
        "not text": ["\udcff\udcfe"],
    }[how]
    return "".join(f"{line}\n" for line in changed)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("empty", "line 1 is not a JSON object"),
        ("another document", "line 1 is not a JSON object"),
        ("nested", "line 1 is not a JSON object"),
        ("no version", "another version"),
        ("no time", "another version"),
        ("row cut", "is not a JSON object"),
        ("row is a list", "line 2 is not a JSON object"),
        ("kind", "kind 'sock'"),
        ("kind is a list", "kind []"),
        ("id", "'../../repo' is not an id"),
        ("id is a number", "12 is not an id"),
        ("row missing", "but its first line says"),
        ("not text", "line 1 is not a JSON object"),
    ],
)
def test_edited_plans(gc: Any, repository: Path, tmp_path: Path, how: str, message: str) -> None:
    plan = tmp_path / "plan.jsonl"
    assert gc("--older-than", "7d", "--dry-run", "--plan", str(plan))[0] == 0
    text = break_plan(plan.read_text().splitlines(), how)
    plan.write_bytes(text.encode(errors="surrogateescape"))
    before = files(repository)
    code, _, err = gc("--apply", str(plan), "--yes")
    assert code == 2 and err.count("\n") == 1
    assert f"{plan} is not a plan file of gc: " in err and message in err
    assert files(repository) == before


def test_plan_that_names_everything(gc: Any, repository: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    assert gc("--older-than", "7d", "--dry-run", "--plan", str(plan))[0] == 0
    kinds = {"snapshots": "snapshot", "transactions": "transaction_log"}
    kinds |= {"manifests": "manifest", "chunks": "chunk"}
    rows = [path.split("/") for path in sorted(files(repository))]
    header = json.loads(plan.read_text().splitlines()[0]) | {"num_objects": len(rows)}
    lines = [header, *({"kind": kinds[directory], "id": name} for directory, name in rows)]
    plan.write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = live(repository)
    assert gc("--apply", str(plan), "--yes")[0] == 0
    assert live(repository) == data


def test_parquet_plans_that_are_none(gc: Any, repository: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    plan = tmp_path / "plan.parquet"
    code, _, err = gc("--apply", str(plan), "--yes")
    assert code == 2 and "cannot be read" in err and "None" not in err
    plan.write_bytes(b"something else")
    code, _, err = gc("--apply", str(plan), "--yes")
    assert code == 2 and "is not a plan file" in err
    parquet.write_table(pyarrow.table({"kind": [1]}), plan)
    code, _, err = gc("--apply", str(plan), "--yes")
    assert code == 2 and "a table of something else" in err


@pytest.mark.parametrize("name", ["repo", "chunks/plan.jsonl", "plan.jsonl", "plan.parquet"])
def test_plan_never_replaces_a_file_of_the_repository(gc: Any, repository: Path, name: str) -> None:
    data = live(repository)
    code, _, err = gc("--older-than", "7d", "--dry-run", "--plan", str(repository / name))
    assert code == 2 and "lies in the repository" in err
    assert live(repository) == data
    assert name == "repo" or not (repository / name).exists()


@pytest.mark.parametrize(
    "line",
    [
        "chunks/",
        "chunks/nonsense",
        "chunks/../repo",
        f"manifests/{'A' * 19}0",
        "overwritten/",
        '{"object": 5}',
        '{"object":' * 100_000,
    ],
)
def test_known_missing_with_nonsense(gc: Any, tmp_path: Path, line: str) -> None:
    known = tmp_path / "known"
    known.write_text(f"# a comment\n{line}\n")
    code, _, err = gc("--older-than", "7d", "--dry-run", "--known-missing", str(known))
    assert code == 2 and f"{known}, line 2: " in err and len(err) < 1000


def test_max_delete_counts_what_only_leaves(gc: Any, repository: Path) -> None:
    words = ("--older-than", "7d", "--dry-run", "--json", "--only", "snapshots")
    count = json.loads(gc(*words)[1])["snapshots_deleted"]
    assert gc(*words, "--max-delete", str(count))[0] == 0
    code, _, err = gc(*words, "--max-delete", str(count - 1))
    assert code == 16 and f"{count} objects would be deleted" in err


def test_young_backups_need_a_young_cutoff(gc: Any, repository: Path) -> None:
    """A writer that is about to change `repo` has copied it, and nothing names the copy yet."""
    copy = repository / "overwritten" / f"repo.31000000000000.{'0' * 20}"
    copy.write_bytes((repository / "repo").read_bytes())
    words = ("--yes", "--overwritten-older-than", "0s")
    code, _, err = gc("--older-than", "7d", *words)
    assert code == 16 and "--overwritten-older-than at least 1d" in err
    code, _, err = gc("--older-than", "7d", "--yes", "--overwritten-older-than", "2999-01-01")
    assert code == 16
    assert gc("--older-than", "7d", "--yes", "--overwritten-older-than", "1d")[0] == 0
    assert copy.exists()
    assert gc("--older-than", "0s", "--allow-recent", *words)[0] == 0
    assert not copy.exists()


def test_a_snapshot_that_a_plan_does_not_name_keeps_what_it_needs(
    gc: Any, repository: Path, tmp_path: Path
) -> None:
    """Whoever strikes it out of the plan wants to read it."""
    plan = tmp_path / "plan.jsonl"
    assert gc("--older-than", "7d", "--dry-run", "--plan", str(plan))[0] == 0
    header, *rows = map(json.loads, plan.read_text().splitlines())
    spared = [row["id"] for row in rows if row["reason"].startswith("no branch")]
    repo = open_official(repository)
    for id_ in spared:
        repo.create_branch(f"look-{id_}", id_)
    before = live(repository)["snapshots"]
    for id_ in spared:
        repo.delete_branch(f"look-{id_}")
    age_all(repository, 30 * 86400)
    rows = [row for row in rows if row["id"] not in spared]
    header["num_objects"] = len(rows)
    plan.write_text("".join(json.dumps(row) + "\n" for row in (header, *rows)))
    code, out, _ = gc("--apply", str(plan), "--yes", "--json")
    assert code == 0 and json.loads(out)["chunks_deleted"] > 0
    assert spared
    for id_ in spared:
        open_official(repository).create_branch(f"again-{id_}", id_)
    assert live(repository)["snapshots"] == before


def test_a_plan_of_another_repository(gc: Any, repository: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    assert gc("--older-than", "7d", "--dry-run", "--plan", str(plan))[0] == 0
    other = repository.rename(tmp_path / "other")
    before = files(other)
    code, _, err = gc("-r", str(other), "--apply", str(plan), "--yes")
    assert code == 16 and f"the plan was made for {repository}" in err
    assert files(other) == before


def test_max_delete_counts_backups(gc: Any, repository: Path) -> None:
    words = ("--older-than", "7d", "--overwritten-older-than", "7d", "--truncate-ops-log", "--yes")
    assert gc("--older-than", "7d", "--yes")[0] == 0
    age_all(repository, 30 * 86400)
    before = sorted((repository / "overwritten").iterdir())
    code, _, err = gc(*words, "--max-delete", "3")
    assert code == 16 and "the limit allows 3" in err
    assert sorted((repository / "overwritten").iterdir()) == before


def test_a_backup_that_cannot_be_read_is_no_end_of_the_log(
    gc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the moment, that is: what lies behind it is still reached."""
    where = tmp_path / "chain"
    repo = create(where, num_updates_per_repo_info_file=3)
    for number in range(8):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
    age_all(where, 30 * 86400)
    read = LocalStorage.read

    def fail(self: LocalStorage, path: str) -> bytes:
        if path.startswith("overwritten/"):
            raise StorageError("busy")
        return read(self, path)

    monkeypatch.setattr(LocalStorage, "read", fail)
    before = sorted((where / "overwritten").iterdir())
    words = ("--older-than", "7d", "--overwritten-older-than", "7d", "--yes")
    assert gc("-r", str(where), *words)[0] == 14
    assert sorted((where / "overwritten").iterdir()) == before


def test_findings_that_are_no_loss_are_not_read_as_one(gc: Any, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text('{"code":"ICE0404","severity":"info","object":"chunks/"}\n')
    assert gc("--older-than", "7d", "--dry-run", "--known-missing", str(known))[0] == 0
