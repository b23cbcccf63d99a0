"""How a command declares itself: the `command` decorator and parameter aliases.

The decorator adds the options that every command has; the aliases give equal parameters
equal names, help and completion everywhere. Completions follow the metavar.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from icectl.cli.locations import looks_like_location
from icectl.errors import UsageError

CommandBody = Callable[..., int | None]


@dataclass(frozen=True, slots=True)
class CommandFunction:
    """A command's body and which of the common options it takes."""

    body: CommandBody
    repository: bool
    storage_options: bool
    jsonl: bool

    def parameters(self) -> list[inspect.Parameter]:
        """The body's own parameters without the context, then the common options."""
        own = list(inspect.signature(self.body, eval_str=True).parameters.values())[1:]
        shared = [
            *((REPOSITORY_OPTION,) if self.repository else ()),
            *((STORAGE_OPTION,) if self.storage_options else ()),
            JSON_OPTION,
            *((JSONL_OPTION,) if self.jsonl else ()),
            *OUTPUT_OPTIONS,
        ]
        named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        return named + shared


def command(
    *, repository: bool = True, storage_options: bool | None = None, jsonl: bool = False
) -> Callable[[CommandBody], CommandFunction]:
    """Make a function `(context, ...) -> exit code or None` a command of the tree.

    `--storage-option` comes with `--repo` unless told otherwise.
    """

    def declare(body: CommandBody) -> CommandFunction:
        with_storage = repository if storage_options is None else storage_options
        return CommandFunction(body, repository, with_storage, jsonl)

    return declare


def _shared(name: str, default: object, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


REPOSITORY_OPTION = _shared(
    "repo",
    None,
    Annotated[
        str | None,
        typer.Option(
            "--repo",
            "-r",
            metavar="LOCATION",
            help="The repository: a path, a URL (s3://, gs://, file://, memory://) or a name "
            "from the config file. Default: $ICECTL_REPO, else the repository that the "
            "current directory is in.",
            show_default=False,
        ),
    ],
)
STORAGE_OPTION = _shared(
    "storage_option",
    (),
    Annotated[
        list[str],
        typer.Option(
            "--storage-option",
            metavar="KEY=VALUE",
            help="An option for the storage, such as endpoint_url=http://127.0.0.1:9000. "
            "Repeatable. Credentials come from the standard variables and files.",
            show_default=False,
        ),
    ],
)
JSON_OPTION = _shared(
    "json", False, Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
)
JSONL_OPTION = _shared(
    "jsonl",
    False,
    Annotated[bool, typer.Option("--jsonl", help="Print one JSON object per line.")],
)
OUTPUT_OPTIONS = (
    _shared(
        "no_color", False, Annotated[bool, typer.Option("--no-color", help="Never use colour.")]
    ),
    _shared(
        "quiet",
        False,
        Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")],
    ),
    _shared(
        "verbose",
        0,
        Annotated[
            int,
            typer.Option(
                "-v",
                "--verbose",
                count=True,
                help="Say more on stderr; twice: tracebacks too.",
                show_default=False,
            ),
        ],
    ),
)
COMMON_OPTION_NAMES = frozenset(
    parameter.name
    for parameter in (REPOSITORY_OPTION, STORAGE_OPTION, JSON_OPTION, JSONL_OPTION, *OUTPUT_OPTIONS)
)


def _refuse_location(context: typer.Context, value: str | None) -> str | None:
    if value is not None and looks_like_location(value):
        raise UsageError(
            f"{value} is a location, and a branch, tag or snapshot id stands here",
            hint=f"{context.command_path} -r {value}",
        )
    return value


_REF_HELP = (
    "A branch, a tag, a snapshot id or at least 4 characters of one; with ~N, its Nth ancestor. "
    "branch:NAME and tag:NAME where a name is both."
)
RefArgument = Annotated[
    str, typer.Argument(metavar="REF", help=_REF_HELP, callback=_refuse_location)
]
OptionalRefArgument = Annotated[
    str | None,
    typer.Argument(metavar="REF", help=_REF_HELP, callback=_refuse_location, show_default=False),
]
BranchArgument = Annotated[
    str, typer.Argument(metavar="BRANCH", help="The branch.", callback=_refuse_location)
]
TagArgument = Annotated[
    str, typer.Argument(metavar="TAG", help="The tag.", callback=_refuse_location)
]
NewNameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The new name.", callback=_refuse_location)
]
PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="A node of the hierarchy, such as /group/array.")
]
NumberOption = Annotated[
    int | None,
    typer.Option(
        "--number", "-n", metavar="COUNT", min=0, help="At most this many.", show_default=False
    ),
]
_MOMENT_HELP = "A date (2024-01-31), a time (2024-01-31T12:00:00Z), or an age (3d, 12h, 2w)."
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help=f"Not older than this. {_MOMENT_HELP}", show_default=False
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TIME", help=f"Not newer than this. {_MOMENT_HELP}", show_default=False
    ),
]
ExpectOption = Annotated[
    str | None,
    typer.Option(
        "--expect",
        metavar="REF",
        help="Refuse unless it points to this snapshot now.",
        show_default=False,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show exactly what would happen, and change nothing.")
]
