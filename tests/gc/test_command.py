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


@pytest.fixture
def failure(gc: Any) -> Any:
    """The error that a call ends with, as programs see it."""

    def call(*words: str) -> Any:
        code, out, err = gc(*words, "--json")
        assert out == ""
        error = json.loads(err)["error"]
        assert error["exit_code"] == code
        return error

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
    assert (code, out.splitlines()[1:]) == (0, [])
    assert out.startswith("no garbage from before ")


def test_guards(failure: Any, repository: Path) -> None:
    before = files(repository)
    for words, expected, named in (
        ((), 2, "--older-than"),
        (("--older-than", "1h"), 16, "24 hours"),
        (("--older-than", "7d"), 16, "--yes"),
        (("--older-than", "7d", "--yes", "--max-delete", "1"), 16, "--max-delete"),
        (("--older-than", "7d", "--yes", "--max-delete", "1%"), 16, "1%"),
        (("--older-than", "7d", "--yes", "--max-delete", "x"), 2, "--max-delete"),
        (("--older-than", "7d", "--only", "socks"), 2, "socks"),
        (("--older-than", "7d", "--only", "chunks", "--only", "snapshots,socks"), 2, "socks"),
        (("--older-than", "7d", "--only", ""), 2, "--only"),
        (("--older-than", "never"), 2, "never"),
        (("--older-than", "2999-01-01"), 2, ""),
        (("--older-than", "7d", "--truncate-ops-log"), 2, "--overwritten-older-than"),
        (("--apply", "/dev/null/plan.jsonl"), 2, "/dev/null/plan.jsonl"),
        (("--older-than", "7d", "--dry-run", "--plan", "/dev/null/plan.jsonl"), 2, "/dev/null/plan.jsonl"),
        (("--older-than", "7d", "--known-missing", "/dev/null/list"), 2, "/dev/null/list"),
        (("--older-than", "7d", "--yes", "--max-runtime", "0s"), 3, "--max-runtime"),
        (("--older-than", "7d", "--yes", "--max-delete", ""), 2, "--max-delete"),
        (("--older-than", "7d", "--yes", "--max-runtime", ""), 2, ""),
        (("--older-than", "7d", "--yes", "--apply", ""), 2, ""),
        (("--older-than", "7d", "--dry-run", "--plan", ""), 2, ""),
        (("--older-than", "7d", "--yes", "--known-missing", ""), 2, ""),
        (("--older-than", "7d", "--yes", "--overwritten-older-than", ""), 2, ""),
    ):  # fmt: skip
        error = failure(*words)
        kind = {2: "usage", 3: "out_of_time", 16: "refused"}[expected]
        assert (error["exit_code"], error["kind"]) == (expected, kind), (words, error)
        assert named in f"{error['message']} {error['hint']}", (words, error)
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


def test_status_must_be_online(failure: Any, repository: Path) -> None:
    open_official(repository).set_status(ic.RepoStatus(ic.RepoAvailability.read_only))
    assert failure("--older-than", "7d", "--dry-run")["kind"] == "refused"


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
    told = json.loads(out)["foreign"]
    assert len(told) == 3 and "chunks/README.txt" in told
    assert all(path in err for path in told)


def test_plan_and_apply(gc: Any, failure: Any, repository: Path, tmp_path: Path) -> None:
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
    assert failure("--apply", str(plan), "--yes")["kind"] == "usage"


def test_parquet_plan(gc: Any, failure: Any, repository: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.parquet"
    words = ("--older-than", "7d", "--dry-run", "--plan", str(plan))
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        assert failure(*words)["kind"] == "usage"
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


def test_damage_is_named(failure: Any, repository: Path) -> None:
    manifest = sorted((repository / "manifests").iterdir())[0]
    for path in (repository / "manifests").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    error = failure("--older-than", "7d", "--yes")
    assert (error["kind"], error["exit_code"]) == ("damaged", 13)
    assert "manifests/" in error["message"]
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
    ("how", "named"),
    [
        ("empty", "line 1"),
        ("another document", "line 1"),
        ("nested", "line 1"),
        ("no version", ""),
        ("no time", ""),
        ("row cut", ""),
        ("row is a list", "line 2"),
        ("kind", "'sock'"),
        ("kind is a list", "[]"),
        ("id", "'../../repo'"),
        ("id is a number", "12"),
        ("row missing", ""),
        ("not text", "line 1"),
    ],
)
def test_edited_plans(
    gc: Any, failure: Any, repository: Path, tmp_path: Path, how: str, named: str
) -> None:
    plan = tmp_path / "plan.jsonl"
    assert gc("--older-than", "7d", "--dry-run", "--plan", str(plan))[0] == 0
    text = break_plan(plan.read_text().splitlines(), how)
    plan.write_bytes(text.encode(errors="surrogateescape"))
    before = files(repository)
    error = failure("--apply", str(plan), "--yes")
    assert error["kind"] == "usage"
    assert str(plan) in error["message"] and named in error["message"]
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


def test_parquet_plans_that_are_none(failure: Any, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    plan = tmp_path / "plan.parquet"
    for write in (
        lambda: None,
        lambda: plan.write_bytes(b"something else"),
        lambda: parquet.write_table(pyarrow.table({"kind": [1]}), plan),
    ):
        write()
        error = failure("--apply", str(plan), "--yes")
        assert error["kind"] == "usage" and str(plan) in error["message"]


@pytest.mark.parametrize("name", ["repo", "chunks/plan.jsonl", "plan.jsonl", "plan.parquet"])
def test_plan_never_replaces_a_file_of_the_repository(
    failure: Any, repository: Path, name: str
) -> None:
    data = live(repository)
    plan = str(repository / name)
    assert failure("--older-than", "7d", "--dry-run", "--plan", plan)["kind"] == "usage"
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
def test_known_missing_with_nonsense(failure: Any, tmp_path: Path, line: str) -> None:
    known = tmp_path / "known"
    known.write_text(f"# a comment\n{line}\n")
    error = failure("--older-than", "7d", "--dry-run", "--known-missing", str(known))
    assert error["kind"] == "usage"
    assert f"{known}, line 2" in error["message"] and len(error["message"]) < 1000


def test_max_delete_counts_what_only_leaves(gc: Any, failure: Any) -> None:
    words = ("--older-than", "7d", "--dry-run", "--only", "snapshots")
    count = json.loads(gc(*words, "--json")[1])["snapshots_deleted"]
    assert gc(*words, "--max-delete", str(count))[0] == 0
    assert failure(*words, "--max-delete", str(count - 1))["kind"] == "refused"


def test_young_backups_need_a_young_cutoff(gc: Any, failure: Any, repository: Path) -> None:
    """A writer that is about to change `repo` has copied it, and nothing names the copy yet."""
    copy = repository / "overwritten" / f"repo.31000000000000.{'0' * 20}"
    copy.write_bytes((repository / "repo").read_bytes())
    words = ("--yes", "--overwritten-older-than", "0s")
    error = failure("--older-than", "7d", *words)
    assert error["kind"] == "refused" and "--overwritten-older-than" in error["hint"]
    assert gc("--older-than", "7d", "--yes", "--overwritten-older-than", "2999-01-01")[0] == 16
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


def test_a_plan_of_another_repository(
    gc: Any, failure: Any, repository: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.jsonl"
    assert gc("--older-than", "7d", "--dry-run", "--plan", str(plan))[0] == 0
    other = repository.rename(tmp_path / "other")
    before = files(other)
    error = failure("-r", str(other), "--apply", str(plan), "--yes")
    assert error["kind"] == "refused" and str(repository) in error["message"]
    assert files(other) == before


def test_max_delete_counts_backups(gc: Any, failure: Any, repository: Path) -> None:
    words = ("--older-than", "7d", "--overwritten-older-than", "7d", "--truncate-ops-log", "--yes")
    assert gc("--older-than", "7d", "--yes")[0] == 0
    age_all(repository, 30 * 86400)
    before = sorted((repository / "overwritten").iterdir())
    assert failure(*words, "--max-delete", "3")["kind"] == "refused"
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
