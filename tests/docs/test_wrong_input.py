"""Every command with ten kinds of wrong input.

Each error has one sentence that names the mistake, the right exit code, no traceback, and if the
user can fix it, a hint with a command that exists.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from icectl.cli.app import COMMANDS, GROUPS, load
from icectl.cli.main import run

GOOD: dict[str, tuple[str, ...]] = {
    "ops-log show": ("@0",),
    "restore": ("--to", "@1"),
    "init": ("new",),
    "diff": ("main~1",),
    "branch create": ("another",),
    "branch delete": ("reprocessing",),
    "branch reset": ("reprocessing", "main"),
    "tag create": ("another",),
    "tag delete": ("release-1.0",),
    "status set": ("online",),
    "config set": ("inline_chunk_threshold_bytes", "5"),
    "metadata set": ("key", "1"),
    "metadata unset": ("key",),
    "flags set": ("move_node", "on"),
    "expire": ("--keep-last", "2", "--dry-run"),
    "gc": ("--older-than", "7d", "--dry-run"),
    "report": ("--html", "page.html"),
    "export": ("refs", "--to", "out"),
    "sql": ("select 1",),
    "inspect-file": ("repo",),
    "remote show": ("name",),
    "remote add": ("name", "place"),
    "remote remove": ("name",),
    "demo": ("directory",),
}
ALL = [command.name for command in COMMANDS]
WITH_REPOSITORY = [
    command.name
    for command in COMMANDS
    # init has its own location, doctor reports failures as checks, sql starts Spark first.
    if any(one.name == "repo" for one in load(command.name).params)
    and command.name not in ("init", "doctor", "sql")
]


@pytest.fixture
def weather(demo_original: Path, tmp_path: Path) -> Path:
    """The demo repository, for calls that change nothing."""
    place = tmp_path / "weather"
    place.symlink_to(demo_original)
    return place


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def call(command: str, *words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run([*command.split(), *words], environ)
        captured = capsys.readouterr()
        check_message(captured.err)
        return code, captured.err

    return call


def check_message(text: str) -> None:
    """One sentence and at most one hint, with commands that exist."""
    lines = text.splitlines()
    assert lines, "a failure without a message"
    assert lines[0].startswith("icectl: error: ")
    assert len(lines[0]) > len("icectl: error: ") + 10
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: "))
    assert "Traceback" not in text
    assert "bug in icectl" not in text
    for first in re.findall(r"\bicectl ([a-z][a-z-]+)", " ".join(lines[1:])):
        assert first in {name.split(" ")[0] for name in ALL} | GROUPS.keys(), text


def words_of(command: str) -> tuple[str, ...]:
    return GOOD.get(command, ())


@pytest.mark.parametrize("command", ALL)
def test_an_option_that_does_not_exist(call, command: str) -> None:
    code, message = call(command, *words_of(command), "--frobnicate")
    assert code == 2
    assert "--frobnicate" in message


@pytest.mark.parametrize("command", ALL)
def test_an_option_without_its_value(call, command: str) -> None:
    option = "--repo" if command in WITH_REPOSITORY else "--frobnicate"
    code, message = call(command, *words_of(command), option)
    assert code == 2
    assert option in message


@pytest.mark.parametrize("command", [name for name in ALL if GOOD.get(name)])
def test_arguments_that_are_missing(call, weather: Path, command: str) -> None:
    words = ("-r", str(weather)) if command in WITH_REPOSITORY else ()
    code, _ = call(command, *words)
    assert code == (16 if command in ("expire", "init") else 2)


@pytest.fixture
def crowded(tmp_path: Path) -> None:
    """`icectl init` without an argument means the current directory."""
    (tmp_path / "something").write_text("")


pytestmark = pytest.mark.usefixtures("crowded")


@pytest.mark.parametrize("command", [n for n in WITH_REPOSITORY if n not in ("validate", "export", "metadata unset")])  # fmt: skip
def test_arguments_that_are_too_many(call, weather: Path, command: str) -> None:
    code, message = call(command, *words_of(command), "one", "two", "three", "-r", str(weather))
    assert code == 2
    assert "three" in message


@pytest.mark.parametrize("command", WITH_REPOSITORY)
def test_a_location_where_nothing_is(call, command: str) -> None:
    code, message = call(command, *words_of(command), "-r", "/nowhere/at/all")
    assert code == 10
    assert "/nowhere/at/all" in message


@pytest.mark.parametrize("command", WITH_REPOSITORY)
def test_a_location_above_the_repository(call, weather: Path, command: str) -> None:
    code, message = call(command, *words_of(command), "-r", str(weather.parent))
    assert code == 10
    assert "weather" in message.partition("hint: ")[2]


@pytest.mark.parametrize("command", WITH_REPOSITORY)
def test_an_unknown_storage(call, command: str) -> None:
    code, message = call(command, *words_of(command), "-r", "ftp://host/path")
    assert code == 2
    assert "s3://" in message


@pytest.mark.parametrize("command", WITH_REPOSITORY)
def test_a_secret_on_the_command_line(call, command: str) -> None:
    code, message = call(
        command, *words_of(command), "-r", "s3://bucket/x",
        "--storage-option", "secret_access_key=hunter2",
    )  # fmt: skip
    assert code == 2
    assert "AWS_PROFILE" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "command", [name for name in WITH_REPOSITORY if name not in ("validate", "repair")]
)
def test_a_damaged_repository(call, demo: Path, command: str) -> None:
    (demo / "repo").write_bytes(b"something else altogether")
    code, message = call(command, *words_of(command), "-r", str(demo))
    assert code == 13
    assert "repo: " in message


def ref_calls() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every command that takes a ref, with a place for it."""
    for name in ("log", "show", "ls", "stats", "validate", "diff"):
        yield name, ("{}",)
    yield "diff", ("main", "{}")
    yield "branch create", ("new", "{}")
    yield "branch reset", ("reprocessing", "{}")
    yield "tag create", ("new", "{}")
    yield "branch reset", ("reprocessing", "main", "--expect", "{}")
    yield "export", ("nodes", "--to", "out", "--ref", "{}")


REF_CALLS = pytest.mark.parametrize(("command", "words"), list(ref_calls()))


@REF_CALLS
@pytest.mark.parametrize(
    ("ref", "hint"),
    [("mian", "did you mean main?"), ("main~999", "icectl log"), ("0000", "icectl tag list")],
)
def test_a_ref_that_is_not_there(
    call, weather: Path, command: str, words: tuple[str, ...], ref: str, hint: str
) -> None:
    code, message = call(command, *(w.format(ref) for w in words), "-r", str(weather))
    assert code == 12
    assert hint in message


@pytest.mark.parametrize(
    ("command", "words"),
    [pair for pair in ref_calls() if not any(word.startswith("--") for word in pair[1])],
)
@pytest.mark.parametrize("place", ["./weather", "weather", "s3://bucket/weather"])
def test_a_location_in_place_of_a_ref(
    call, weather: Path, command: str, words: tuple[str, ...], place: str
) -> None:
    """Even outside a repository: this is a common first call."""
    code, message = call(command, *(word.format(place) for word in words))
    assert code in (2, 10)
    assert f" -r {place}" in message


@pytest.mark.parametrize(
    "line",
    [
        "log --since someday",
        "log --until 2024-13-01",
        "ops-log --since 3",
        "expire --older-than soon",
        "expire --keep-within forever",
        "gc --older-than 7",
        "gc --older-than 7d --max-runtime long",
        "gc --older-than 2100-01-01",
        "stats --older-than x",
    ],
)
def test_invalid_times(call, weather: Path, line: str) -> None:
    code, message = call(line, "-r", str(weather))
    assert code == 2
    assert "hint: " in message


@pytest.mark.parametrize(
    "line",
    [
        "log -n many",
        "log -n -1",
        "ls --depth -2",
        "expire --keep-last 0",
        "gc --older-than 7d --max-delete lots",
        "gc --older-than 7d --max-delete 101%",
        "validate --max-findings 0",
        "config set compression.level high",
    ],
)
def test_invalid_numbers(call, weather: Path, line: str) -> None:
    code, _ = call(line, "-r", str(weather))
    assert code == 2


def test_a_directory_where_a_file_is_expected(call, weather: Path) -> None:
    code, message = call("inspect-file", "weather")
    assert code == 2
    assert "icectl log -r weather" in message
    assert call("inspect-file", "", "-r", "weather")[0] == 2


def test_a_repository_that_lost_its_directory(call, demo: Path) -> None:
    shutil.rmtree(demo / "snapshots")
    code, message = call("ls", "-r", str(demo))
    assert code in (13, 14)
    assert "snapshots/" in message


@pytest.mark.parametrize("command", ALL)
def test_every_help_can_be_shown(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"], {}) == 0
    assert "Usage: icectl " in capsys.readouterr().out
