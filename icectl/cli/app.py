"""The typer application: a tree of lazily loaded commands.

`COMMANDS` lists all commands. Only the module of the called command is imported, so
`icectl --help` and single commands start fast; a test checks that the summaries match the
docstrings.

To add a command: write `@command() def NAME(context, ...)` in `icectl/cli/commands/`, with
`Annotated` typer options (aliases in `icectl.cli.options`; the metavar selects the completion) and
EXAMPLES, add its line to `COMMANDS`, and run `make generate`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import sys
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from icectl.cli.exit_codes import EXIT_CODES, USAGE
from icectl.cli.options import COMMON, common_parameters, take_common
from icectl.errors import UsageError

PROGRAM = "icectl"
COMMON_HELP = (
    "Every command also takes --json, -r/--repo and the other options listed in `icectl --help`."
)
ROOT_HELP = "Inspect, check and clean Icechunk repositories."


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    target: str
    """`module:function` below `icectl.cli.commands`."""


@dataclass(frozen=True, slots=True)
class Group:
    summary: str
    default: str | None = None
    """The subcommand that runs if none is given."""


GROUPS = {
    "branch": Group("List, create, move and delete branches", default="list"),
    "tag": Group("List, create and delete tags", default="list"),
    "ops-log": Group("Show the operations on the repository", default="list"),
    "status": Group("Show or set whether the repository accepts changes", default="show"),
    "config": Group("Show and change the configuration stored in the repository", default="get"),
    "metadata": Group("Show and change the metadata of the repository", default="get"),
    "flags": Group("Show and set the feature flags of the repository", default="list"),
    "remote": Group("Manage the named repositories in the config file", default="list"),
}

COMMANDS = (
    Command("init", "Create a new repository", "init:init"),
    Command("log", "Show the commit history", "log:log"),
    Command("show", "Show a commit in full", "show:show"),
    Command("ls", "List the groups and arrays of a snapshot", "show:ls"),
    Command("diff", "Show changes between two versions", "diff:diff"),
    Command("branch list", "List the branches", "branch:list_branches"),
    Command("branch create", "Create a branch", "branch:create"),
    Command("branch delete", "Delete a branch", "branch:delete"),
    Command("branch reset", "Move a branch to another commit", "branch:reset"),
    Command("tag list", "List the tags", "tag:list_tags"),
    Command("tag create", "Create a tag", "tag:create"),
    Command("tag delete", "Delete a tag permanently", "tag:delete"),
    Command("ops-log list", "List the operations on the repository", "ops_log:list_operations"),
    Command("ops-log show", "Show what an operation changed", "ops_log:show"),
    Command("status show", "Show whether the repository accepts changes", "status:status"),
    Command("status set", "Set the repository online, read-only or offline", "status:set_status"),
    Command("config get", "Show the stored configuration", "config:get"),
    Command("config set", "Set a value of the stored configuration", "config:set_value"),
    Command("metadata get", "Show the metadata of the repository", "metadata:get"),
    Command("metadata set", "Add or replace a metadata value", "metadata:set_value"),
    Command("metadata unset", "Remove metadata values", "metadata:unset"),
    Command("flags list", "List the feature flags", "flags:list_flags"),
    Command("flags set", "Turn a feature flag on or off", "flags:set_flag"),
    Command("undo", "Take an operation back", "undo:undo"),
    Command("restore", "Bring an earlier state of the repository back", "undo:restore"),
    Command("expire", "Release old snapshots from the history", "expire:expire"),
    Command("gc", "Delete unreferenced objects", "gc:collect"),
    Command("repair", "Repair problems that prevent safe writes", "repair:repair"),
    Command("validate", "Check the repository for damage", "validate:validate"),
    Command("stats", "Show storage usage", "stats:stats"),
    Command("export", "Write the repository as tables to files", "export:export"),
    Command("sql", "Query the repository with SQL, on Spark", "sql:sql"),
    Command("inspect-file", "Show the content of one file", "inspect_file:inspect_file"),
    Command("remote list", "List the named repositories", "remote:list_remotes"),
    Command("remote show", "Show one named repository", "remote:show"),
    Command("remote add", "Give a repository a name", "remote:add"),
    Command("remote remove", "Remove the name of a repository", "remote:remove"),
    Command("doctor", "Check the installation and the storage", "doctor:doctor"),
    Command("demo", "Create a demo repository and tour the commands", "demo:demo"),
)

ALIASES = {
    "prune": "gc",
    "fsck": "validate",
    "check": "validate",
    "snapshots": "log",
    "history": "log",
    "branches": "branch",
    "tags": "tag",
}
"""Names of the same commands in git, restic and borg."""

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def subcommands(group: str = "") -> dict[str, str]:
    """Return the names in a group, or at the top level, each with its summary."""
    found: dict[str, str] = {}
    for command in COMMANDS:
        first, _, second = command.name.partition(" ")
        if group == "":
            found[first] = GROUPS[first].summary if first in GROUPS else command.summary
        elif first == group:
            found[second] = command.summary
    return found


class HelpfulCommand(TyperCommand):
    """A command with paged help; `-5` means `-n 5` if the command takes `-n`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any("-n" in parameter.opts for parameter in self.params):
            end = args.index("--") if "--" in args else len(args)
            head = [re.sub(r"^-(\d+)$", r"-n\1", word) for word in args[:end]]
            args = head + args[end:]
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        return _paged(super().get_help_option(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Omit the common options, which `icectl --help` describes, so help fits on a screen."""
        own = own_parameters(self)
        arguments = [
            (str(one.metavar), one.help or "") for one in own if one.param_type_name == "argument"
        ]
        options = [one.get_help_record(ctx) for one in own if one.param_type_name == "option"]
        options.append(self.get_help_option(ctx).get_help_record(ctx))
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def own_parameters(command: Any) -> list[Any]:
    """Return the parameters of a command without the common options."""
    return [parameter for parameter in command.params if parameter.name not in COMMON]


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called."""

    @property
    def _prefix(self) -> str:
        return "" if self.name == PROGRAM else str(self.name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Pass the options of the default subcommand on, as in `icectl ops-log -n 5`."""
        default = self._prefix and GROUPS[self._prefix].default
        if default and args and not self._is_own(ctx, args):
            args = [default, *args]
        return super().parse_args(ctx, args)

    def _is_own(self, ctx: Any, args: list[str]) -> bool:
        """Whether options of the group come first, and then nothing or a subcommand."""
        own: dict[str, Any] = {name: one for one in self.get_params(ctx) for name in one.opts}
        words = iter(args)
        for word in words:
            if not word.startswith("-"):
                return True
            option = own.get(word.partition("=")[0])
            if option is None:
                return False
            if not (option.is_flag or option.count or "=" in word):
                next(words, None)
        return True

    def list_commands(self, ctx: Any) -> list[str]:
        return list(subcommands(self._prefix))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if not self._prefix:
            cmd_name = ALIASES.get(cmd_name, cmd_name)
        return load(f"{self._prefix} {cmd_name}".strip())

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(subcommands(self._prefix).items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        # Completion passes incomplete words and must not print errors.
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            known = [*subcommands(self._prefix), *([] if self._prefix else ALIASES)]
            close = [ALIASES.get(word, word) for word in difflib.get_close_matches(name, known)]
            hint = f"did you mean {' or '.join(dict.fromkeys(close))}?"
            if not close:
                hint = f"list the commands: {ctx.command_path} --help"
            raise UsageError(f"unknown command: {ctx.command_path} {name}", hint=hint)
        return super().resolve_command(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        return _paged(super().get_help_option(ctx))


@cache
def load(name: str) -> Any:
    """Return the typer command or group with this full name, or None."""
    if name in GROUPS:
        return _make_group(name, GROUPS[name].summary + ".", GROUPS[name].default)
    command = _find(name)
    if command is None:
        return None
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(
        name=name.rpartition(" ")[2],
        cls=HelpfulCommand,
        short_help=command.summary,
        epilog=_epilog(name),
        context_settings=_CONTEXT,
    )(getattr(_module(command), command.target.partition(":")[2]))
    return typer.main.get_command(app)


@cache
def root() -> Any:
    """Return the application."""
    epilog = "\b\nExit codes:\n" + "\n".join(f"  {code:>3}  {text}" for code, text in EXIT_CODES)
    return _make_group(PROGRAM, ROOT_HELP, None, epilog)


def _make_group(name: str, text: str, default: str | None, epilog: str | None = None) -> Any:
    app = typer.Typer(
        name=name,
        cls=LazyGroup,
        add_completion=False,
        rich_markup_mode=None,
        invoke_without_command=True,
        context_settings=_CONTEXT,
    )

    def callback(ctx: typer.Context, **values: Any) -> Any:
        take_common(ctx, values)
        if ctx.invoked_subcommand is not None:
            return None
        if default is None:
            sys.stderr.write(ctx.get_help() + "\n")
            raise typer.Exit(USAGE)
        command = load(f"{name} {default}")
        with command.make_context(default, [], parent=ctx) as below:
            return below.command.invoke(below)

    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *common_parameters(repository=True, storage_options=True, jsonl=True),
    ]
    if name == PROGRAM:
        parameters.append(_version_parameter())
    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    callback.__annotations__ = {}
    app.callback(help=text, epilog=epilog)(callback)
    return typer.main.get_command(app)


def _version_parameter() -> inspect.Parameter:
    def show(value: bool) -> None:
        if value:
            from icectl.cli.version import version_lines

            sys.stdout.write("".join(f"{line}\n" for line in version_lines()))
            raise typer.Exit(0)

    option = typer.Option(
        "--version", "-V", is_eager=True, callback=show, help="Show versions for a bug report."
    )
    return inspect.Parameter(
        "version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
    )


def examples_of(name: str) -> tuple[tuple[str, str], ...]:
    """Return the examples of a command: pairs of command line and explanation."""
    command = _find(name)
    assert command is not None
    examples: dict[str, tuple[tuple[str, str], ...]] = _module(command).EXAMPLES
    return examples.get(name, ())


def _find(name: str) -> Command | None:
    return next((command for command in COMMANDS if command.name == name), None)


def _module(command: Command) -> Any:
    return importlib.import_module(f"icectl.cli.commands.{command.target.partition(':')[0]}")


def find_command(arguments: list[str]) -> str:
    """The command that the words name, "" where they name none."""
    names = {command.name for command in COMMANDS}
    for place, word in enumerate(arguments):
        if word in GROUPS or word in names:
            below = f"{word} {arguments[place + 1]}" if place + 1 < len(arguments) else ""
            return below if below in names else word
    return ""


def parameters_of(command: str) -> list[Any]:
    """Of a command by its full name; none of \"\"."""
    return list(load(command).params) if command else []


def _epilog(name: str) -> str:
    """Format the examples; typer re-flows paragraphs that do not begin with \\b."""
    lines = [f"  {line}\n      {meaning}" for line, meaning in examples_of(name)]
    examples = "\b\nExamples:\n" + "\n".join(lines) if lines else ""
    return f"{examples}\n\n{COMMON_HELP}".strip()


def _paged(option: Any) -> Any:
    """Make the help option use the pager on a terminal."""
    if option is None:
        return None

    def show(ctx: Any, _parameter: Any, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            from icectl.cli.terminal import Output

            with Output(ctx.find_root().obj.environ) as output:
                output.write(ctx.get_help().splitlines(), paged=True)
            raise typer.Exit(0)

    option.callback = show
    return option
