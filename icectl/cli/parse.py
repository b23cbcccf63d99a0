"""One command's words, parsed into an `Invocation`; or its help; or what is wrong with them.

A correct line is understood by `parameters.parse_words`. Only for the rest typer is
imported, and only its public names are used, because newer releases carry their own click
and older ones depend on the real one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from icectl.cli.exit_codes import EXIT_CODES
from icectl.cli.locations import is_repository_directory, looks_like_location
from icectl.cli.options import CommandFunction
from icectl.cli.parameters import (
    Argument,
    NotUnderstoodError,
    Parameter,
    parse_words,
    typer_annotation,
)
from icectl.cli.tree import Command, subcommands
from icectl.errors import UsageError
from icectl.records import dataclass, fields

Examples = tuple[tuple[str, str], ...]
NAMES_OF_REFS = ("REF", "FROM", "TO", "BRANCH", "TAG", "NAME")


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
class LoadedCommand:
    """A command of the tree with its code; loading is the import that the tree avoids."""

    command: Command
    function: CommandFunction
    examples: Examples
    """(command line, what it does) pairs."""


@dataclass(frozen=True, slots=True)
class Invocation:
    command: Command
    function: CommandFunction
    common: CommonOptions
    arguments: Mapping[str, Any]

    def words(self) -> Iterator[str]:
        """The texts among the arguments."""
        for value in self.arguments.values():
            yield from texts(value)


def texts(value: Any) -> list[str]:
    """A value of the command line as the texts that it is made of."""
    values = value if isinstance(value, list | tuple) else [value]
    return [text for text in values if isinstance(text, str)]


def load(command: Command) -> LoadedCommand:
    module_name, _, attribute = command.target.partition(":")
    module = importlib.import_module(f"icectl.cli.commands.{module_name}")
    return LoadedCommand(command, getattr(module, attribute), module.EXAMPLES.get(command.name, ()))


def parse(command: Command, words: list[str]) -> Invocation | None:
    """The invocation that `words` ask for; None when they asked for help and got it."""
    loaded = load(command)
    parameters = loaded.function.parameters()
    try:
        values = parse_words(parameters, words)
    except NotUnderstoodError:
        found = parse_with_typer(loaded, parameters, words)
        if found is None:
            return None
        values = found
    _refuse_locations(loaded, parameters, values)
    names = {field.name for field in fields(CommonOptions)}
    common = {name: values.pop(name) for name in names & values.keys()}
    common["storage_option"] = tuple(common.get("storage_option", ()))
    return Invocation(command, loaded.function, CommonOptions(**common), values)


def parse_with_typer(
    loaded: LoadedCommand, parameters: list[Parameter], words: list[str]
) -> dict[str, Any] | None:
    """The same by typer: it prints the help, and words the usage errors."""
    import contextlib
    import inspect
    import io

    import typer
    from typer.main import get_command

    from icectl.cli.terminal import Output

    def collect(**values: Any) -> dict[str, Any]:
        return values

    collect.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                parameter.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if parameter.required else parameter.default,
                annotation=typer_annotation(parameter),
            )
            for parameter in parameters
        ]
    )
    collect.__annotations__ = {}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(
        name=loaded.command.name,
        help=inspect.getdoc(loaded.function.body),
        epilog=_epilog(loaded),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )(collect)
    program = f"icectl {loaded.command.name}"
    usage_error: Any = typer.BadParameter.__base__
    page = io.StringIO()
    try:
        # Help is printed below: what typer makes of a closed pipe is an exit code of its own.
        with contextlib.redirect_stdout(page):
            result = get_command(app).main(words, prog_name=program, standalone_mode=False)
    except usage_error as error:
        message = " ".join(error.format_message().split()).replace("Value error, ", "").rstrip(".")
        hint = f"{program} --help lists what it takes"
        if "unexpected extra argument" in message and loaded.function.repository:
            for word in filter(is_repository_directory, words):
                import shlex

                hint = f"a repository is named with -r: {program} -r {shlex.quote(word)}"
        raise UsageError(message, hint=hint) from None
    if isinstance(result, dict):
        return result
    Output({}).write(page.getvalue().splitlines())
    return None


def _refuse_locations(
    loaded: LoadedCommand, parameters: list[Parameter], values: Mapping[str, Any]
) -> None:
    """`icectl log ./repo` is what everybody types first: lead to the right call."""
    for parameter in parameters:
        named = isinstance(parameter.declaration, Argument)
        if not named or parameter.declaration.metavar not in NAMES_OF_REFS:
            continue
        for value in filter(looks_like_location, texts(values[parameter.name])):
            import shlex

            call = f"icectl {loaded.command.name}"
            hint = f"{call} -r {shlex.quote(value)}"
            if not loaded.function.repository:
                arguments = [p.declaration for p in parameters]
                order = [one.metavar for one in arguments if isinstance(one, Argument)]
                hint = f"the order is {call} {' '.join(order)}"
            elif value.startswith("/") and any(p.declaration.metavar == "PATH" for p in parameters):
                hint += f", or for a node: {call} main {shlex.quote(value)}"
            raise UsageError(
                f"{value} is a location, and a {parameter.declaration.metavar} stands here",
                hint=hint,
            )


def _epilog(loaded: LoadedCommand) -> str:
    """Examples, subcommands and exit codes; \\b keeps typer from re-flowing a paragraph."""
    parts = []
    if loaded.examples:
        lines = [f"  {line}\n      {meaning}" for line, meaning in loaded.examples]
        parts.append("\b\nExamples:\n" + "\n".join(lines))
    if below := subcommands(loaded.command.name):
        lines = [f"  icectl {entry.name}  {entry.summary}" for entry in below]
        parts.append("\b\nSubcommands:\n" + "\n".join(lines))
    codes = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES)
    parts.append("\b\nExit codes:\n" + codes)
    return "\n\n".join(parts)
