"""What is told beside the result: commands to paste, notes, and what no REF means."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small_repository import sid, write_small_repository
from tests.command_line import Icectl
from tests.patience import PATIENCE_SECONDS


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
    assert "icectl log -r 'my w'\n" in icectl("init", "my w").err
    assert "icectl log -r 'my w'\n" in icectl("init", "-r", "my w").err
    monkeypatch.chdir(repository)
    assert "with icectl log\n" in icectl("init").err


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


def test_until_a_day_includes_it(icectl: Icectl, repository: Path) -> None:
    day = ("--since", "2023-11-14", "--until", "2023-11-14", "--jsonl", "-r", "my w")
    assert len(icectl("log", *day).out.splitlines()) == 2
    assert len(icectl("ops-log", *day).out.splitlines()) == 9


@pytest.mark.parametrize(
    ("call", "note"),
    [
        ("log --since 2999-01-01", "no matching commits"),
        ("log --until 1999-01-01 --graph", "no matching commits"),
        ("ops-log --branch nope", "no matching operations"),
        ("metadata get", "the repository has no metadata"),
    ],
)
def test_nothing_to_show_is_told(icectl: Icectl, repository: Path, call: str, note: str) -> None:
    assert icectl("metadata", "unset", "owner", "list", "-r", "my w").code == 0
    outcome = icectl(*call.split(), "-r", "my w")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", f"icectl: {note}\n")
    for option in ("--quiet", "--json"):
        assert icectl(*call.split(), option, "-r", "my w").err == ""


def test_a_wrong_present_is_named(icectl: Icectl, repository: Path) -> None:
    outcome = icectl("log", "--since", "3d", "-r", "my w", ICECTL_NOW="abc")
    assert outcome.code == 2
    assert "ICECTL_NOW is 'abc', which is not a time" in outcome.err
    assert icectl("log", "--since", "3d", "-r", "my w", ICECTL_NOW="").code == 0


def test_exit_code_and_quiet_print_nothing(icectl: Icectl, repository: Path) -> None:
    for words, code in ((("v1", "main"), 3), (("main~1", "main"), 3), (("main", "main"), 0)):
        outcome = icectl("diff", *words, "--exit-code", "--quiet", "-r", "my w")
        assert (outcome.code, outcome.out, outcome.err) == (code, "", "")
    assert icectl("diff", "v1", "--quiet", "-r", "my w").out != ""
    shown = icectl("diff", "v1", "--quiet", "--exit-code", "--json", "-r", "my w")
    assert (shown.code, shown.document["new_groups"]) == (3, ["/b"])


def test_a_directory_in_place_of_a_ref_leads_to_the_same_command(
    icectl: Icectl, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert icectl("show", "my w", "-r", "my w").err.endswith("with -r 'my w'\n")
    assert icectl("show", "my w").err.endswith("icectl show -r 'my w'\n")
    for place in ("./my w", "/data/repo", "s3://bucket/x", ".", "~/repo"):
        assert icectl("show", place).err.endswith(f"hint: icectl show -r {shlex.quote(place)}\n")


@pytest.mark.parametrize("call", ["--help", "gc --help", "log --help", "branch --help"])
@pytest.mark.parametrize(("stdout", "code"), [("| true", 141), (">&-", 1), ("> /dev/full", 1)])
def test_help_that_nobody_gets(environ: dict[str, str], call: str, stdout: str, code: int) -> None:
    """Like every other output."""
    if stdout == "| true":
        # The reader is gone before anything is written.
        script = '{ sleep 0.2; "$@"; echo $? >&2; } | true'
    else:
        script = f'"$@" {stdout}; echo $? >&2'
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "icectl.cli.main", *call.split()],
        env=environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    *told, last = done.stderr.splitlines()
    assert int(last) == code
    assert len(told) == (0 if code == 141 else 1)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("ls b -r PLACE", "give the path after the REF: icectl ls main /b -r 'my w'"),
        ("ls b/t -r PLACE", "give the path after the REF: icectl ls main /b/t -r 'my w'"),
        ("ls /b -r PLACE", "for a node, run icectl ls main /b -r 'my w'"),
        ("ls bb -r PLACE", "`icectl branch list -r 'my w'` and `icectl tag list -r 'my w'`"),
        (
            "log nowhere -r PLACE --storage-option follow_links=true",
            "`icectl tag list -r 'my w' --storage-option follow_links=true`",
        ),
        ("log 600 -r PLACE", "give at least 4 characters of it"),
        ("log -r .", "./my w"),
        ("diff --commit main --path /x -r PLACE", f"`icectl ls {sid(3)} -r 'my w'`"),
        ("diff -r PLACE", "`icectl diff --commit REF -r 'my w'`"),
        ("gc -r PLACE", "`icectl gc --older-than 7d --dry-run -r 'my w'`"),
        ("--dry-run gc -r PLACE", "icectl gc --dry-run"),
        ("gc --older-than", "icectl gc --help"),
        ("branch create --expect", "icectl branch create --help"),
        ("-r PLACE --name x branch create", "icectl branch create --help"),
        ("remote add s3://x d", "icectl remote add [OPTIONS] NAME LOCATION"),
        ("remote show PLACE", "list the names: icectl remote list"),
        ("metadata set  b -r PLACE", "write `icectl metadata set KEY VALUE -r 'my w'`"),
    ],
)
def test_hints_fit_the_call(icectl: Icectl, repository: Path, call: str, hint: str) -> None:
    words = ["my w" if word == "PLACE" else word for word in call.split(" ")]
    outcome = icectl("--json", *words)
    assert outcome.code in (2, 10, 12)
    assert hint in outcome.error["hint"]


def test_a_repository_without_its_repo_file_is_recognised(
    icectl: Icectl, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "repo").unlink()
    monkeypatch.chdir(repository)
    outcome = icectl("log", "--json")
    assert outcome.code == 10
    assert "-r LOCATION" not in outcome.error["hint"]


def test_a_refusal_shows_the_plan_and_a_command_that_works(
    icectl: Icectl, repository: Path
) -> None:
    for name in ("one", "two"):
        assert icectl("branch", "create", name, "-r", "my w").code == 0
    refused = icectl("undo", "@0", "-r", "my w")
    assert refused.code == 16
    assert "Would change:" in refused.err
    words = shlex.split(refused.err.splitlines()[-1].partition("run: ")[2])
    assert words == ["icectl", "undo", "@0", "-r", "my w", "--yes"]
    assert icectl(*words[1:]).code == 0
    assert icectl("restore", "--to", "@0", "-r", "my w").out.endswith("\nNothing changes.\n")
    as_json = icectl("undo", "@0", "-r", "my w", "--json")
    assert as_json.error["hint"].endswith("--json --yes")


def test_a_name_that_hides_a_directory_is_reported(icectl: Icectl, repository: Path) -> None:
    write_small_repository(repository.parent / "other")
    assert icectl("remote", "add", "other", "my w").code == 0
    note = "other is a name from the config file; for the directory, write ./other"
    assert icectl("log", "-r", "other").err == f"icectl: {note}\n"
    assert icectl("log", "-r", "./other").err == ""
    assert icectl("log", "-r", "other", "--quiet").err == ""
    assert icectl("log", "-r", "my w").err == ""


def test_init_in_a_damaged_repository_leads_to_repair(icectl: Icectl, repository: Path) -> None:
    assert icectl("branch", "create", "new", "-r", "my w").code == 0
    (repository / "repo").unlink()
    refused = icectl("init", "my w")
    assert refused.code == 16
    assert "`icectl repair -r 'my w'`" in refused.err


def test_azure_without_an_account_is_a_usage_error(icectl: Icectl) -> None:
    refused = icectl("log", "-r", "az://container/prefix")
    assert refused.code == 2
    assert "account=NAME" in refused.err
