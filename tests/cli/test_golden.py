"""The output of commands on a repository with fixed ids, compared whole.

`golden/` has what a pipe gets from every reading command, `screens/` what a person sees on
terminals of 60, 80 and 120 columns. `ICECTL_UPDATE_GOLDEN=1 pytest tests/cli/test_golden.py`
writes the files again: read the diff.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.small_repository import NOW, write_small_repository
from tests.cli.terminals import Terminal
from tests.command_line import Icectl

GOLDEN = Path(__file__).parent / "golden"
SCREENS = Path(__file__).parent / "screens"
CALLS = [
    "log",
    "log --json",
    "log --jsonl dev",
    "log --oneline --stat dev",
    "log --stat --json -n 1 main~1",
    "log --all --oneline",
    "log --all --graph --oneline",
    "log --all --graph --stat",
    "log --graph --oneline --until 2023-11-14T23:30:00Z",
    "log --all --graph --oneline --since 12h",
    "log --oneline --since 12h30m --until 2023-11-15T01:00:00Z",
    "log --path /b/t --oneline",
    "log --path /old --oneline",
    "show",
    "show main~1",
    "show dev --json",
    "ls",
    "ls main /b --json",
    "ls --jsonl main b",
    "ls v1 / --tree",
    "ls v1 / --depth 1",
    "branch list",
    "branch list --json",
    "branch list --jsonl",
    "tag list",
    "tag list --json",
    "ops-log",
    "ops-log --json",
    "ops-log --jsonl -n 2 --kind new_commit --branch main",
    "ops-log --since 2023-11-14T22:18:00Z --until 2023-11-14T22:20:30Z",
    "status",
    "status --json",
    "config get",
    "config get --json",
    "config get inline_chunk_threshold_bytes",
    "config get compression.level --json",
    "metadata get",
    "metadata get --json",
    "metadata get owner",
    "flags list",
    "flags list --json",
]
ON_SCREEN = [
    "log",
    "log --oneline --all --graph",
    "show",
    "ls",
    "ls --tree",
    "branch list",
    "tag list",
    "ops-log",
    "diff main~2 main",
    "expire --keep-last 1 --dry-run",
    "expire --help",
    "--help",
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_repository(tmp_path_factory.mktemp("small") / "repository")


def slug(call: str) -> str:
    return call.replace("/", "+").replace(" ", "_").replace("--", "").replace(":", ".")


def compare(output: str, golden: Path) -> None:
    if os.environ.get("ICECTL_UPDATE_GOLDEN"):
        golden.write_text(output, encoding="utf-8")
    assert output == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("call", CALLS)
def test_output(icectl: Icectl, repository: Path, call: str) -> None:
    outcome = icectl(*call.split(), "-r", str(repository), ICECTL_NOW=NOW)
    assert (outcome.code, outcome.err) == (0, "")
    output = outcome.out.replace(str(repository), "REPOSITORY")
    compare(output, GOLDEN / f"{slug(call)}.txt")
    assert "\x1b" not in output


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("call", ON_SCREEN)
def test_screen(environ: dict[str, str], repository: Path, call: str, width: int) -> None:
    # On a slow machine, stderr would show progress as well.
    without_stderr = ["sh", "-c", 'exec "$@" 2>/dev/null', "sh"]
    command = [*without_stderr, sys.executable, "-m", "icectl.cli.main", *call.split()]
    terminal_variables = {"TERM": "xterm", "NO_COLOR": "1", "PAGER": "cat"}
    variables = {**terminal_variables, "ICECTL_NOW": NOW, "ICECTL_REPO": str(repository)}
    with Terminal(command, {**environ, **variables}, columns=width) as terminal:
        text, code = terminal.finish()
    assert code == 0
    lines = [line.rstrip() for line in text.replace(str(repository), "REPOSITORY").splitlines()]
    assert max(map(len, lines)) <= width
    compare("\n".join(lines) + "\n", SCREENS / f"{slug(call)}-{width}.txt")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {slug(call) for call in CALLS}


def test_a_real_process_prints_the_same(process: Icectl, repository: Path) -> None:
    outcome = process("log", "--all", "--graph", "--oneline", "-r", str(repository))
    assert (outcome.code, outcome.err) == (0, "")
    golden = GOLDEN / f"{slug('log --all --graph --oneline')}.txt"
    assert outcome.out == golden.read_text(encoding="utf-8")
