"""Colour, width, pager and questions on a real terminal, and none of them elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icectl.demo.write import write_demo_repository
from tests.cli.terminals import Terminal
from tests.engines.fixtures import HAS_SPARK
from tests.patience import slowdown

SCRIPT = """
import operator, sys, time, types
from icectl.cli import app, main
from icectl.cli.context import CommandContext
from icectl.cli.options import YesOption, command
from icectl.render.blocks import Column, Table

def list_things(context: CommandContext) -> None:
    '''List.'''
    rows = [(f"thing {n}", "word " * 30) for n in range(3)]
    name, note = operator.itemgetter(0), operator.itemgetter(1)
    columns = [Column("NAME", name, "branch"), Column("NOTE", note, wraps=True)]
    context.emit_list("things", rows, lambda items: [Table(columns, items)])

def destroy(context: CommandContext, yes: YesOption = False) -> None:
    '''Destroy.'''
    context.confirm("destroy \\x1b[2Jall?", yes=yes, plan=["3 things"])
    context.emit({"done": True}, lambda document: ["destroyed"])

def work(context: CommandContext) -> None:
    '''Work.'''
    with context.progress.phase("counting \\x1b[2Jsheep", 7, "sheep") as counter:
        for _ in range(7):
            time.sleep(0.4)
            counter.advance()
    time.sleep(0.5)
    context.emit({"done": True}, lambda document: ["worked"])

module = types.ModuleType("icectl.cli.commands.planted")
module.EXAMPLES = ""
module.list_things = command(repository=False, jsonl=True)(list_things)
module.destroy = command(repository=False)(destroy)
module.work = command(repository=False)(work)
sys.modules[module.__name__] = module
app.COMMANDS = (
    app.Command("things", "x", "planted:list_things"),
    app.Command("destroy", "x", "planted:destroy"),
    app.Command("work", "x", "planted:work"),
)
main.main()
"""
WIDTH = 60
MOST_SILENCE = 4
"""Seconds: two, and the start of Python on a busy machine."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("demo") / "repository"
    write_demo_repository(root, time.time_ns() // 1000, "icectl")
    return root


def on_terminal(environ: dict[str, str], *arguments: str) -> Terminal:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    return Terminal(command, {"TERM": "xterm", "PAGER": "cat", **environ}, columns=WIDTH)


def shown(environ: dict[str, str], *arguments: str) -> str:
    with on_terminal(environ, *arguments) as terminal:
        text, code = terminal.finish()
    assert code == 0
    return text


def test_a_terminal_gets_colour_and_lines_that_fit(environ: dict[str, str]) -> None:
    text = shown(environ, "things")
    assert "\x1b[1;32mthing 1\x1b[0m" in text
    plain = shown({**environ, "TERM": "dumb"}, "things").splitlines()
    assert max(map(len, plain)) <= WIDTH
    assert sum(line.split().count("word") for line in plain) == 90, "nothing is cut or broken"


@pytest.mark.parametrize(
    ("variables", "arguments"),
    [({"NO_COLOR": "1"}, []), ({"TERM": "dumb"}, []), ({}, ["--no-color"]), ({}, ["--json"])],
)
def test_colour_can_be_declined(
    environ: dict[str, str], variables: dict[str, str], arguments: list[str]
) -> None:
    assert "\x1b" not in shown({**environ, **variables}, "things", *arguments)


def test_work_of_more_than_a_second_is_shown(environ: dict[str, str]) -> None:
    text = shown(environ, "work")
    assert "counting \\x1b[2Jsheep" in text and "worked" in text
    assert re.search(r"5/7 sheep, \d/s, 0:00:0\d left", " ".join(text.split()))
    assert "counting" not in shown(environ, "work", "--quiet")


SLOW = """
import os, time
from icectl.cli import main
from icectl.storage.local import LocalStorage

def slowly(read):
    def read_slowly(*arguments):
        time.sleep(float(os.environ["SECONDS_PER_READ"]))
        return read(*arguments)
    return read_slowly

LocalStorage.read = slowly(LocalStorage.read)
main.main()
"""


@pytest.mark.parametrize(
    ("call", "seconds", "expected"),
    [
        ("log", "1.5", "working 0:00:01"),
        ("expire --keep-last 1 --dry-run", "0.1", r"reading snapshots .*\d/\d, .*0:00:\d\d"),
        ("diff main~2 main", "0.6", r"reading transaction logs .*\d/2"),
        ("diff main~2 main --stat --jsonl", "0.6", r"comparing manifests .*\d/\d groups"),
        ("export nodes chunk_refs --to {to}", "0.6", r"exporting nodes .*0/1 parts"),
        ("undo --dry-run", "1.5", "working 0:00:01"),
    ],
)
def test_nothing_is_silent_for_long(
    environ: dict[str, str], demo: Path, tmp_path: Path, call: str, seconds: str, expected: str
) -> None:
    arguments = call.format(to=tmp_path / "tables").split()
    variables = {**environ, "TERM": "xterm", "PAGER": "cat", "ICECTL_REPO": str(demo)}
    variables["SECONDS_PER_READ"] = seconds
    with Terminal([sys.executable, "-c", SLOW, *arguments], variables) as terminal:
        text, code = terminal.finish()
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[━╸╺]", "", text)
    assert re.search(expected, " ".join(plain.split())), plain
    silence = terminal.longest_silence
    assert silence < MOST_SILENCE or silence < MOST_SILENCE * slowdown()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_SPARK, reason="needs Java and PySpark")
def test_the_start_of_spark_and_its_tasks_are_shown(environ: dict[str, str], demo: Path) -> None:
    query = "select count(distinct path) from chunk_refs"
    command = [sys.executable, "-m", "icectl.cli.main", "sql", query, "--all-snapshots"]
    with Terminal([*command, "-r", str(demo)], {"TERM": "xterm", **environ}) as terminal:
        text, code = terminal.finish()
    assert code == 0
    assert re.search(r"starting Spark .*0:00:0\d", text)
    assert re.search(r"querying on Spark.* \d+/\d+ tasks", text)
    silence = terminal.longest_silence
    assert silence < MOST_SILENCE or silence < MOST_SILENCE * slowdown()


def test_notes_and_errors_break_at_words_but_not_in_commands(
    environ: dict[str, str], demo: Path
) -> None:
    def said(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "icectl.cli.main", *arguments]
        variables = {**environ, "TERM": "xterm", "ICECTL_REPO": str(demo)}
        with Terminal(command, variables, columns=WIDTH) as terminal:
            return terminal.finish()[0].splitlines()

    error = said("gc", "--older-than", "1s")
    assert len(error) > 2 and max(map(len, error)) <= WIDTH
    name = "a-branch-with-a-name-that-fills-the-line"
    said("branch", "create", name, "main", "--quiet")
    *_, label, command = said("branch", "delete", name)
    assert label == "icectl: to undo:"
    assert command.strip().startswith(f"icectl branch create {name} ")
    assert len(command) > WIDTH


def test_json_on_a_terminal_is_indented(environ: dict[str, str]) -> None:
    assert shown(environ, "things", "--json").startswith('{\n  "things": [')


def test_the_pager_gets_what_is_long(environ: dict[str, str]) -> None:
    pager = {"ICECTL_PAGER": "sed s/^/P:/"}
    lines = shown({**environ, **pager}, "things", "--no-color").splitlines()
    assert len(lines) > 4
    assert all(line.startswith("P:") for line in lines)
    for without in ({"TERM": "dumb"}, {"ICECTL_PAGER": ""}, {"ICECTL_PAGER": "no-such-pager"}):
        assert "P:" not in shown({**environ, **pager, **without}, "things")


def test_no_arguments_page_the_help(environ: dict[str, str]) -> None:
    with on_terminal({**environ, "ICECTL_PAGER": "sed s/^/P:/"}) as terminal:
        text, code = terminal.finish()
    assert code == 2
    assert all(line.startswith("P:") for line in text.splitlines())
    assert "Exit codes:" in text


def test_leaving_the_pager_early_is_quiet(environ: dict[str, str]) -> None:
    # Without --quiet, a bar may appear if the machine is slow.
    with on_terminal({**environ, "ICECTL_PAGER": "true"}, "things", "--quiet") as terminal:
        text, code = terminal.finish()
    assert text == ""
    assert code in (0, 141)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 16), ("n", 16)])
def test_a_terminal_is_asked(environ: dict[str, str], answer: str, code: int) -> None:
    with on_terminal(environ, "destroy") as terminal:
        asked = terminal.read_until("(n)")
        assert "3 things" in asked and "destroy \\x1b[2Jall? " in asked
        terminal.send(f"{answer}\n")
        text, found = terminal.finish()
    assert found == code
    assert ("destroyed" in text) == (code == 0)


def test_ctrl_c_at_the_question(environ: dict[str, str]) -> None:
    with on_terminal(environ, "destroy") as terminal:
        terminal.read_until("(n)")
        terminal.interrupt()
        text, code = terminal.finish()
    assert code == 130
    assert "destroyed" not in text


@pytest.mark.parametrize(("arguments", "code"), [([], 16), (["--yes"], 0), (["-y", "--json"], 0)])
def test_off_a_terminal_yes_is_wanted(
    environ: dict[str, str], arguments: list[str], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "destroy", *arguments],
        env=environ,
        input="y\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    if code:
        assert done.stdout == ""
        assert done.stderr.startswith("3 things\n"), "the plan"
        assert done.stderr.endswith("run: icectl destroy --yes\n")


def test_a_pipe_gets_everything_plain(environ: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "things"],
        env={**environ, "PAGER": "false", "TERM": "xterm", "COLUMNS": "40"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout
    assert done.stdout.count("word " * 29) == 3


def test_a_locale_that_lacks_characters_fails_nothing(environ: dict[str, str]) -> None:
    code = "from icectl.cli.main import run; import sys; sys.exit(run(['remote', 'list'], {'ICECTL_CONFIG': sys.argv[1]}))"
    config = Path(environ["ICECTL_CONFIG"])
    config.parent.mkdir()
    config.write_text('[repositories."日本"]\nlocation = "/x/é"\n')
    done = subprocess.run(
        [sys.executable, "-c", code, str(config)],
        env={**environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert b"/x/\\xe9" in done.stdout
