"""One command's arguments, parsed by typer into an `Invocation`.

typer only parses: the command runs outside of it, so that errors, interrupts and broken
pipes are handled in one place (`icectl.cli.main`). Only typer's public names are used,
because it carries its own click since 0.16 or so and depends on the real one before that.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer
from typer.main import get_command

from icectl.cli.exit_codes import EXIT_CODES
from icectl.cli.options import COMMON_OPTION_NAMES, CommandFunction
from icectl.cli.tree import Command, subcommands
from icectl.errors import UsageError

ParserUsageError: Any = typer.BadParameter.__base__
"""typer's (or click's) usage error: there is no public name that both have."""


@dataclass(frozen=True, slots=True)
class CommonOptions:
    repo: str | None = None
    storage_option: tuple[str, ...] = ()
    json: bool = False
    jsonl: bool = False
    no_color: bool = False
    quiet: bool = False
    verbose: int = 0


@dataclass(frozen=True, slots=True)
class Invocation:
    command: Command
    function: CommandFunction
    common: CommonOptions
    arguments: Mapping[str, Any]


def load(command: Command) -> tuple[CommandFunction, Any]:
    """The command's function and its module; this is the import that the tree avoids."""
    module_name, _, attribute = command.target.partition(":")
    module = importlib.import_module(f"icectl.cli.commands.{module_name}")
    return getattr(module, attribute), module


def examples(command: Command, module: Any) -> tuple[tuple[str, str], ...]:
    """(command line, what it does) pairs of the command, from its module's `EXAMPLES`."""
    found: tuple[tuple[str, str], ...] = module.EXAMPLES.get(command.name, ())
    return found


def build_parser(command: Command) -> Any:
    """typer's command object for one command of the tree."""
    function, module = load(command)

    def collect(**values: Any) -> Invocation:
        common = {name: values.pop(name) for name in COMMON_OPTION_NAMES & values.keys()}
        common["storage_option"] = tuple(common.get("storage_option") or ())
        return Invocation(command, function, CommonOptions(**common), values)

    collect.__signature__ = inspect.Signature(function.parameters())  # type: ignore[attr-defined]
    collect.__annotations__ = {}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(
        name=command.name,
        help=inspect.getdoc(function.body),
        epilog=_epilog(command, module),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )(collect)
    return get_command(app)


def parse(command: Command, arguments: list[str]) -> Invocation | None:
    """The invocation that `arguments` ask for; None when they asked for help and got it."""
    program = f"icectl {command.name}"
    try:
        result = build_parser(command).main(arguments, prog_name=program, standalone_mode=False)
    except ParserUsageError as error:
        message = " ".join(error.format_message().split()).rstrip(".")
        raise UsageError(message, hint=f"{program} --help lists what it takes") from None
    return result if isinstance(result, Invocation) else None


def _epilog(command: Command, module: Any) -> str:
    """Examples, subcommands and exit codes; \\b keeps typer from re-flowing a paragraph."""
    parts = []
    if pairs := examples(command, module):
        lines = [f"  {line}\n      {meaning}" for line, meaning in pairs]
        parts.append("\b\nExamples:\n" + "\n".join(lines))
    if below := subcommands(command.name):
        lines = [f"  icectl {entry.name}  {entry.summary}" for entry in below]
        parts.append("\b\nSubcommands:\n" + "\n".join(lines))
    codes = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES)
    parts.append("\b\nExit codes:\n" + codes)
    return "\n\n".join(parts)
