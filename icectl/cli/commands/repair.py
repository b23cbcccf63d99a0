"""`icectl repair`: repair problems that prevent safe writes."""

from __future__ import annotations

from icectl.cli import exit_codes
from icectl.cli.context import CommandContext
from icectl.cli.options import DryRunOption, YesOption, command

EXAMPLES = """
icectl repair --dry-run  # show what can be repaired and what would remain
icectl repair --yes -r s3://bucket/prefix  # repair without confirmation
"""


@command()
def repair(context: CommandContext, dry_run: DryRunOption = False, yes: YesOption = False) -> int:
    """Repair problems that prevent safe writes.

    Newest operation in the future (ICE0022): a client with a wrong clock wrote it, and official
    clients refuse every change until that time. The repair adds a metadata update with the
    current time to the ops log, which does not change the metadata. Older entries keep their
    times and remain in the ops log, in the backup of the repo file that the repair creates.

    Conditional writes turned off (ICE0023), on S3 and GCS: the repair restores the defaults of
    the stored settings storage.unsafe_use_conditional_create,
    storage.unsafe_use_conditional_update and storage.unsafe_use_metadata. Clients that have the
    repository open must reopen it.

    Exit code 3 means that findings remain that this command cannot repair.
    """
    from icectl.ops.repair import execute_repair, plan_repair
    from icectl.render.validate import render_repair

    repository = context.open_repository()
    steps = plan_repair(repository, repository.storage.read_clock())
    if steps and not dry_run:
        summaries = "; ".join(step.summary for step in steps)
        context.confirm(f"{repository.storage.location}: {summaries}?", yes=yes)
    result = execute_repair(repository, steps, dry_run=dry_run)
    context.emit(result, render_repair)
    return exit_codes.FINDINGS if result.left else exit_codes.DONE
