"""What goes wrong: the right exit code, one sentence, and a hint where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.format.repo import decode_repo, encode_repo
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from tests.cli.small_repository import sid, write_small_repository
from tests.command_line import Icectl, Outcome
from tests.patience import PATIENCE_SECONDS
from tests.servers.processes import free_port
from tests.servers.s3 import S3Server


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return write_small_repository(tmp_path / "repository")


def refused(outcome: Outcome, code: int, sentence: str, hint: str | None = None) -> None:
    """One sentence and at most one hint, no output, no traceback."""
    assert (outcome.code, outcome.out) == (code, ""), outcome.err
    first, *rest = outcome.err.splitlines()
    assert first.startswith("icectl: error: ")
    assert sentence in first
    assert len(rest) == (0 if hint is None else 1), rest
    if hint is not None:
        assert rest[0].startswith("hint: ")
        assert hint in rest[0]


@pytest.mark.parametrize(
    ("call", "code", "sentence", "hint"),
    [
        ("log nothing", 12, "there is no branch, tag or snapshot nothing", "branch list"),
        ("log mian", 12, "there is no branch, tag or snapshot mian", "did you mean main?"),
        ("log gone", 12, "the tag gone was deleted", None),
        (f"log {'x' * 5000}", 12, "there is no branch, tag or snapshot xxx", "branch list"),
        (f"ls main {'x' * 5000}", 12, "there is no node /xxx", "icectl ls"),
        ("inspect-file s3://bucket", 2, "is not a file", "s3://BUCKET/PREFIX/FILE"),
        ("inspect-file s3://", 2, "is not a file", "s3://BUCKET/PREFIX/FILE"),
        ("log main~9", 12, "main has fewer than 9 ancestors", "icectl log main"),
        ("log 0000", 12, "there is no branch, tag or snapshot 0000", "branch list"),
        ("log branch:", 12, "there is no branch ''", None),
        ("log branch:v1", 12, "there is no branch v1", None),
        ("log --all main", 2, "--all and a REF", "omit one of them"),
        ("log --all --path /a", 2, "--all and --path", "omit one of them"),
        ("log --since someday", 2, "'someday' is not a time", "2024-01-31"),
        ("log --path /nowhere/else", 12, "there never was a node /nowhere/else", "icectl ls"),
        ("log --path /a/tt", 12, "there never was a node /a/tt", "/b/t"),
        ("log ./here", 2, "./here is a location", "icectl log [OPTIONS]"),
        ("show s3://bucket/x", 2, "s3://bucket/x is a location", "icectl show [OPTIONS]"),
        ("ls /a", 2, "/a is a location", "for a node, run icectl ls main /a -r "),
        ("ls main /a/t", 12, "there is no node /a/t", "did you mean /b/t?"),
        ("ls main /bb", 12, "there is no node /bb", "/b"),
        ("branch create dev", 16, "the branch dev exists already", "branch reset dev"),
        ("branch create new nothing", 12, "there is no branch, tag or snapshot nothing", "list"),
        ("branch delete main", 16, "the branch main cannot be deleted", "branch reset main"),
        ("branch delete devv", 12, "there is no branch devv", "did you mean dev?"),
        ("branch delete dev --expect main", 11, "the branch dev points at 8000", "icectl log"),
        ("branch reset dev main --expect v1", 11, "the branch dev points at 8000", "icectl log"),
        ("branch reset nothing main", 12, "there is no branch nothing", None),
        ("branch create", 2, "missing argument", "--help"),
        ("branch create x --at-op @1", 2, "no such option: --at-op", "branch create --help"),
        ("log --jsn", 2, "--json", "log --help"),
        ("log --at-op nonsense!", 2, "'nonsense!' is not an operation", "write @N"),
        ("log --at-op @99", 12, "there is no operation @99", "icectl ops-log"),
        ("undo 3", 2, "'3' is not an operation", "did you mean @3?"),
        ("tag create v1", 16, "the tag v1 exists already", "tags never move"),
        ("tag create gone", 16, "never used again", "another name"),
        ("tag delete nothing", 12, "there is no tag nothing", None),
        ("ops-log --kind nonsense", 2, "'nonsense' for --kind", "new_commit"),
        ("status set online --reason x", 2, "online has no reason", None),
        ("status set sideways", 2, "sideways", "--help"),
        ("config get nothing.at.all", 12, "the configuration has no nothing.at.all", "config get"),
        ("config set compression.levels 3", 2, "no configuration key", "compression.level"),
        ("config set compression 3", 2, "no configuration key", "compression.algorithm"),
        ("config set compression.level 256", 2, "cannot be 256", "from 0 to 255"),
        ("config set compression.level high", 2, "cannot be 'high'", "an integer"),
        ("config set storage.retries.max_tries 0", 2, "cannot be 0", "from 1 to 65535"),
        ("config set manifest.splitting.x 1", 2, "is a structure", "--config-file"),
        ("metadata get nothing", 12, "no metadata named nothing", None),
        ("metadata get ownr", 12, "no metadata named ownr", "did you mean owner?"),
        ("metadata unset nothing", 12, "no metadata named nothing", None),
        ("flags set nonsense on", 2, "there is no feature flag nonsense", "move_node (3)"),
        ("flags set create_tag maybe", 2, "maybe", "--help"),
    ],
)  # fmt: skip
def test_sentence_and_hint(
    icectl: Icectl, repository: Path, call: str, code: int, sentence: str, hint: str | None
) -> None:
    before = (repository / "repo").read_bytes()
    refused(icectl(*call.split(), "-r", str(repository)), code, sentence, hint)
    assert (repository / "repo").read_bytes() == before


@pytest.mark.parametrize(
    "call",
    [
        "log URL",
        "show URL",
        "diff main URL",
        "branch create new URL",
        "branch reset main URL",
        "branch reset main dev --expect URL",
        "tag create new URL",
        "inspect-file URL",
        "inspect-file URL/x",
        "status set URL",
        "nonsense URL",
        "--storage-option secret=HUNTER2 log",
        "--storage-option=secret=HUNTER2 log",
        "log --storage-option secret=HUNTER2",
        "--storage-option secret=HUNTER2== log",
        "log token=HUNTER2",
    ],
)
@pytest.mark.parametrize("url", ["s3://AK:HUNTER2@bucket", "s3://AK:HUN/HUNTER2@bucket"])
def test_a_secret_in_a_wrong_place_is_not_repeated(
    icectl: Icectl, repository: Path, call: str, url: str
) -> None:
    words = [word.replace("URL", url) for word in call.split()]
    outcome = icectl(*words, ICECTL_REPO=str(repository))
    assert outcome.code in (2, 12)
    assert "HUN" not in outcome.out + outcome.err
    assert "HUN" not in icectl(*words, "--json", ICECTL_REPO=str(repository)).err


def test_a_location_that_was_meant_otherwise(
    icectl: Icectl, environ: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    config = Path(environ["ICECTL_CONFIG"])
    config.parent.mkdir()
    config.write_text(f'[repositories.weather]\nlocation = "{repository}"\n')
    refused(icectl("log", "-r", "weahter"), 10, "there is no repository", "did you mean weather?")
    inside = icectl("log", "-r", str(repository / "manifests"))
    refused(inside, 10, "there is no repository", f"-r {repository}")
    for call in ("log", "init", "gc"):
        outcome = icectl(call, "-r", "s3:/bucket/x")
        refused(outcome, 2, "s3:/bucket/x is neither a path nor a URL", "write s3://bucket/x")
    refused(icectl("log", "-r", "file:/a/b"), 2, "neither a path", "write file:///a/b")


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
@pytest.mark.parametrize("url", ["127.0.0.1:9000", "http://user:HUNTER2@host"])
def test_an_endpoint_of_the_environment_is_checked_as_the_option(
    icectl: Icectl, variable: str, url: str
) -> None:
    outcome = icectl("log", "-r", "s3://bucket/x", **{variable: url})
    refused(outcome, 2, f"the variable {variable} ", "")
    assert "HUNTER2" not in outcome.err


def test_google_credentials_of_the_environment_that_are_no_file(
    icectl: Icectl, tmp_path: Path
) -> None:
    file = tmp_path / "credentials.json"
    for sentence in ("cannot be read: no such file", "is not JSON"):
        outcome = icectl("log", "-r", "gs://b/x", GOOGLE_APPLICATION_CREDENTIALS=str(file))
        refused(outcome, 14, f"{file} {sentence}", "GOOGLE_APPLICATION_CREDENTIALS")
        file.write_text("HUNTER2")


NO_UTF8 = "\udcff"
"""How Python shows a byte of the command line that is no UTF-8."""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("status", "set", "offline", "--reason", NO_UTF8), "is not valid UTF-8"),
        (("metadata", "set", NO_UTF8, "x"), "is not valid UTF-8"),
        (("metadata", "set", "a", NO_UTF8), "not valid Unicode"),
        (("metadata", "set", "a", '{"b": ["\\ud800"]}'), "not valid Unicode"),
        (("metadata", "set", "a", f'{{"b": {9**30}}}'), "does not fit into 64 bits"),
        (("metadata", "set", "a", "[" * 100 + "]" * 100), "nests deeper"),
        (("metadata", "set", "a", '{"b\\u0000": 1}'), "not a valid name"),
        (("config", "set", "storage.storage_class", NO_UTF8), "not valid Unicode"),
    ],
)
def test_values_that_cannot_be_stored(
    icectl: Icectl, repository: Path, words: tuple[str, ...], sentence: str
) -> None:
    refused(icectl(*words, "-r", str(repository)), 2, sentence)


def test_numbers_beyond_floats_are_texts(icectl: Icectl, repository: Path) -> None:
    for value in ("1e999", "NaN"):
        assert icectl("metadata", "set", "a", value, "-r", str(repository)).code == 0
        got = icectl("metadata", "get", "a", "--json", "-r", str(repository))
        assert got.document["value"] == value


def test_an_empty_text_is_not_a_default(
    icectl: Icectl, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a script with an unset variable calls must not act on something else."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    refused(icectl("init", ""), 2, "the location is empty", "a path")
    assert not list((tmp_path / "here").iterdir())
    refused(icectl("log", "", "-r", str(repository)), 12, "snapshot ''", "branch list")
    for option in ("--older-than", "--keep-within"):
        outcome = icectl(
            "expire", "--keep-last", "1", option, "", "--dry-run", "-r", str(repository)
        )
        refused(outcome, 2, "'' is not", "write")


def test_as_many_commits_as_no_list_can_have(icectl: Icectl, repository: Path) -> None:
    everything = icectl("log", "-r", str(repository)).out
    assert icectl("log", "-n", str(10**30), "-r", str(repository)).out == everything


def test_places_that_cannot_be_found(
    icectl: Icectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(icectl("log", "-r", "~no-such-user/x"), 2, "home directory", "./~")
    monkeypatch.chdir(tmp_path)
    refused(icectl("inspect-file", "x" * 5000), 10, "the file xxx", "-r LOCATION")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for call in ("log", "log -r x", "init", "init x", "branch list", "remote add a x"):
        refused(icectl(*call.split()), 2, "the current directory no longer exists", "cd")


def test_a_user_without_a_home(
    icectl: Icectl, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs with a number for a user."""
    monkeypatch.chdir(repository.parent)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert icectl("log", "-r", repository.name, HOME="", ICECTL_CONFIG="").code == 0


def test_a_file_is_no_place_for_a_repository(icectl: Icectl, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        location = str(tmp_path / place)
        refused(icectl("init", location), 14, "file is not a directory")
        refused(icectl("log", "-r", location), 10, "there is no repository", "not a directory")
    assert (tmp_path / "file").read_text() == "mine"


def test_init_where_nothing_can_be_made(icectl: Icectl) -> None:
    refused(icectl("init", "/proc/here"), 14, "/proc/here")


def test_init_shows_a_location_on_one_line(icectl: Icectl, tmp_path: Path) -> None:
    outcome = icectl("init", str(tmp_path / "a\n\x1b[31mb"))
    assert outcome.out == f"created a repository of spec version 2 at {tmp_path}/a\\n\\x1b[31mb\n"


@pytest.mark.parametrize(
    ("closed", "call", "code"),
    [
        (1, "log", 1),
        (1, "log --until 1999-01-01", 0),
        (1, "log nothing", 12),
        (2, "log nothing", 12),
        (2, "branch delete dev", 0),
        (0, "expire --keep-last 1", 16),
        (0, "inspect-file -", 0),
    ],
)
def test_closed_streams(
    environ: dict[str, str], repository: Path, closed: int, call: str, code: int
) -> None:
    command = [sys.executable, "-m", "icectl.cli.main", *call.split(), "-r", str(repository)]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}{"<" if closed == 0 else ">"}&-', "sh", *command],
        env=environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["", "with\nnewline", "with\x1bescape"])
@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_names_that_no_terminal_could_show(
    icectl: Icectl, repository: Path, kind: str, name: str
) -> None:
    outcome = icectl(kind, "create", name, "-r", str(repository))
    assert outcome.code == 2
    assert "\x1b" not in outcome.err
    assert len(outcome.err.splitlines()) == 2


def test_names_that_are_parts_of_paths_in_version_1(icectl: Icectl, tmp_path: Path) -> None:
    location = str(tmp_path / "v1")
    assert icectl("init", location, "--spec-version", "1").code == 0
    refused(icectl("branch", "create", "a/b", "-r", location), 2, "contains /", "part of a path")
    for call in ("metadata set a b", "flags set create_tag off", "status set offline"):
        outcome = icectl(*call.split(), "-r", location)
        refused(outcome, 15, "of spec version 1 has no place for", "upgrade")


def test_a_prefix_of_two_snapshots(icectl: Icectl, tmp_path: Path) -> None:
    official = pytest.importorskip("tests.official")
    location = tmp_path / "repository"
    official.linear_history(location, 2)
    first = icectl("log", "--json", "-r", str(location)).document["snapshots"][0]["id"]
    # Ids are random, so a second one with the same beginning is made by hand.
    info = decode_repo((location / "repo").read_bytes())
    raw = SnapshotId.parse(first)
    twin = SnapshotInfo(SnapshotId(raw[:-1] + bytes([raw[-1] ^ 255])), raw, 2**50, "twin")
    edited = replace(info, snapshots=(*info.snapshots, twin))
    (location / "repo").write_bytes(encode_repo(edited))
    outcome = icectl("log", first[:10].lower(), "-r", str(location))
    refused(outcome, 12, "is the beginning of 2 snapshot ids", first)
    assert icectl("log", first, "-r", str(location)).code == 0


def test_a_name_that_is_a_branch_and_a_tag(icectl: Icectl, repository: Path) -> None:
    assert icectl("tag", "create", "dev", "main", "-r", str(repository)).code == 0
    refused(icectl("log", "dev", "-r", str(repository)), 12, "both", "branch:dev or tag:dev")
    tag = icectl("log", "tag:dev", "-n", "1", "--json", "-r", str(repository)).document
    branch = icectl("log", "branch:dev", "-n", "1", "--json", "-r", str(repository)).document
    assert tag["snapshots"][0]["message"] == "moved"
    assert branch["snapshots"][0]["message"] == "experiment"


def test_no_repository(icectl: Icectl, tmp_path: Path) -> None:
    for call in ("log", "branch list", "ops-log", "tag create x", "status set online"):
        outcome = icectl(*call.split(), "-r", str(tmp_path / "nothing"))
        refused(outcome, 10, "there is no repository at", "icectl init")


def test_init_refuses_what_is_taken(
    icectl: Icectl, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(icectl("init", str(repository)), 16, "is already a repository", "icectl log")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    refused(icectl("init", str(tmp_path / "full")), 16, "is not empty: it has thesis.txt", "new")
    monkeypatch.chdir(tmp_path / "full")
    refused(icectl("init"), 16, "is not empty: it has thesis.txt", "new")
    refused(icectl("init", "x", "-r", "y"), 2, "given twice", "icectl init x")
    refused(icectl("init", str(tmp_path / "n"), "--spec-version", "3"), 2, "no spec version 3", "2")
    for bad in ("compression.level=x", "nonsense=1", "compression.level"):
        assert icectl("init", str(tmp_path / "n"), "--config", bad).code == 2
    (tmp_path / "bad.yaml").write_text("compression: {level: x}")
    outcome = icectl("init", str(tmp_path / "n"), "--config-file", str(tmp_path / "bad.yaml"))
    assert outcome.code == 2
    assert not (tmp_path / "n").exists()


def test_two_inits_at_once(environ: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "icectl.cli.main", "init", str(tmp_path / "new")]
    racers = [
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for racer in racers:
        racer.communicate(timeout=PATIENCE_SECONDS)
    assert sorted(racer.returncode for racer in racers) == [0, 16, 16, 16]


def test_an_error_under_json_stands_alone(icectl: Icectl, tmp_path: Path) -> None:
    """A warning from before it would make stderr no JSON."""
    official = pytest.importorskip("tests.official")
    location = tmp_path / "repository"
    official.linear_history(location, 2)
    call = ("diff", "main~1", "main", "--json", "-r", str(location))
    shutil.rmtree(location / "transactions")
    outcome = icectl(*call)
    assert (outcome.code, "comparing the content" in outcome.err) == (0, True)
    shutil.rmtree(location / "manifests")
    assert icectl(*call).error["exit_code"] == 13


def test_a_branch_that_is_there_already(icectl: Icectl, repository: Path) -> None:
    outcome = icectl("branch", "reset", "dev", "dev", "-r", str(repository))
    assert (outcome.out, outcome.err) == (f"branch dev was already at {sid(4)}\n", "")


def test_ops_log_without_any_snapshot(icectl: Icectl, repository: Path) -> None:
    complete = icectl("ops-log", "--json", "-r", str(repository)).document
    shutil.rmtree(repository / "snapshots")
    shutil.rmtree(repository / "transactions")
    assert icectl("ops-log", "--json", "-r", str(repository)).document == complete
    # A branch needs its snapshot no more than the ops log does.
    assert icectl("branch", "list", "-r", str(repository)).code == 0
    for call in ("ls", "stats"):  # damage, and not a storage that failed
        outcome = icectl(call, "-r", str(repository))
        refused(outcome, 13, "the file is missing", "icectl validate")


def test_ops_log_with_a_missing_backup(icectl: Icectl, tmp_path: Path) -> None:
    location = tmp_path / "repository"
    options = ("--config", "num_updates_per_repo_info_file=2")
    assert icectl("init", str(location), *options).code == 0
    for number in range(6):
        assert icectl("tag", "create", f"t{number}", "-r", str(location)).code == 0
    whole = icectl("ops-log", "--json", "-r", str(location)).document["updates"]
    assert [update["kind"] for update in whole] == ["tag_created"] * 6 + ["repo_initialized"]
    needed = sorted((location / "overwritten").iterdir())
    for backup in needed:
        backup.write_bytes(b"damaged")
    outcome = icectl("ops-log", "--json", "-r", str(location))
    assert outcome.code == 3
    # An operation without a state before it can no longer be undone.
    lost = {"undoable": 0, "not_undoable_because": 0}
    for shown, before in zip(outcome.document["updates"], whole, strict=False):
        assert {**shown, **lost} == {**before, **lost}
    assert 0 < len(outcome.document["updates"]) < len(whole)
    assert outcome.document["beyond_reach"]["path"].startswith("overwritten/repo.")
    assert "cannot be shown" in outcome.err
    lines = icectl("ops-log", "--jsonl", "-r", str(location))
    assert (lines.code, len(lines.out.splitlines())) == (3, len(outcome.document["updates"]))
    enough = icectl("ops-log", "-n", "2", "-r", str(location))
    assert (enough.code, enough.err) == (0, "")


def test_show_without_its_transaction_log(icectl: Icectl, repository: Path) -> None:
    (repository / "transactions" / str(sid(3))).unlink()
    outcome = icectl("show", "--json", "-r", str(repository))
    assert outcome.code == 0
    assert outcome.document["snapshot"]["changes"] is None
    assert "transaction log" in outcome.err
    text = icectl("log", "--stat", "--oneline", "-n", "1", "-r", str(repository))
    assert "changes unknown" in text.out


def test_a_damaged_repository(icectl: Icectl, repository: Path) -> None:
    (repository / "snapshots" / str(sid(3))).write_bytes(b"not a snapshot")
    refused(icectl("ls", "-r", str(repository)), 13, f"snapshots/{sid(3)}: ", "icectl validate")
    assert icectl("log", "-r", str(repository)).code == 0
    (repository / "repo").write_bytes(b"not a repo")
    refused(icectl("log", "-r", str(repository)), 13, "repo: ", "icectl validate")


def test_a_file_that_the_user_names_is_missing(icectl: Icectl, repository: Path) -> None:
    name = f"snapshots/{sid(15)}"
    outcome = icectl("inspect-file", name, "-r", str(repository))
    refused(outcome, 12, f"the repository has no file {name}", "Give a path")
    refused(icectl("inspect-file", str(repository / name)), 2, "No such file")


def test_an_old_generation_is_never_changed(icectl: Icectl, shared_fixtures: Path) -> None:
    location = str(shared_fixtures / "test-repo-0.1.0")
    for call in ("branch create x", "tag create x", "branch reset main main~1"):
        outcome = icectl(*call.split(), "-r", location)
        refused(outcome, 15, "can only be read", "icectl upgrade --to TARGET")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything on local disk")
def test_no_permission_on_local_disk(icectl: Icectl, repository: Path) -> None:
    repository.chmod(0o500)
    assert icectl("tag", "create", "x", "-r", str(repository)).code == 14


def test_no_server(icectl: Icectl, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for name, value in S3Server(url).environment.items():
        monkeypatch.setenv(name, value)
    outcome = icectl("log", "-r", "s3://bucket/prefix")
    refused(outcome, 14, "s3://bucket", "endpoint")


@pytest.mark.server
def test_no_permission(
    icectl: Icectl, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = f"s3://{seaweedfs_server.bucket}/permission"
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    assert icectl("init", location).code == 0
    for name, value in seaweedfs_server.reader_environment.items():
        monkeypatch.setenv(name, value)
    assert icectl("log", "-r", location).code == 0
    outcome = icectl("tag", "create", "x", "-r", location)
    assert outcome.code == 14
    assert "test-secret" not in outcome.err


@pytest.mark.server
def test_a_store_without_conditions(
    icectl: Icectl, rclone_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in rclone_server.environment.items():
        monkeypatch.setenv(name, value)
    outcome = icectl("init", f"s3://{rclone_server.bucket}/unconditional")
    assert outcome.code == 16
