"""`icectl config`: the configuration that is stored in the repository."""

from __future__ import annotations

from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import command

EXAMPLES = {
    "config get": (
        ("icectl config get", "everything that is not at its default"),
        ("icectl config get inline_chunk_threshold_bytes", "one value"),
    ),
    "config set": (
        ("icectl config set inline_chunk_threshold_bytes 1024", "for every client from now on"),
        ("icectl config set compression.level null", "back to the default"),
    ),
}


@command()
def get(
    context: CommandContext,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="A dotted key, such as compression.level.")
    ] = None,
) -> None:
    """Show the stored configuration.

    With KEY, one value of it.

    What the repository leaves out, or has as null, is at the default of the client.
    """
    from icectl.ops.redaction import redact_locations
    from icectl.ops.settings import NamedValue, read_config_value
    from icectl.render.settings import render_mapping, render_named_value
    from icectl.repository.config import read_config

    repository = context.open_repository()
    if key is not None:
        value = redact_locations(read_config_value(repository, key).value)
        context.emit(NamedValue(key, value), render_named_value)
    else:
        config = redact_locations(read_config(repository))
        context.emit({"config": config}, lambda document: render_mapping(document["config"]))


@command()
def set_value(
    context: CommandContext,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A dotted key, such as compression.level.")
    ],
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE", help="JSON, or else a text; null goes back to the default."
        ),
    ],
) -> None:
    """Set a value of the stored configuration.

    Every client reads it when it opens the repository, and cannot open it at all when a value
    has the wrong type. So only known keys are set, and only to values that clients take.
    """
    from icectl.cli.values import parse_value
    from icectl.ops.settings import set_config_value

    result = set_config_value(context.open_repository(), key, parse_value(value))
    context.emit(result, lambda result: [f"{result.key} set"])
