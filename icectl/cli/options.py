"""The `command` decorator and shared `Annotated` options.

A command is a function `(context, ...) -> exit code or None`. The decorator adds the common
options and passes a `CommandContext` to the function. A parameter is
`Annotated[TYPE, typer.Option(...), "help"]`; the aliases below give the same parameters the same
names, help and completion in every command.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from icectl.cli import completion
from icectl.errors import UsageError

if TYPE_CHECKING:
    from icectl.cli.context import CommandContext

CommandBody = Callable[..., int | None]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
Flag = Annotated[bool, typer.Option()]
Time = Annotated[str | None, typer.Option(metavar="TIME")]
Age = Annotated[str | None, typer.Option(metavar="AGE")]
# Commands report themselves what they cannot read.
File = Annotated[Path | None, typer.Option(metavar="FILE", readable=False)]
STDOUT = Path("-")
"""Such a FILE, if the option documents it."""
Count = Annotated[int | None, typer.Option(metavar="COUNT", min=1)]
Globs = Annotated[list[str] | None, typer.Option(metavar="GLOB")]
Pairs = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")]
Url = Annotated[str | None, typer.Option(metavar="URL")]
_NAMES = ("REF", "FROM", "TO", "BRANCH", "TAG", "NAME")


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """The options of every command, before or after its name."""

    repo: Annotated[
        str | None,
        typer.Option("--repo", "-r", metavar="LOCATION", is_eager=True),
        "The repository: a path, a URL (s3://, gs://, az://, https://, file://, memory://) or "
        "a name from the config file. Default: $ICECTL_REPO, else the repository around the "
        "current directory.",
    ] = None
    storage_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", is_eager=True),
        "A storage option, such as endpoint_url=http://HOST:9000. Repeatable. "
        "Credentials come from the standard variables and files.",
    ] = None
    json: Annotated[Flag, "Print one JSON document."] = False
    jsonl: Annotated[Flag, "Print one JSON object per line."] = False
    no_color: Annotated[Flag, "Never use colour."] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q"), "Print no progress and no notes."] = False
    verbose: Annotated[
        int,
        typer.Option("--verbose", "-v", count=True, show_default=False),
        "Log operations to stderr; -vv logs every request.",
    ] = 0

    def repository_words(self) -> str:
        """The options that name the repository, for a command that a user may paste."""
        words = [] if self.repo is None else ["-r", self.repo]
        for option in self.storage_option or ():
            words += ["--storage-option", option]
        return shlex.join(words)

    @classmethod
    def gather(cls, ctx: typer.Context) -> CommonOptions:
        """Combine the options after the command with those before it; the last --repo wins."""
        found = {name: completion.given_values(ctx, name) for name in COMMON}
        return cls(
            repo=next(iter(found["repo"]), None),
            storage_option=found["storage_option"][::-1],
            **{name: any(found[name]) for name in ("json", "jsonl", "no_color", "quiet")},
            verbose=sum(found["verbose"]),
        )


COMMON = frozenset(one.name for one in fields(CommonOptions))


def command(
    *, repository: bool = True, storage_options: bool | None = None, jsonl: bool = False
) -> Callable[[CommandBody], Callable[..., Any]]:
    """Make a function `(context, ...)` a command, with the common options after its own.

    A parameter whose type is a dataclass stands for the options that are the fields of that
    class. By default, `--storage-option` is included if `--repo` is; `storage_options` overrides
    this.
    """
    taken = {
        "repo": repository,
        "storage_option": repository if storage_options is None else storage_options,
        "jsonl": jsonl,
    }

    def decorate(body: CommandBody) -> Callable[..., Any]:
        hints = get_type_hints(body, include_extras=True)
        declared = list(inspect.signature(body).parameters.values())[1:]
        groups = {one.name: hints[one.name] for one in declared if is_dataclass(hints[one.name])}

        @functools.wraps(body)
        def run(ctx: typer.Context, **values: Any) -> int | None:
            from icectl.cli.terminal import shown_logs

            context: CommandContext = ctx.obj
            context.command = ctx.command_path.partition(" ")[2]
            context.options = CommonOptions.gather(ctx)
            if not repository and context.options.repo is not None:
                raise UsageError(f"{context.command} does not take --repo", hint="omit it")
            own = {name: value for name, value in values.items() if name not in COMMON}
            given = (value if isinstance(value, list) else [value] for value in own.values())
            if repository:
                context.words = [one for some in given for one in some if isinstance(one, str)]
            for name, group in groups.items():
                own[name] = group(**{one.name: own.pop(one.name) for one in fields(group)})
            check_exclusive({"--json": context.options.json, "--jsonl": context.options.jsonl})
            logs = shown_logs(context.options.verbose, context.display)
            with context.output, context.display, logs:
                return body(context, **own)

        parameters = []
        for one in declared:
            if one.name in groups:
                parameters += option_parameters(groups[one.name])
            else:
                parameters.append(_parameter(one.name, hints[one.name], one.default))
        parameters += [one for one in option_parameters(CommonOptions) if taken.get(one.name, True)]
        set_parameters(run, parameters)
        return run

    return decorate


def option_parameters(options: type) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a command."""
    hints = get_type_hints(options, include_extras=True)
    return [_parameter(one.name, hints[one.name], one.default) for one in fields(options)]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """The parameter for typer, from `Annotated[TYPE, typer.Option(...), "help"]`.

    A flag has no `--no-NAME`. The metavar selects the completion, and where it stands for a name
    or a REF, a location is refused.
    """
    kind, info, text = get_args(annotation)
    info = copy(info)
    info.help = text
    if kind is bool and info.default is ...:  # no name is given
        info.param_decls = (f"--{name.replace('_', '-')}",)
    info.autocompletion = completion.BY_METAVAR.get(info.metavar)
    if info.metavar in _NAMES:
        info.callback = refuse_location
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=Annotated[kind, info])


def set_parameters(function: Any, parameters: Iterable[inspect.Parameter]) -> None:
    """Let typer see these parameters after the context."""
    first = inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context)
    function.__signature__ = inspect.Signature([first, *parameters])
    function.__annotations__ = {}


def check_exclusive(given: Mapping[str, object], hint: str = "omit one of them") -> None:
    """Raise `UsageError` if more than one of the named options has a value."""
    names = [name for name, value in given.items() if value is not None and value is not False]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} cannot be combined", hint=hint)


REF_HELP = (
    "A branch, a tag, or a snapshot id or its first 4 or more characters; REF~N and REF^ are "
    "ancestors. Write branch:NAME or tag:NAME if a name is both."
)


def refuse_location(ctx: typer.Context, value: Any) -> Any:
    """Show the right command to users who type `icectl log ./repo`."""
    from icectl.cli.locations import looks_like_location

    takes = {one.name for one in ctx.command.params}
    given = CommonOptions.gather(ctx).repository_words()
    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, str) and looks_like_location(text):
            word = shlex.quote(text)
            calls = [f"{ctx.command_path} -r {word}"] if "repo" in takes and not given else []
            if text.startswith("/") and "path" in takes:
                calls.append(f"for a node, run {ctx.command_path} main {word} {given}".rstrip())
            hint = "; ".join(calls) or ctx.command.get_usage(ctx).removeprefix("Usage: ")
            raise UsageError(f"expected a name or a REF, but {text} is a location", hint=hint)
    return value


RefArgument = Annotated[str, typer.Argument(metavar="REF"), REF_HELP]
OptionalRefArgument = Annotated[str | None, typer.Argument(metavar="REF"), REF_HELP]
DefaultRefArgument = Annotated[
    str, typer.Argument(metavar="REF", show_default=False), f"{REF_HELP} Default: main."
]
BranchArgument = Annotated[str, typer.Argument(metavar="BRANCH"), "The branch."]
TagArgument = Annotated[str, typer.Argument(metavar="TAG"), "The tag."]
NewNameArgument = Annotated[str, typer.Argument(metavar="NAME"), "The new name."]
PathArgument = Annotated[
    str, typer.Argument(metavar="PATH"), "A node of the hierarchy, such as /group/array."
]
NumberOption = Annotated[
    int | None, typer.Option("--number", "-n", metavar="COUNT", min=0), "Show at most this many."
]
_MOMENT_HELP = (
    "A date (2024-01-31), a time (2024-01-31T12:00:00Z), or an age (3d, 12h, '2 weeks', yesterday)."
)
SinceOption = Annotated[Time, f"Show entries since this. {_MOMENT_HELP}"]
UntilOption = Annotated[Time, f"Show entries until this. {_MOMENT_HELP} A date includes the day."]
ExpectOption = Annotated[
    str | None, typer.Option(metavar="REF"), "Refuse unless it points to this snapshot."
]
OP_HELP = (
    "An operation: @N counts back from the newest, which is @0; a date, time or age (3d) means the "
    "state at that time; or the name of a backup in overwritten/, or the end of it. "
    "`icectl ops-log` lists them."
)
OpArgument = Annotated[str, typer.Argument(metavar="OP"), OP_HELP]
AtOpOption = Annotated[
    str | None,
    typer.Option(metavar="OP"),
    f"Show the repository as it was after an operation. {OP_HELP}",
]
YesOption = Annotated[bool, typer.Option("--yes", "-y"), "Do not ask for confirmation."]
DryRunOption = Annotated[Flag, "Show what would be done without changing anything."]
