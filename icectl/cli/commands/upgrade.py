"""`icectl upgrade`: bring a repository to the newest version of the format."""

from __future__ import annotations

from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import DryRunOption, Flag, YesOption, command
from icectl.errors import UsageError
from icectl.ops.upgrade import execute_upgrade, plan_upgrade
from icectl.render.upgrade import render_import, render_upgrade

EXAMPLES = """
icectl upgrade --dry-run  # show what changes, and which snapshots would no longer be listed
icectl upgrade --keep-detached --yes -r s3://bucket/prefix  # list those snapshots as well
icectl upgrade -r ./alpha --to s3://bucket/new  # a new repository; ./alpha is only read
"""


@command()
def upgrade(
    context: CommandContext,
    keep_detached: Annotated[Flag, "Also list snapshots that no branch or tag leads to."] = False,
    to: Annotated[
        str | None,
        typer.Option(metavar="TARGET"),
        "Create a new repository at this path, URL or name from the config file instead, and leave "
        "the old one unchanged. Required for repositories older than spec version 1.",
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Upgrade a repository from spec version 1 to version 2.

    Moves the refs and the configuration into a repo file with an ops log made from the history, as
    the official upgrade does. Snapshots, manifests and chunks stay as they are. Clients older than
    Icechunk 2 can no longer open the repository afterwards.

    The old files are copied to upgrade-backup/ first. If the upgrade is interrupted, run it again.
    If an old client commits meanwhile, its commit becomes part of the upgraded repository, or the
    upgrade is refused (exit code 11). A damaged repository is refused (13).

    With --to, TARGET becomes a new repository with the same branches, tags, commits, attributes and
    chunks, and the old one is only read. It works for every older generation, also for those that
    only early alphas can open. If it is interrupted, run it again with the same TARGET.
    """
    if to is not None:
        _import(context, to, keep_detached=keep_detached, dry_run=dry_run)
        return
    repository = context.open_repository()
    plan = plan_upgrade(repository, context.progress, keep_detached=keep_detached)
    if dry_run or plan.is_empty:
        result = plan.result(dry_run=dry_run)
    else:
        question = f"Upgrade {repository.storage.location} to spec version 2?"
        context.confirm(question, yes=yes, plan=render_upgrade(plan.result(dry_run=True)))
        result = execute_upgrade(repository.storage, plan, context.progress)
    context.emit(result, render_upgrade)


def _import(context: CommandContext, to: str, *, keep_detached: bool, dry_run: bool) -> None:
    from icectl.ops.import_legacy.execute import import_repository

    if keep_detached:
        raise UsageError(
            "--keep-detached cannot be combined with --to",
            hint="give the snapshots a branch or a tag first",
        )
    source = context.open_repository()
    result = import_repository(source, context.open_storage(to), context.progress, dry_run=dry_run)
    context.emit(result, render_import)
