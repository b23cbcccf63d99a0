"""The `command` decorator and shared `Annotated` options.

A command is a function `(context, ...) -> exit code or None`. The decorator adds the common
options and passes a `CommandContext` to the function. The aliases below give the same parameters
the same names, help and completion in every command.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, get_args, get_type_hints

import typer

from icectl.cli import completion

CommandBody = Callable[..., int | None]
_NAMES = ("REF", "FROM", "TO", "BRANCH", "TAG", "NAME")


@dataclass(frozen=True, slots=True)
class CommonOptions:
    repo: str | None = None
    storage_option: tuple[str, ...] = ()
    json: bool = False
    jsonl: bool = False
    no_color: bool = False
    quiet: bool = False
    verbose: int = 0

    def repository_words(self) -> str:
        """The options that name the repository, for a command that a user may paste."""
        words = [] if self.repo is None else ["-r", self.repo]
        for option in self.storage_option:
            words += ["--storage-option", option]
        return shlex.join(words)

    def merged(self, values: Mapping[str, Any]) -> CommonOptions:
        """Merge these options, given before the command, with those given after it."""
        return CommonOptions(
            repo=values.get("repo") if values.get("repo") is not None else self.repo,
            storage_option=self.storage_option + tuple(values.get("storage_option") or ()),
            json=self.json or bool(values.get("json")),
            jsonl=self.jsonl or bool(values.get("jsonl")),
            no_color=self.no_color or bool(values.get("no_color")),
            quiet=self.quiet or bool(values.get("quiet")),
            verbose=self.verbose + int(values.get("verbose") or 0),
        )


@dataclass(slots=True)
class Invocation:
    """One run of icectl: the environment, the common options, and the command once known."""

    environ: Mapping[str, str]
    options: CommonOptions = field(default_factory=CommonOptions)
    command: str = ""
    takes_repository: bool = False
    words: tuple[str, ...] = ()
    """The string values among the arguments of the command."""


def command(
    *, repository: bool = True, storage_options: bool | None = None, jsonl: bool = False
) -> Callable[[CommandBody], Callable[..., Any]]:
    """Make a function `(context, ...)` a command, with the common options after its own.

    By default, `--storage-option` is included if `--repo` is; `storage_options` overrides this.
    """
    with_storage = repository if storage_options is None else storage_options

    def decorate(body: CommandBody) -> Callable[..., Any]:
        @functools.wraps(body)
        def run(ctx: typer.Context, **values: Any) -> int | None:
            from icectl.cli.context import CommandContext
            from icectl.cli.logs import shown_logs

            invocation: Invocation = ctx.obj
            take_common(ctx, values)
            invocation.command = ctx.command_path.partition(" ")[2]
            invocation.takes_repository = repository
            own = {name: value for name, value in values.items() if name not in COMMON}
            invocation.words = tuple(
                text
                for value in own.values()
                for text in (value if isinstance(value, list | tuple) else [value])
                if isinstance(text, str)
            )
            context = CommandContext(invocation.command, invocation.options, invocation.environ)
            with context.output, shown_logs(invocation.options.verbose, invocation.environ):
                return body(context, **own)

        hints = get_type_hints(body, include_extras=True)
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            for parameter in list(inspect.signature(body).parameters.values())[1:]
        ]
        for parameter in own:
            _complete_by_metavar(get_args(parameter.annotation)[1])
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
                *own,
                *common_parameters(
                    repository=repository, storage_options=with_storage, jsonl=jsonl
                ),
            ]
        )
        run.__annotations__ = {}
        return run

    return decorate


def _complete_by_metavar(declared: Any) -> None:
    """Set the completion for the metavar; refuse a location if a name or a REF is expected."""
    if declared.autocompletion is None:
        declared.autocompletion = completion.BY_METAVAR.get(declared.metavar)
    if declared.metavar in _NAMES and declared.callback is None:
        declared.callback = refuse_location


def take_common(ctx: typer.Context, values: Mapping[str, Any]) -> None:
    """Merge the common options among `values` into the invocation."""
    ctx.obj.options = ctx.obj.options.merged(values)


RepoOption = Annotated[
    str | None,
    typer.Option(
        "--repo",
        "-r",
        metavar="LOCATION",
        help="The repository: a path, a URL (s3://, gs://, file://, memory://) or a name from the "
        "config file. Default: $ICECTL_REPO, else the repository around the current directory.",
        autocompletion=completion.BY_METAVAR["LOCATION"],
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="A storage option, such as endpoint_url=http://127.0.0.1:9000. Repeatable. "
        "Credentials come from the standard variables and files.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
JsonlOption = Annotated[bool, typer.Option("--jsonl", help="Print one JSON object per line.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="Never use colour.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Log operations to stderr; -vv logs every request.",
    ),
]
COMMON: dict[str, tuple[Any, Any]] = {
    "repo": (RepoOption, None),
    "storage_option": (StorageOption, None),
    "json": (JsonOption, False),
    "jsonl": (JsonlOption, False),
    "no_color": (NoColorOption, False),
    "quiet": (QuietOption, False),
    "verbose": (VerboseOption, 0),
}
assert list(COMMON) == [one.name for one in fields(CommonOptions)]


def common_parameters(
    *, repository: bool, storage_options: bool, jsonl: bool
) -> list[inspect.Parameter]:
    left_out = {
        *(() if repository else ("repo",)),
        *(() if storage_options else ("storage_option",)),
        *(() if jsonl else ("jsonl",)),
    }
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=annotation,
        )
        for name, (annotation, default) in COMMON.items()
        if name not in left_out
    ]


REF_HELP = (
    "A branch, a tag, or a snapshot id or its first 4 or more characters; REF~N and REF^ are "
    "ancestors. Write branch:NAME or tag:NAME if a name is both."
)


def refuse_location(ctx: typer.Context, value: Any) -> Any:
    """Show the right command to users who type `icectl log ./repo`."""
    from icectl.cli.locations import looks_like_location
    from icectl.errors import UsageError

    texts = value if isinstance(value, list | tuple) else [value]
    for text in texts:
        if isinstance(text, str) and looks_like_location(text):
            call = f"{ctx.command_path} -r {shlex.quote(text)}"
            if text.startswith("/") and any(one.metavar == "PATH" for one in ctx.command.params):
                call += f"; for a node, run {ctx.command_path} main {shlex.quote(text)}"
            if not any(one.name == "repo" for one in ctx.command.params):
                call = ctx.command.get_usage(ctx).removeprefix("Usage: ")
            raise UsageError(f"expected a name or a REF, but {text} is a location", hint=call)
    return value


RefArgument = Annotated[str, typer.Argument(metavar="REF", help=REF_HELP)]
OptionalRefArgument = Annotated[str | None, typer.Argument(metavar="REF", help=REF_HELP)]
DefaultRefArgument = Annotated[
    str | None, typer.Argument(metavar="REF", help=f"{REF_HELP} Default: main.")
]
"""None means `DEFAULT_REF`: the text `main` could also be a tag."""
BranchArgument = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch.")]
TagArgument = Annotated[str, typer.Argument(metavar="TAG", help="The tag.")]
NewNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The new name.")]
PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="A node of the hierarchy, such as /group/array.")
]
NumberOption = Annotated[
    int | None,
    typer.Option("--number", "-n", metavar="COUNT", min=0, help="Show at most this many."),
]
_MOMENT_HELP = (
    "A date (2024-01-31), a time (2024-01-31T12:00:00Z), or an age (3d, 12h, '2 weeks', yesterday)."
)
SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help=f"Show entries since this. {_MOMENT_HELP}"),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help=f"Show entries until this. {_MOMENT_HELP} A date includes the day.",
    ),
]
ExpectOption = Annotated[
    str | None,
    typer.Option("--expect", metavar="REF", help="Refuse unless it points to this snapshot."),
]
OP_HELP = (
    "An operation: @N counts back from the newest, which is @0; a date, time or age (3d) means the "
    "state at that time; or the name of a backup in overwritten/, or the end of it. "
    "`icectl ops-log` lists them."
)
OpArgument = Annotated[str, typer.Argument(metavar="OP", help=OP_HELP)]
AtOpOption = Annotated[
    str | None,
    typer.Option(
        "--at-op", metavar="OP", help=f"Show the repository as it was after an operation. {OP_HELP}"
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done without changing anything.")
]
