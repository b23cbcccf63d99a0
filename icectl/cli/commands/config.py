"""`icectl config`: the configuration that is stored in the repository."""

from __future__ import annotations

from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import AtOpOption, command

EXAMPLES = {
    "config get": (
        ("icectl config get", "all values that differ from the default"),
        ("icectl config get inline_chunk_threshold_bytes", "one value"),
    ),
    "config set": (
        ("icectl config set inline_chunk_threshold_bytes 1024", "for every client"),
        ("icectl config set compression.level null", "restore the default"),
    ),
}


@command()
def get(
    context: CommandContext,
    key: Annotated[
        str | None,
        typer.Argument(metavar="CONFIG_KEY", help="A dotted key, such as compression.level."),
    ] = None,
    at_op: AtOpOption = None,
) -> None:
    """Show the stored configuration.

    With KEY, show one value.

    If a value is missing or null, clients use their default.
    """
    from icectl.model.redaction import redact_locations
    from icectl.ops.settings import NamedValue, read_config_value
    from icectl.render.settings import render_mapping, render_named_value
    from icectl.repository.config import read_config

    repository = context.open_repository(at_op)
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
        str, typer.Argument(metavar="CONFIG_KEY", help="A dotted key, such as compression.level.")
    ],
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE", help="JSON, or plain text; null restores the default."),
    ],
) -> None:
    """Set a value of the stored configuration.

    Every client reads the configuration when it opens the repository, and fails if a value has
    the wrong type. Therefore only known keys and values that clients accept can be set.
    """
    from icectl.cli.values import parse_value
    from icectl.ops.settings import set_config_value

    result = set_config_value(context.open_repository(), key, parse_value(value))
    context.emit(result, lambda result: [f"{result.key} set"])
