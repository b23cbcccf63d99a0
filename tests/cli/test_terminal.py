"""Colour, width, pager and questions on a real terminal, and none of them elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminals import Terminal

SCRIPT = """
import operator, sys, types
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

module = types.ModuleType("icectl.cli.commands.planted")
module.EXAMPLES = {}
module.list_things = command(repository=False, jsonl=True)(list_things)
module.destroy = command(repository=False)(destroy)
sys.modules[module.__name__] = module
app.COMMANDS = (
    app.Command("things", "x", "planted:list_things"),
    app.Command("destroy", "x", "planted:destroy"),
)
main.main()
"""
WIDTH = 60


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


def test_json_on_a_terminal_is_indented(environ: dict[str, str]) -> None:
    assert shown(environ, "things", "--json").startswith('{\n  "things": [')


def test_the_pager_gets_what_is_long(environ: dict[str, str]) -> None:
    pager = {"ICECTL_PAGER": "sed s/^/P:/"}
    lines = shown({**environ, **pager}, "things", "--no-color").splitlines()
    assert len(lines) > 4
    assert all(line.startswith("P:") for line in lines)
    for without in ({"TERM": "dumb"}, {"ICECTL_PAGER": ""}, {"ICECTL_PAGER": "no-such-pager"}):
        assert "P:" not in shown({**environ, **pager, **without}, "things")


def test_leaving_the_pager_early_is_quiet(environ: dict[str, str]) -> None:
    with on_terminal({**environ, "ICECTL_PAGER": "true"}, "things") as terminal:
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
        assert "add --yes" in done.stderr


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
