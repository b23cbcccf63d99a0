"""The typer application: a tree of lazily loaded commands.

`COMMANDS` lists all commands. Only the module of the called command is imported, so
`icectl --help` and single commands start fast; a test checks that the summaries match the
docstrings. CONTRIBUTING.md says how to add a command.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from icectl.cli.exit_codes import EXIT_CODES, USAGE
from icectl.cli.options import COMMON, CommonOptions, option_parameters, set_parameters
from icectl.errors import UsageError

PROGRAM = "icectl"
COMMON_HELP = (
    "Every command also takes --json, -r/--repo and the other options listed in `icectl --help`."
)
HELP_WITHOUT_REPO = "This command also takes --json, --no-color, --quiet and --verbose."
ROOT_HELP = "Inspect, check and clean Icechunk repositories."
ROOT_EXAMPLES = (
    ("icectl log -r s3://bucket/prefix", "the history of a repository"),
    ("icectl gc -r ./weather --older-than 7d --dry-run", "what a garbage collection would delete"),
    ("icectl demo DIRECTORY", "create a repository to try the commands on"),
)
ROOT_NOTE = f"`{PROGRAM} COMMAND --help` and `man {PROGRAM}-COMMAND` describe each command."


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    target: str
    """`module:function` below `icectl.cli.commands`."""

    @property
    def module(self) -> Any:
        return importlib.import_module(f"icectl.cli.commands.{self.target.partition(':')[0]}")

    @property
    def function(self) -> Any:
        return getattr(self.module, self.target.partition(":")[2])

    @property
    def examples(self) -> list[tuple[str, str]]:
        """Pairs of command line and explanation, from the examples of the module."""
        group, _, below = self.name.partition(" ")
        names = {self.name, group} if below and GROUPS[group].default == below else {self.name}
        found = re.findall(r"(icectl .*?)\s+# (.*)", self.module.EXAMPLES)
        return [pair for pair in found if called_command(pair[0].split()[1:]) in names]

    @property
    def epilog(self) -> str:
        takes_repo = "repo" in inspect.signature(self.function).parameters
        notes = COMMON_HELP if takes_repo else HELP_WITHOUT_REPO
        return f"{_describe_examples(self.examples)}\n\n{notes}".strip()


def _describe_examples(examples: Iterable[tuple[str, str]]) -> str:
    """Return a paragraph for typer, which re-flows those that do not begin with \\b."""
    lines = [f"  {line}\n      {meaning}" for line, meaning in examples]
    return "\b\nExamples:\n" + "\n".join(lines) if lines else ""


@dataclass(frozen=True, slots=True)
class Group:
    summary: str
    default: str | None = None
    """The subcommand that runs if none is given."""
    takes_repo: bool = True


GROUPS = {
    "branch": Group("List, create, move and delete branches", default="list"),
    "tag": Group("List, create and delete tags", default="list"),
    "ops-log": Group("Show the operations on the repository", default="list"),
    "status": Group("Show or set whether the repository accepts changes", default="show"),
    "config": Group("Show and change the configuration stored in the repository", default="get"),
    "metadata": Group("Show and change the metadata of the repository", default="get"),
    "flags": Group("Show and set the feature flags of the repository", default="list"),
    "remote": Group(
        "Manage the named repositories in the config file", default="list", takes_repo=False
    ),
}

COMMANDS = (
    Command("init", "Create a new repository", "init:init"),
    Command("log", "Show the commit history", "commits:log"),
    Command("show", "Show a commit in full", "commits:show"),
    Command("ls", "List the groups and arrays of a snapshot", "commits:ls"),
    Command("diff", "Show changes between two versions", "diff:diff"),
    Command("branch list", "List the branches", "refs:list_branches"),
    Command("branch create", "Create a branch", "refs:create_branch"),
    Command("branch delete", "Delete a branch", "refs:delete_branch"),
    Command("branch reset", "Move a branch to another commit", "refs:reset_branch"),
    Command("tag list", "List the tags", "refs:list_tags"),
    Command("tag create", "Create a tag", "refs:create_tag"),
    Command("tag delete", "Delete a tag permanently", "refs:delete_tag"),
    Command("ops-log list", "List the operations on the repository", "operations:list_operations"),
    Command("ops-log show", "Show what an operation changed", "operations:show_changes"),
    Command("status show", "Show whether the repository accepts changes", "settings:show_status"),
    Command("status set", "Set the repository online, read-only or offline", "settings:set_status"),
    Command("config get", "Show the stored configuration", "settings:get_config"),
    Command("config set", "Set a value of the stored configuration", "settings:set_config"),
    Command("metadata get", "Show the metadata of the repository", "settings:get_metadata"),
    Command("metadata set", "Add or replace a metadata value", "settings:set_metadata"),
    Command("metadata unset", "Remove metadata values", "settings:unset_metadata"),
    Command("flags list", "List the feature flags", "settings:list_flags"),
    Command("flags set", "Turn a feature flag on or off", "settings:set_flag"),
    Command("undo", "Take an operation back", "operations:undo"),
    Command("restore", "Bring an earlier state of the repository back", "operations:restore"),
    Command("expire", "Release old snapshots from the history", "expire:expire"),
    Command("gc", "Delete unreferenced objects", "gc:collect"),
    Command("repair", "Repair what validate finds", "repair:repair"),
    Command("copy", "Copy the repository to another place, or update a copy", "copy:copy"),
    Command("upgrade", "Upgrade a repository from spec version 1 to version 2", "upgrade:upgrade"),
    Command("validate", "Check the repository for damage", "validate:validate"),
    Command("maintain", "Maintain repositories as the config file says", "maintain:maintain"),
    Command("stats", "Show storage usage", "stats:stats"),
    Command("metrics", "Print metrics for a monitoring system", "metrics:metrics"),
    Command("report", "Write a report of the repository as an HTML page", "report:report"),
    Command("export", "Write the repository as tables to files", "tables:export"),
    Command("sql", "Query the repository with SQL, on Spark", "tables:sql"),
    Command("inspect-file", "Show the content of one file", "inspect_file:inspect_file"),
    Command("remote list", "List the named repositories", "remote:list_remotes"),
    Command("remote show", "Show one named repository", "remote:show"),
    Command("remote add", "Give a repository a name", "remote:add"),
    Command("remote discover", "Find repositories and give them names", "remote:discover"),
    Command("remote remove", "Remove the name of a repository", "remote:remove"),
    Command("doctor", "Check the installation and the storage", "doctor:doctor"),
    Command("demo", "Create a demo repository and tour the commands", "demo:demo"),
)

ALIASES = {
    "prune": "gc",
    "fsck": "validate",
    "check": "validate",
    "verify": "validate",
    "snapshots": "log",
    "history": "log",
    "branches": "branch",
    "tags": "tag",
}
"""Names of the same commands in git, restic and borg."""

SIMILAR = {
    "checkout": "branch",
    "clone": "copy",
    "create": "init",
    "du": "stats",
    "forget": "expire",
    "info": "show",
    "reset": "branch reset",
    "revert": "undo",
    "rollback": "undo",
    "sync": "copy",
}
"""Commands of other programs that do almost the same, and the one to suggest."""

REPORTED_PACKAGES = (
    *("typer", "rich", "numpy", "flatbuffers", "zstandard", "msgpack", "prometheus-client"),
    *("obstore", "arro3-core", "fsspec", "s3fs", "gcsfs", "pyspark", "pyarrow", "icechunk"),
    *("zarr", "vl-convert-python"),
)
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


class PagedHelp:
    """Shows the help in the pager on a terminal."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        option.callback = _show_help
        return option


def _show_help(ctx: Any, _parameter: Any, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        _page_help(ctx)
        raise typer.Exit(0)


def _page_help(ctx: Any) -> None:
    class Formatter(ctx.formatter_class):  # type: ignore[misc]
        def write_dl(self, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
            """Leave room for the text on a narrow terminal, so that no word is broken."""
            super().write_dl(rows, min(col_max, self.width // 3 + 2), col_spacing)

    ctx.formatter_class = Formatter
    with ctx.find_root().obj.output as output:
        output.write(ctx.get_help().splitlines(), paged=True)


class HelpfulCommand(PagedHelp, TyperCommand):
    """A command with short help; `-5` means `-n 5` if the command takes `-n`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any("-n" in parameter.opts for parameter in self.params):
            end = args.index("--") if "--" in args else len(args)
            head = [re.sub(r"^-(\d+)$", r"-n\1", word) for word in args[:end]]
            args = head + args[end:]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Add the dots of arguments that may be repeated, which click omits with a metavar."""
        pieces = [str(self.options_metavar)]
        for one in self.params:
            dots = "..." if one.nargs < 0 else ""
            pieces += (f"{piece.strip('{}')}{dots}" for piece in one.get_usage_pieces(ctx))
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Omit the common options, which `icectl --help` describes, so help fits on a screen."""
        rows: dict[str, list[Any]] = {"argument": [], "option": []}
        for one in (*own_parameters(self), self.get_help_option(ctx)):
            is_option = one.param_type_name == "option"
            record = one.get_help_record(ctx) if is_option else (str(one.metavar), one.help or "")
            rows[one.param_type_name].append(record)
        for kind, records in rows.items():
            if records:
                with formatter.section(f"{kind.title()}s"):
                    formatter.write_dl(records)


def own_parameters(command: Any) -> list[Any]:
    """Return the parameters of a command without the common options."""
    return [parameter for parameter in command.params if parameter.name not in COMMON]


class LazyGroup(PagedHelp, TyperGroup):
    """A group whose commands are imported when they are called."""

    @property
    def _prefix(self) -> str:
        return "" if self.name == PROGRAM else str(self.name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Pass the options of the default subcommand on, as in `icectl ops-log -n 5`."""
        if default := self._prefix and GROUPS[self._prefix].default:
            parser = self.make_parser(ctx)
            parser.ignore_unknown_options = True
            _, rest, _ = parser.parse_args([*args])
            if rest and rest[0].startswith("-"):  # not an option of the group
                args = [default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        # `run` turns help into an option, so only completion gets to see it.
        return [*subcommands(self._prefix), *([] if self._prefix else ["help"])]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if not self._prefix:
            cmd_name = ALIASES.get(cmd_name, cmd_name)
            if cmd_name == "help" and ctx.resilient_parsing:
                return root()
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
            if not self._prefix and name in SIMILAR:
                close = [SIMILAR[name]]
            hint = f"did you mean {' or '.join(dict.fromkeys(close))}?"
            if not close:
                hint = f"list the commands: {ctx.command_path} --help"
            raise UsageError(f"unknown command: {ctx.command_path} {name}", hint=hint)
        return super().resolve_command(ctx, args)


@cache
def load(name: str) -> Any:
    """Return the typer command or group with this full name, or None."""
    if name in GROUPS:
        return _make_group(name, *_describe_group(name))
    command = find_command(name)
    if command is None:
        return None
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(
        name=name.rpartition(" ")[2],
        cls=HelpfulCommand,
        short_help=command.summary,
        epilog=command.epilog,
        context_settings=_CONTEXT,
    )(command.function)
    return typer.main.get_command(app)


@cache
def root() -> Any:
    """Return the application."""
    codes = "\b\nExit codes:\n" + "\n".join(f"  {code:>3}  {text}" for code, text in EXIT_CODES)
    return _make_group(
        PROGRAM, ROOT_HELP, f"{_describe_examples(ROOT_EXAMPLES)}\n\n{codes}\n\n{ROOT_NOTE}"
    )


def _describe_group(name: str) -> tuple[str, str]:
    """Return the help of a group, and the first example of each command in it."""
    group = GROUPS[name]
    text = f"{group.summary}."
    if group.default:
        text += f" Without a command, it runs `{PROGRAM} {name} {group.default}`."
    below = [command for command in COMMANDS if command.name.startswith(f"{name} ")]
    return text, _describe_examples(
        dict(example for command in below for example in command.examples[:1]).items()
    )


def _make_group(name: str, text: str, epilog: str) -> Any:
    default = GROUPS[name].default if name in GROUPS else None
    app = typer.Typer(
        name=name,
        cls=LazyGroup,
        add_completion=False,
        rich_markup_mode=None,
        invoke_without_command=True,
        context_settings=_CONTEXT,
    )

    def callback(ctx: typer.Context, **_values: Any) -> Any:
        if ctx.invoked_subcommand is not None:
            return None
        if default is None:
            if sys.stdout.isatty():
                _page_help(ctx)
            else:
                sys.stderr.write(ctx.get_help() + "\n")
            raise typer.Exit(USAGE)
        command = load(f"{name} {default}")
        with command.make_context(default, [], parent=ctx) as below:
            return below.command.invoke(below)

    parameters = option_parameters(CommonOptions)
    if name == PROGRAM:
        parameters += option_parameters(RootOptions)
    elif not GROUPS[name].takes_repo:
        parameters = [one for one in parameters if one.name != "repo"]
    set_parameters(callback, parameters)
    app.callback(help=text, epilog=epilog)(callback)
    return typer.main.get_command(app)


def _show_version(wanted: bool) -> None:
    """Print the versions from the metadata of installed packages, without importing them."""
    if not wanted:
        return
    import platform
    from importlib import metadata

    from icectl import __version__

    system = f"{platform.python_implementation()}, {platform.system()} {platform.machine()}"
    lines = [f"icectl {__version__}", f"python {platform.python_version()} ({system})"]
    for package in REPORTED_PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            lines.append(f"{package} {metadata.version(package)}")
    sys.stdout.write("\n".join(lines) + "\n")
    raise typer.Exit(0)


@dataclass(frozen=True, slots=True)
class RootOptions:
    version: Annotated[
        bool,
        typer.Option("--version", "-V", is_eager=True, callback=_show_version),
        "Show versions for a bug report.",
    ] = False


def find_command(name: str) -> Command | None:
    return next((command for command in COMMANDS if command.name == name), None)


def called_command(arguments: list[str]) -> str:
    """Return the name of the command that the words call, or an empty text."""
    for place, word in enumerate(arguments):
        below = " ".join(arguments[place : place + 2])
        if word in GROUPS or find_command(word):
            return below if find_command(below) else word
    return ""


def parameters_of(command: str) -> list[Any]:
    """Return the parameters of a command, and none for an empty name."""
    return list(load(command).params) if command else []
