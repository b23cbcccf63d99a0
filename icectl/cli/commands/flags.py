"""`icectl flags`: the feature flags of a repository."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import AtOpOption, command

EXAMPLES = {
    "flags list": (("icectl flags list", "all flags and their values"),),
    "flags set": (
        ("icectl flags set delete_tag off", "forbid all clients to delete tags"),
        ("icectl flags set delete_tag default", "remove the setting"),
    ),
}


@command(jsonl=True)
def list_flags(context: CommandContext, at_op: AtOpOption = None) -> None:
    """List the feature flags.

    A flag allows or forbids an operation in this repository.
    """
    from icectl.ops.settings import list_flags
    from icectl.render.settings import render_flags

    flags = list_flags(context.open_repository(at_op))
    context.emit_list("flags", flags, render_flags, paged=False)


@command()
def set_flag(
    context: CommandContext,
    flag: Annotated[
        str,
        typer.Argument(metavar="FLAG", help="move_node, create_tag, delete_tag, or its number."),
    ],
    value: Annotated[
        Literal["on", "off", "default"],
        typer.Argument(metavar="VALUE", help="on, off, or default."),
    ],
) -> None:
    """Turn a feature flag on or off.

    The VALUE `default` removes the setting; every flag is on by default.
    """
    from icectl.ops import settings
    from icectl.render.settings import render_flags

    wanted = {"on": True, "off": False, "default": None}[value]
    changed = settings.set_flag(context.open_repository(), flag, wanted)
    context.emit(changed, lambda changed: render_flags([changed]))
