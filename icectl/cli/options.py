"""How a command declares itself: the `command` decorator and parameter aliases.

The decorator adds the options that every command has; the aliases give equal parameters
equal names, help and completion everywhere. Completions follow the metavar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from icectl.cli.parameters import Argument, Option, Parameter, read_parameters
from icectl.records import dataclass

CommandBody = Callable[..., int | None]


@dataclass(frozen=True, slots=True)
class CommandFunction:
    """A command's body and which of the common options it takes."""

    body: CommandBody
    repository: bool
    storage_options: bool
    jsonl: bool

    def parameters(self) -> list[Parameter]:
        """The body's own parameters, then the common options."""
        return [
            *read_parameters(self.body),
            *((REPOSITORY_OPTION,) if self.repository else ()),
            *((STORAGE_OPTION,) if self.storage_options else ()),
            JSON_OPTION,
            *((JSONL_OPTION,) if self.jsonl else ()),
            *OUTPUT_OPTIONS,
        ]


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


def _flag(name: str, *names: str, text: str) -> Parameter:
    return Parameter(name, Option(*names, help=text), bool, False, False, False)


REPOSITORY_OPTION = Parameter(
    "repo",
    Option(
        "--repo",
        "-r",
        metavar="LOCATION",
        help="The repository: a path, a URL (s3://, gs://, file://, memory://) or a name from the "
        "config file. Default: $ICECTL_REPO, else the repository that the current directory is in.",
    ),
    str,
    multiple=False,
    required=False,
    default=None,
)
STORAGE_OPTION = Parameter(
    "storage_option",
    Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="An option for the storage, such as endpoint_url=http://127.0.0.1:9000. Repeatable. "
        "Credentials come from the standard variables and files.",
    ),
    str,
    multiple=True,
    required=False,
    default=(),
)
JSON_OPTION = _flag("json", "--json", text="Print one JSON document.")
JSONL_OPTION = _flag("jsonl", "--jsonl", text="Print one JSON object per line.")
OUTPUT_OPTIONS = (
    _flag("no_color", "--no-color", text="Never use colour."),
    _flag("quiet", "--quiet", "-q", text="No progress and no notes."),
    Parameter(
        "verbose",
        Option(
            "--verbose",
            "-v",
            count=True,
            help="Log on stderr what is done; twice: every request too.",
        ),
        int,
        multiple=False,
        required=False,
        default=0,
    ),
)

REF_HELP = (
    "A branch, a tag, a snapshot id or at least 4 characters of one; with ~N, its Nth ancestor. "
    "Write branch:NAME or tag:NAME where a name is both."
)
RefArgument = Annotated[str, Argument("REF", help=REF_HELP)]
OptionalRefArgument = Annotated[str | None, Argument("REF", help=REF_HELP)]
DefaultRefArgument = Annotated[str | None, Argument("REF", help=f"{REF_HELP} Default: main.")]
"""None is `DEFAULT_REF`: the text `main` could be a tag as well."""
BranchArgument = Annotated[str, Argument("BRANCH", help="The branch.")]
TagArgument = Annotated[str, Argument("TAG", help="The tag.")]
NewNameArgument = Annotated[str, Argument("NAME", help="The new name.")]
PathArgument = Annotated[
    str, Argument("PATH", help="A node of the hierarchy, such as /group/array.")
]
NumberOption = Annotated[
    int | None,
    Option("--number", "-n", metavar="COUNT", minimum=0, help="At most this many."),
]
_MOMENT_HELP = "A date (2024-01-31), a time (2024-01-31T12:00:00Z), or an age (3d, 12h, 2w)."
SinceOption = Annotated[
    str | None, Option("--since", metavar="TIME", help=f"Not older than this. {_MOMENT_HELP}")
]
UntilOption = Annotated[
    str | None,
    Option(
        "--until",
        metavar="TIME",
        help=f"Not newer than this. {_MOMENT_HELP} A date includes its day.",
    ),
]
ExpectOption = Annotated[
    str | None,
    Option("--expect", metavar="REF", help="Refuse unless it points to this snapshot now."),
]
YesOption = Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRunOption = Annotated[
    bool, Option("--dry-run", help="Show exactly what would happen, and change nothing.")
]
