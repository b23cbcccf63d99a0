"""Many repositories in one run, as real processes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from icectl.checks.rules import catalogue
from icectl.ops.maintenance_lock import lock_name
from icectl.storage.local import LocalStorage
from tests.cli.terminals import Terminal
from tests.command_line import Icectl, Outcome
from tests.maintain.repositories import check_kept, digest, make_old, read, write_repository
from tests.official import built, open_official
from tests.patience import PATIENCE_SECONDS, assert_within
from tests.servers.latency import latency_proxy
from tests.servers.processes import free_port
from tests.servers.s3 import S3Server

STATE = ".local/state/icectl"
MAINTENANCE = """
[repositories.{name}.policies.short]
keep_last = 2
keep_tagged = ["*"]
[repositories.{name}.maintenance]
expire = "short"
gc_older_than = "7d"
validate = "chunks"
[[repositories.{name}.maintenance.delete_branches]]
match = "tmp-*"
older_than = "1s"
"""


def let_branches_age(since: float) -> None:
    """Wait until more than a second has passed, so that the rule for branches applies."""
    time.sleep(max(0.0, 1.1 - (time.time() - since)))


@pytest.fixture
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = built(tmp_path_factory, write_repository)
    let_branches_age((found / "repo").stat().st_mtime)
    return found


class Config:
    """The config file; `add` makes a copy of the original and maintains it."""

    def __init__(self, environ: dict[str, str], original: Path, directory: Path) -> None:
        self.path = Path(environ["ICECTL_CONFIG"])
        self.path.parent.mkdir()
        self.state = Path(environ["HOME"]) / STATE
        self._original = original
        self._directory = directory

    def add(self, name: str, location: str | None = None, **options: str) -> Path:
        where = self._directory / name
        if location is None:
            shutil.copytree(self._original, where)
            make_old(where)
        with self.path.open("a") as file:
            file.write(f'[repositories.{name}]\nlocation = "{location or where}"\n')
            if options:
                pairs = "".join(f'{key} = "{value}"\n' for key, value in options.items())
                file.write(f"[repositories.{name}.storage_options]\n{pairs}")
            file.write(MAINTENANCE.format(name=name))
        return where

    def lock(self, where: Path) -> Path:
        return self.state / f"{lock_name(LocalStorage(where))}.lock"


@pytest.fixture
def config(environ: dict[str, str], original: Path, tmp_path: Path) -> Config:
    return Config(environ, original, tmp_path / "repositories")


def by_name(outcome: Outcome) -> dict[str, Any]:
    return {one["name"]: one for one in outcome.document["repositories"]}


def unreachable() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.server
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_five_repositories(
    process: Icectl,
    config: Config,
    original: Path,
    seaweedfs_server: S3Server,
    jobs: str,
    tmp_path: Path,
) -> None:
    local, damaged, closed = (config.add(name) for name in ("local", "damaged", "closed"))
    prefix = f"maintain-{jobs}-{os.getpid()}"
    on_server = seaweedfs_server.official_storage(prefix)
    write_repository(on_server)
    config.add("s3", f"s3://{seaweedfs_server.bucket}/{prefix}", endpoint_url=seaweedfs_server.url)
    config.add("gone", "s3://bucket/prefix", endpoint_url=unreachable())
    lost = open_official(damaged).lookup_branch("release-1")
    (damaged / "snapshots" / str(lost)).unlink()
    assert process("status", "set", "read_only", "-r", "closed", "--reason", "audit").code == 0
    before = {"damaged": digest(damaged), "closed": digest(closed), "original": digest(original)}
    read_before = {"local": read(local), "s3": read(on_server)}
    time.sleep(2)  # the server's times have whole seconds

    variables = seaweedfs_server.environment
    del variables["AWS_ENDPOINT_URL"]
    outcome = process("maintain", "--all", "--yes", "--json", "--jobs", jobs, **variables)
    assert (outcome.code, outcome.err) == (3, "")
    found = by_name(outcome)
    codes = {name: one["exit_code"] for name, one in found.items()}
    assert codes == {"local": 0, "damaged": 13, "closed": 0, "s3": 0, "gone": 14}

    for name, where in (("local", local), ("s3", on_server)):
        one = found[name]
        assert [branch["name"] for branch in one["deleted_branches"]] == ["tmp-1"]
        assert len(one["expire"]["released_snapshots"]) == 4
        assert one["gc"]["is_complete"] and one["validate"]["ok"]
        assert (one["error"], one["skipped_steps"]) == (None, [])
        check_kept(read_before[name], read(where), {"tmp-1"})
    assert found["local"]["gc"]["chunks_deleted"] > 0
    assert found["s3"]["gc"]["chunks_deleted"] == 0  # everything there is new

    error = found["damaged"]["error"]
    assert (error["kind"], error["exit_code"]) == ("damaged", 13)
    assert "-r damaged" in error["hint"]
    assert not found["damaged"]["validate"]["ok"]
    assert {one["step"] for one in found["damaged"]["skipped_steps"]} == {"expire", "gc"}
    assert digest(damaged) == before["damaged"]
    assert found["closed"]["availability"] == "read_only"
    assert found["closed"]["validate"]["ok"] and found["closed"]["gc"] is None
    assert digest(closed) == before["closed"]
    assert digest(original) == before["original"]
    assert found["gone"]["error"]["kind"] == "storage"
    assert found["gone"]["seconds"]["open"] < 30


@pytest.mark.server
def test_a_dead_server_does_not_delay_the_others(process: Icectl, config: Config) -> None:
    config.add("gone", "s3://bucket/prefix", endpoint_url=unreachable(), anonymous="true")
    config.add("local")
    began = time.monotonic()
    outcome = process("maintain", "--all", "--yes", "--jsonl", "--jobs", "2")
    assert_within(30, began)
    assert outcome.code == 3
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(one["name"], one["exit_code"]) for one in lines] == [("local", 0), ("gone", 14)]


def test_text_for_a_mail(process: Icectl, config: Config) -> None:
    where = config.add("weather")
    (config.add("broken") / "repo").write_bytes(b"x" * 50)
    before = digest(where)
    planned = process("maintain", "--all", "--dry-run")
    assert planned.code == 3
    assert digest(where) == before
    assert "tmp-1" in planned.out and "would validate at level chunks" in planned.out
    outcome = process("maintain", "--all", "--yes", "--quiet")
    assert (outcome.code, outcome.err) == (3, "")
    lines = outcome.out.splitlines()
    (line,) = (line for line in lines if line.startswith("weather: "))
    assert line.startswith("weather: done: 1 branch deleted; 4 snapshots released; ")
    (line,) = (line for line in lines if line.startswith("broken: "))
    assert line.startswith("broken: not done")
    assert any("-r broken" in line for line in lines)
    (line,) = (line for line in lines if line.startswith("    ICE0001 "))
    assert catalogue()["ICE0001"].title in line
    assert "1 of 2 repositories done" in lines
    assert "\x1b" not in outcome.out


def test_a_run_with_nothing_to_do(icectl: Icectl, original: Path, environ: dict[str, str]) -> None:
    config = Path(environ["ICECTL_CONFIG"])
    config.parent.mkdir()
    config.write_text(
        f'[repositories.weather]\nlocation = "{original}"\n'
        "[[repositories.weather.maintenance.delete_branches]]\n"
        'match = "nothing-*"\nolder_than = "1s"\n'
    )
    for mode in ("--dry-run", "--yes"):
        outcome = icectl("maintain", "weather", mode)
        assert (outcome.code, outcome.out.count("nothing to do")) == (0, 1)


def test_log_lines_name_the_repository(process: Icectl, config: Config) -> None:
    for name in ("one", "two"):
        config.add(name)
    outcome = process("maintain", "--all", "--yes", "--jobs", "2", "-v")
    assert outcome.code == 0
    writes = [line for line in outcome.err.splitlines() if " wrote repo" in line]
    assert {line.split(": ")[1] for line in writes} == {"one", "two"}


def test_metrics_equal_the_document(process: Icectl, config: Config, tmp_path: Path) -> None:
    config.add("weather")
    (config.add("broken") / "repo").write_bytes(b"x" * 50)
    file = tmp_path / "icectl.prom"
    outcome = process("maintain", "--all", "--yes", "--json", "--metrics", str(file))
    assert outcome.code == 3
    found = by_name(outcome)
    values = {
        (sample.name, *(value for key, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
    }
    for name, one in found.items():
        assert values["icectl_maintenance_exit_code", name] == one["exit_code"]
        for step, seconds in one["seconds"].items():
            assert values["icectl_maintenance_duration_seconds", name, step] == seconds
    gc = found["weather"]["gc"]
    assert gc["chunks_deleted"] > 0
    for kind in ("snapshots", "transaction_logs", "manifests", "chunks", "backups"):
        key = ("icectl_maintenance_deleted_objects", kind, "weather")
        assert values[key] == gc[f"{kind}_deleted"]
    size = gc["bytes_deleted"] + gc["backup_bytes_deleted"]
    assert values["icectl_maintenance_deleted_bytes", "weather"] == size
    assert values["icectl_maintenance_failed_objects", "weather"] == 0
    assert values["icectl_maintenance_findings", "ICE0001", "broken", "error"] == 1
    assert values["icectl_branches", "weather"] == 2  # after the run
    assert ("icectl_branches", "broken") not in values


@pytest.mark.parametrize("words", ["--dry-run", ""])
def test_metrics_that_cannot_be_written(
    icectl: Icectl, config: Config, words: str, tmp_path: Path
) -> None:
    where = config.add("weather")
    before = digest(where)
    file = tmp_path / "x" if words else where / "chunks" / "metrics"
    outcome = icectl("maintain", "--all", "--yes", "--json", "--metrics", str(file), *words.split())
    assert outcome.code == 2
    assert digest(where) == before


@pytest.mark.parametrize("words", [[], ["--jsonl"], ["--json"]])
def test_a_full_disk_for_the_output_stops_nothing(
    config: Config, tmp_path: Path, words: list[str]
) -> None:
    places = [config.add("one"), config.add("two")]
    metrics = tmp_path / "metrics.prom"
    with Path("/dev/full").open("w") as full:
        running = start(config, "--all", "--metrics", str(metrics), *words, stdout=full)
        _, err = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 1, err
    for where in places:
        assert "tmp-1" not in open_official(where).list_branches()
    assert metrics.read_text().count("icectl_maintenance_exit_code{") == 2


@pytest.mark.parametrize("option", ["--json", "--jsonl", "--quiet"])
def test_a_full_disk_for_the_metrics_does_not_hide_the_results(
    process: Icectl, config: Config, option: str
) -> None:
    for name in ("one", "two"):
        config.add(name)
    outcome = process("maintain", "--all", "--yes", "--metrics", "/dev/full", option)
    assert outcome.code == 1
    assert "/dev/full" in outcome.err
    if option == "--json":
        assert {one["exit_code"] for one in by_name(outcome).values()} == {0}
    elif option == "--quiet":
        assert "2 of 2 repositories done" in outcome.out
    else:
        assert len(outcome.out.splitlines()) == 2


def test_metrics_never_replace_a_file_of_a_repository(icectl: Icectl, config: Config) -> None:
    where = config.add("weather")
    config.path.write_text(config.path.read_text().replace(f'"{where}"', f'"file://{where}"'))
    before = digest(where)
    outcome = icectl("maintain", "--all", "--yes", "--metrics", str(where / "repo"))
    assert outcome.code == 2
    assert digest(where) == before


# ── a lock for each repository ───────────────────────────────────────────────────────────


@pytest.fixture
def held(config: Config) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A repository that another process is maintaining, as far as its lock says."""
    where = config.add("weather")
    lock = config.lock(where)
    lock.parent.mkdir(mode=0o700, parents=True)
    program = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield where, process
        process.communicate()


def test_a_busy_repository_is_left_alone(
    process: Icectl, config: Config, held: tuple[Path, subprocess.Popen[str]]
) -> None:
    where, other = held
    before = digest(where)
    config.add("free")
    outcome = process("maintain", "--all", "--yes", "--json")
    assert outcome.code == 3
    found = by_name(outcome)
    assert (found["weather"]["exit_code"], found["weather"]["error"]["kind"]) == (11, "busy")
    assert found["free"]["exit_code"] == 0
    assert digest(where) == before
    assert process("maintain", "weather", "--yes").code == 11
    assert process("maintain", "weather", "--dry-run").code == 0

    waiting = start(config, "weather", "--json", "--wait", "5m")
    time.sleep(1)
    assert waiting.poll() is None
    other.kill()  # the lock ends with its process
    out, _ = waiting.communicate(timeout=PATIENCE_SECONDS)
    assert waiting.returncode == 0
    assert json.loads(out)["repositories"][0]["exit_code"] == 0


def start(
    config: Config, *words: str, stdout: Any = subprocess.PIPE, **variables: str
) -> subprocess.Popen[str]:
    home = config.path.parents[1]
    command = [sys.executable, "-m", "icectl.cli.main", "maintain", *words, "--yes"]
    return subprocess.Popen(
        command,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "ICECTL_CONFIG": str(config.path)}
        | variables,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_waiting(
    config: Config, held: tuple[Path, subprocess.Popen[str]], number: signal.Signals
) -> None:
    where, _ = held
    before = digest(where)
    waiting = start(config, "weather", "--json", "--wait", "5m")
    opened, lock = Path(f"/proc/{waiting.pid}/fd"), config.lock(where)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(lock.samefile(file) for file in opened.iterdir() if file.exists()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=PATIENCE_SECONDS)
    assert waiting.returncode == 130, err
    (found,) = json.loads(out)["repositories"]
    assert (found["exit_code"], found["error"]["kind"]) == (130, "interrupted")
    assert digest(where) == before


def test_no_time_to_wait(
    process: Icectl, config: Config, held: tuple[Path, subprocess.Popen[str]]
) -> None:
    outcome = process(
        "maintain", "weather", "--yes", "--json", "--wait", "5m", "--max-runtime", "1s"
    )
    assert outcome.code == 3
    assert by_name(outcome)["weather"]["error"]["kind"] == "out_of_time"


def test_the_lock_file(process: Icectl, config: Config) -> None:
    where = config.add("weather")
    assert process("maintain", "weather", "--yes").code == 0
    assert config.state.stat().st_mode & 0o777 == 0o700
    lock = config.lock(where)
    assert lock.stat().st_mode & 0o777 == 0o600
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_link_in_place_of_the_lock_is_not_followed(
    process: Icectl, config: Config, tmp_path: Path
) -> None:
    where = config.add("weather")
    config.state.mkdir(mode=0o700, parents=True)
    config.lock(where).symlink_to(tmp_path / "target")
    outcome = process("maintain", "weather", "--yes")
    assert outcome.code == 0 and "no lock" in outcome.err
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("state", ["file", "shared", "relative", "no home"])
def test_without_a_place_for_the_lock(
    process: Icectl, config: Config, tmp_path: Path, state: str
) -> None:
    """Two runs at once are safe, so the work is done; on a full disk it may free space."""
    config.add("weather")
    base = tmp_path / "state"
    variables = {"XDG_STATE_HOME": str(base)}
    if state == "file":
        base.write_text("")
    elif state == "shared":
        (base / "icectl").mkdir(parents=True)
        (base / "icectl").chmod(0o777)
    elif state == "relative":
        variables = {"XDG_STATE_HOME": "state"}
    else:
        variables = {"HOME": "", "XDG_STATE_HOME": str(base)}
    outcome = process("maintain", "weather", "--yes", "--json", **variables)
    assert outcome.code == 0
    assert ("no lock" in outcome.err) == (state in ("file", "shared"))


def test_two_names_of_one_repository_take_turns(process: Icectl, config: Config) -> None:
    where = config.add("weather")
    link = where.with_name("link")
    link.symlink_to(where)
    config.add("again", str(link))
    outcome = process("maintain", "--all", "--yes", "--json", "--jobs", "2")
    assert outcome.code == 0
    released = [len(one["expire"]["released_snapshots"]) for one in by_name(outcome).values()]
    assert sorted(released) == [0, 4]


# ── time and interruption ────────────────────────────────────────────────────────────────


@pytest.fixture
def slow(seaweedfs_server: S3Server, config: Config) -> Iterator[dict[str, str]]:
    """The repository `slow`, whose server takes half a second per request; and what clients need."""
    prefix = f"maintain-slow-{os.getpid()}-{time.monotonic_ns()}"
    write_repository(seaweedfs_server.official_storage(prefix))
    let_branches_age(time.time())
    with latency_proxy(seaweedfs_server.url, 0.5) as proxy:
        config.add("slow", f"s3://{seaweedfs_server.bucket}/{prefix}", endpoint_url=proxy.url)
        variables = seaweedfs_server.environment
        del variables["AWS_ENDPOINT_URL"]
        yield variables


def wait_for_lock(config: Config) -> None:
    """Until a process has a lock, so that it is at work."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (config.state.is_dir() and any(config.state.iterdir())):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)


@pytest.mark.server
def test_two_processes_at_once(config: Config, slow: dict[str, str], process: Icectl) -> None:
    first = start(config, "slow", "--json", **slow)
    wait_for_lock(config)
    second = process("maintain", "slow", "--yes", "--json", **slow)
    assert first.poll() is None
    assert (second.code, by_name(second)["slow"]["error"]["kind"]) == (11, "busy")
    out, _ = first.communicate(timeout=PATIENCE_SECONDS)
    assert first.returncode == 0, out


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c(config: Config, slow: dict[str, str], number: signal.Signals) -> None:
    where = config.add("later")
    before = digest(where)
    running = start(config, "--all", "--json", **slow)
    wait_for_lock(config)
    running.send_signal(number)
    began = time.monotonic()
    out, err = running.communicate(timeout=PATIENCE_SECONDS)
    assert_within(2, began)
    assert (running.returncode, err) == (130, "")
    found = {one["name"]: one for one in json.loads(out)["repositories"]}
    assert [one["exit_code"] for one in found.values()] == [130, 130]
    assert found["slow"]["error"]["kind"] == "interrupted"
    assert found["later"]["error"]["message"] == "interrupted before it was begun"
    assert digest(where) == before


@pytest.mark.server
def test_ctrl_c_reports_what_was_done(
    config: Config, slow: dict[str, str], process: Icectl, seaweedfs_server: S3Server
) -> None:
    before = len(snapshots(process, slow, seaweedfs_server))
    running = start(config, "slow", "--json", **slow)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(snapshots(process, slow, seaweedfs_server)) == before:
        assert time.monotonic() < deadline
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_SECONDS)
    assert (running.returncode, err) == (130, "")
    (found,) = json.loads(out)["repositories"]
    assert (found["exit_code"], found["error"]["kind"]) == (130, "interrupted")
    assert [one["name"] for one in found["deleted_branches"]] == ["tmp-1"]
    assert len(found["expire"]["released_snapshots"]) == 4
    assert found["location"].startswith("s3://")
    assert found["gc"] is None or not found["gc"]["is_complete"]


def snapshots(process: Icectl, variables: dict[str, str], server: S3Server) -> list[Any]:
    """Those of the repository `slow`, read without the proxy."""
    direct = ("--storage-option", f"endpoint_url={server.url}")
    outcome = process("log", "--all", "--json", "-r", "slow", *direct, **variables)
    found: list[Any] = outcome.document["snapshots"]
    return found


@pytest.mark.server
def test_max_runtime_is_for_all(config: Config, slow: dict[str, str], process: Icectl) -> None:
    where = config.add("later")
    before = digest(where)
    outcome = process("maintain", "--all", "--yes", "--json", "--max-runtime", "2s", **slow)
    assert outcome.code == 3
    found = by_name(outcome)
    for one in found.values():
        assert (one["exit_code"], one["error"]["kind"]) == (3, "out_of_time")
    assert {one["step"] for one in found["later"]["skipped_steps"]} == {
        "delete_branches", "expire", "gc", "validate",
    }  # fmt: skip
    assert digest(where) == before


def test_max_runtime_ends_a_request_that_is_never_answered(config: Config, process: Icectl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config.add("silent", "s3://bucket/prefix", endpoint_url=url, anonymous="true")
        before = digest(where := config.add("later"))
        began = time.monotonic()
        outcome = process("maintain", "--all", "--yes", "--json", "--max-runtime", "1s")
        assert_within(30, began)
    assert outcome.code == 3
    found = by_name(outcome)
    assert found.keys() == {"silent", "later"}
    for one in found.values():
        assert (one["exit_code"], one["error"]["kind"]) == (3, "out_of_time")
    assert digest(where) == before


# ── at a terminal ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", ["y", "n"])
def test_one_question_for_the_whole_plan(
    environ: dict[str, str], config: Config, answer: str
) -> None:
    places = [config.add("one"), config.add("two")]
    before = [digest(where) for where in places]
    command = [sys.executable, "-m", "icectl.cli.main", "maintain", "--all"]
    with Terminal(command, {**environ, "TERM": "xterm", "NO_COLOR": "1"}) as terminal:
        terminal.read_until("[y/n]")
        assert terminal.seen.count("would delete the branch tmp-1") == 2
        assert [digest(where) for where in places] == before
        terminal.send(f"{answer}\n")
        _, code = terminal.finish()
    assert code == (0 if answer == "y" else 16)
    changed = [digest(where) != old for where, old in zip(places, before, strict=True)]
    assert changed == [answer == "y"] * 2


def test_secrets_are_never_printed(process: Icectl, config: Config, tmp_path: Path) -> None:
    config.add("leaky", "s3://user:hunter2hunter2@bucket/x")
    config.add("signed", "https://127.0.0.1:1/x?X-Amz-Signature=hunter2hunter2")
    file = tmp_path / "metrics"
    for words in (["--json"], ["--dry-run"], ["--metrics", str(file), "-vv"]):
        outcome = process("maintain", "--all", "--yes", *words)
        assert outcome.code == 2
        assert "hunter2" not in outcome.out + outcome.err
    assert "hunter2" not in file.read_text()
