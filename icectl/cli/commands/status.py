"""`icectl status`: show or set whether the repository accepts changes."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import AtOpOption, command

EXAMPLES = {
    "status show": (("icectl status", "online, read-only or offline, since when and why"),),
    "status set": (
        ('icectl status set read-only --reason "migration"', "refuse all writers"),
        ("icectl status set online", "accept changes again"),
    ),
}


@command()
def status(context: CommandContext, at_op: AtOpOption = None) -> None:
    """Show whether the repository accepts changes.

    Shows online, read-only or offline, the time of the last change, and the reason.

    A repository of spec version 1 has no status and is always online.
    """
    from icectl.ops.settings import read_status
    from icectl.render.settings import render_status

    context.emit(read_status(context.open_repository(at_op)), render_status)


@command()
def set_status(
    context: CommandContext,
    availability: Annotated[
        Literal["online", "read-only", "offline", "read_only"],
        typer.Argument(
            metavar="AVAILABILITY",
            help="online, read-only or offline.",
        ),
    ],
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="The reason, which clients show to users."),
    ] = None,
    accept_older_repo: Annotated[
        bool,
        typer.Option(
            "--accept-older-repo",
            help="Continue with a repo file that is older than its own backups. gc keeps the "
            "snapshots that only newer backups list.",
        ),
    ] = False,
) -> None:
    """Set the repository online, read-only or offline.

    If the repository is read-only, icectl and the official clients refuse every change except
    this one. Clients that have it open notice this with their next change. Only icectl supports
    offline: official clients treat it as online and continue to write, and their next change
    resets the status to online. Use read-only to stop them.
    """
    from icectl.cli.values import check_text
    from icectl.model.repo import Availability
    from icectl.ops import settings
    from icectl.render.settings import render_status

    if reason is not None:
        check_text(reason)
    wanted = Availability[availability.replace("-", "_").upper()]
    report = settings.set_status(
        context.open_repository(), wanted, reason, accept_older_repo=accept_older_repo
    )
    if wanted is Availability.OFFLINE:
        context.warn(
            "official clients ignore offline and continue to write; use read-only to stop them"
        )
    context.emit(report, render_status)
