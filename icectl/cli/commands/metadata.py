"""`icectl metadata`: show and change the metadata of a repository."""

from __future__ import annotations

from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import AtOpOption, command

EXAMPLES = {
    "metadata get": (
        ("icectl metadata get", "all values"),
        ("icectl metadata get owner", "one value"),
    ),
    "metadata set": (
        ("icectl metadata set owner ocean-team", "plain text"),
        ("icectl metadata set contacts '[\"a@example.org\"]'", "any JSON"),
    ),
    "metadata unset": (("icectl metadata unset owner contacts", "remove two values"),),
}


@command()
def get(
    context: CommandContext,
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="The name of one value.")] = None,
    at_op: AtOpOption = None,
) -> None:
    """Show the metadata of the repository.

    With KEY, show one value.

    The metadata of a commit is different; `icectl show` shows it.
    """
    from icectl.ops.settings import read_metadata, read_metadata_value
    from icectl.render.settings import render_mapping, render_named_value

    repository = context.open_repository(at_op)
    if key is not None:
        context.emit(read_metadata_value(repository, key), render_named_value)
        return
    metadata = read_metadata(repository)
    if not metadata and context.wants_text:
        context.note("the repository has no metadata")
    context.emit(
        {"metadata": metadata},
        lambda document: render_mapping(document["metadata"]),
    )


@command()
def set_value(
    context: CommandContext,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The name of the value.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON or plain text.")],
) -> None:
    """Add or replace a metadata value."""
    from icectl.cli.values import check_text, parse_value
    from icectl.errors import UsageError
    from icectl.ops.settings import set_metadata

    if not key:
        raise UsageError("the name of the value is empty", hint="icectl metadata set KEY VALUE")
    metadata = set_metadata(context.open_repository(), {check_text(key): parse_value(value)})
    context.emit({"metadata": metadata}, lambda _document: ["metadata set"])


@command()
def unset(
    context: CommandContext,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="The names of the values.")],
) -> None:
    """Remove metadata values."""
    from icectl.ops.settings import unset_metadata

    unset_metadata(context.open_repository(), keys)
    context.emit({"unset": keys}, lambda _document: ["metadata removed"])
