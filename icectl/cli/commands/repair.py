"""`icectl repair`: mend what keeps clients from writing safely."""

from __future__ import annotations

from icectl.cli import exit_codes
from icectl.cli.context import CommandContext
from icectl.cli.options import DryRunOption, YesOption, command

EXAMPLES = {
    "repair": (
        ("icectl repair --dry-run", "what can be mended, and what would remain"),
        ("icectl repair --yes -r s3://bucket/prefix", "mend it, without a question"),
    )
}


@command()
def repair(context: CommandContext, dry_run: DryRunOption = False, yes: YesOption = False) -> int:
    """Repair what keeps clients from writing safely.

    Newest operation in the future (ICE0022): a client with a wrong clock wrote it, and official
    clients refuse every change until its time has come. The ops log gets a newest entry of
    today, a change of the metadata that changes nothing. The entries before it keep their times
    and stay in the ops log, in the copy of the repo file that the repair makes.

    Conditional writes turned off (ICE0023), on S3 and GCS: the stored settings
    storage.unsafe_use_conditional_create, storage.unsafe_use_conditional_update and
    storage.unsafe_use_metadata return to their defaults. Clients that have the repository open
    must open it again.

    Exit code 3 says that findings are left which this command cannot mend.
    """
    from icectl.ops.repair import execute_repair, plan_repair
    from icectl.render.repair import render_repair

    repository = context.open_repository()
    steps = plan_repair(repository, repository.storage.read_clock())
    if steps and not dry_run:
        summaries = "; ".join(step.summary for step in steps)
        context.confirm(f"{repository.storage.location}: {summaries}?", yes=yes)
    result = execute_repair(repository, steps, dry_run=dry_run)
    context.emit(result, render_repair)
    return exit_codes.FINDINGS if result.left else exit_codes.DONE
