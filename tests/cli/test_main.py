"""Dispatch, and every way a command can end."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from icectl.cli.exit_codes import EXIT_CODES
from icectl.cli.options import RefArgument, command
from icectl.errors import IcectlError, RefNotFoundError
from tests.command_line import Icectl
from tests.patience import PATIENCE_SECONDS, interrupt


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Makes a function the command `planted REF`, the only one of the app."""

    def plant(body: Callable[..., Any]) -> None:
        module = types.ModuleType("icectl.cli.commands.planted")
        module.EXAMPLES = ""  # type: ignore[attr-defined]
        module.body = command()(body)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(app, "COMMANDS", (app.Command("planted", "x", "planted:body"),))
        app.load.cache_clear()

    return plant


def every_error(kind: type[IcectlError] = IcectlError) -> list[type[IcectlError]]:
    return [kind, *(found for below in kind.__subclasses__() for found in every_error(below))]


@pytest.mark.parametrize("entry", app.COMMANDS, ids=lambda entry: entry.name)
def test_usage_shows_which_arguments_repeat(icectl: Icectl, entry: app.Command) -> None:
    usage = icectl(*entry.name.split(" "), "--help").out.splitlines()[0].split()
    for argument in app.load(entry.name).params:
        if argument.param_type_name == "argument":
            word = argument.metavar if argument.required else f"[{argument.metavar}]"
            assert f"{word}{'...' if argument.nargs < 0 else ''}" in usage


@pytest.mark.parametrize("entry", app.COMMANDS, ids=lambda entry: entry.name)
def test_help_of_each_command(icectl: Icectl, entry: app.Command) -> None:
    outcome = icectl(*entry.name.split(" "), "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: icectl {entry.name} ")
    assert "Exit codes:" not in outcome.out
    assert "Examples:" in outcome.out, "EXAMPLES of the module has none for this command"
    assert icectl("help", *entry.name.split(" ")).out == outcome.out


@pytest.mark.parametrize("group", app.GROUPS)
def test_help_of_each_group(icectl: Icectl, group: str) -> None:
    outcome = icectl(group, "--help")
    assert outcome.code == 0
    for name in app.subcommands(group):
        assert name in outcome.out
    assert "Examples:" in outcome.out
    assert icectl(group, "help").out == icectl("help", group).out == outcome.out


@pytest.mark.parametrize("entry", app.COMMANDS, ids=lambda entry: entry.name)
def test_a_summary_is_the_first_line_of_the_help(entry: app.Command) -> None:
    assert app.load(entry.name).help.partition("\n")[0] == f"{entry.summary}."


def test_every_group_is_known() -> None:
    used = {entry.name.split(" ")[0] for entry in app.COMMANDS if " " in entry.name}
    assert used == set(app.GROUPS)


def test_every_exit_code_of_an_error_is_documented() -> None:
    assert {kind.exit_code for kind in every_error()} <= {code for code, _ in EXIT_CODES}


def test_no_arguments_is_a_usage_error_with_the_help(icectl: Icectl) -> None:
    outcome = icectl()
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("Usage: icectl")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["remot"], "did you mean remote"),
        (["zzzzzz"], "icectl --help"),
        (["reset"], "did you mean branch reset"),
        (["rollback"], "did you mean undo"),
        (["remote", "lst"], "did you mean list"),
        (["remote", "show"], "icectl remote show --help"),
        (["remote", "show", "a", "b"], "icectl remote show --help"),
        (["remote", "show", "--nonsense", "a"], "icectl remote show --help"),
        (["remote", "list", "--json", "--jsonl"], "cannot be combined"),
    ],
)
def test_usage_errors_exit_2_and_lead_on(icectl: Icectl, arguments: list[str], says: str) -> None:
    outcome = icectl(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert says in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ["-r", "PLACE", "log", "--oneline"],
        ["log", "--oneline", "-r", "PLACE"],
        ["history", "--oneline", "-r", "PLACE"],
        ["log", "-5", "--oneline", "-r", "PLACE"],
    ],
)
def test_one_call_in_several_ways(icectl: Icectl, tmp_path: Path, words: list[str]) -> None:
    place = str(tmp_path / "data")
    assert icectl("init", place).code == 0
    outcome = icectl(*(place if word == "PLACE" else word for word in words))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("1CECHNKREP0F ")


def test_options_of_a_group_precede_its_command(icectl: Icectl, tmp_path: Path) -> None:
    place = str(tmp_path / "data")
    assert icectl("init", place).code == 0
    for name, options in (("a", ["-r", place]), ("b", [f"-r{place}"]), ("c", ["-qr", place])):
        assert icectl("branch", *options, "create", name).code == 0


@pytest.mark.parametrize(("group", "key"), [("branch", "branches"), ("tag", "tags")])
def test_a_group_alone_lists(icectl: Icectl, tmp_path: Path, group: str, key: str) -> None:
    place = str(tmp_path / "data")
    assert icectl("init", place).code == 0
    assert key in icectl(group, "-r", place, "--json").document
    assert (
        icectl("-r", place, "--json", group).document
        == icectl(group, "list", "-r", place, "--json").document
    )


def test_options_after_the_command_win(icectl: Icectl, tmp_path: Path) -> None:
    place = str(tmp_path / "data")
    assert icectl("init", place).code == 0
    assert icectl("-r", str(tmp_path / "nothing"), "log", "-r", place).code == 0


def test_a_usage_error_under_json_is_one_object(icectl: Icectl) -> None:
    outcome = icectl("remote", "show", "--json")
    assert outcome.error == {
        "kind": "usage",
        "message": "missing argument 'REMOTE'",
        "hint": "see icectl remote show --help",
        "exit_code": 2,
    }


def test_an_error_is_one_sentence_and_a_hint(icectl: Icectl, planted: Any) -> None:
    def body(context: Any, ref: RefArgument) -> None:
        raise RefNotFoundError("no such\nref \x1b[31m", hint="look\x07")

    planted(body)
    outcome = icectl("planted", "x")
    assert outcome.code == 12
    assert outcome.err == "icectl: error: no such\\nref \\x1b[31m\nhint: look\\x07\n"
    assert icectl("planted", "x", "--json").error["kind"] == "ref_not_found"


def test_a_bug_is_exit_70_and_its_traceback_is_kept_back(icectl: Icectl, planted: Any) -> None:
    def body(context: Any, ref: RefArgument) -> None:
        raise ZeroDivisionError("deep inside")

    planted(body)
    outcome = icectl("planted", "x")
    assert outcome.code == 70
    assert outcome.err.startswith("icectl: error: this is a bug in icectl: ZeroDivisionError")
    assert "Traceback" not in outcome.err
    assert icectl("planted", "x", "--json").error["exit_code"] == 70
    for loud in (
        icectl("planted", "x", "-vv"),
        icectl("planted", "x", "-v", "--verbose"),
        icectl("planted", "x", ICECTL_DEBUG="1"),
    ):
        assert loud.code == 70 and "Traceback" in loud.err
    assert "Traceback" not in icectl("planted", "x", "-v").err


def test_secrets_are_not_in_tracebacks(icectl: Icectl, planted: Any) -> None:
    def body(context: Any, ref: RefArgument) -> None:
        raise ZeroDivisionError(
            "http://me:p4ssw0rd@host secret_key=v4lue env-secret-value Authorization: Bearer t0ken"
        )

    planted(body)
    variables = {"AWS_SECRET_ACCESS_KEY": "env-secret-value"}
    for words in (["-vv"], ["-vv", "--json"]):
        done = icectl("planted", "x", *words, **variables)
        assert done.code == 70 and "Traceback" in done.err
        for secret in ("p4ssw0rd", "v4lue", "env-secret-value", "t0ken"):
            assert secret not in done.err, done.err


def test_the_return_value_is_the_exit_code(icectl: Icectl, planted: Any) -> None:
    def body(context: Any, ref: RefArgument = "main") -> int:
        return 3

    planted(body)
    assert icectl("planted").code == 3


SCRIPT = """
import sys, types, time
from icectl.cli import app, main
from icectl.cli.options import command
module = types.ModuleType("icectl.cli.commands.planted")
module.EXAMPLES = ""
def body(context):
    {body}
module.body = command()(body)
sys.modules[module.__name__] = module
app.COMMANDS = (app.Command("planted", "x", "planted:body"),)
main.main()
"""


def start(body: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body), "planted"],
        stderr=subprocess.PIPE,
        **{"stdout": subprocess.PIPE, **options},
    )


def test_a_reader_that_goes_away_ends_the_output_quietly() -> None:
    running = start("context.output.write(str(n) * 50 for n in range(10**6))")
    assert running.stdout is not None
    assert running.stdout.readline().startswith(b"000")
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == b""
    assert running.wait(PATIENCE_SECONDS) == 141


@pytest.mark.parametrize("written", ['write(["x"])', 'write_bytes(b"x")'])
def test_a_full_disk_is_told(written: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with Path("/dev/full").open("wb") as full:
        running = start(f"context.output.{written}", stdout=full)
        _, err = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 1
    assert err == b"icectl: error: the output cannot be written: No space left on device\n"


def test_ctrl_c_answers_at_once_even_with_a_busy_thread() -> None:
    body = (
        "from concurrent.futures import ThreadPoolExecutor as Pool; pool = Pool(); "
        "future = pool.submit(time.sleep, 10**6); "
        'context.output.write(["ready"]); future.result()'
    )
    running = start(body)
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    _, err = interrupt(running, within=2)
    assert running.returncode == 130
    assert err == b"icectl: error: interrupted\n"
