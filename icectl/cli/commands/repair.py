"""`icectl repair`: repair what `validate` finds."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from icectl.checks.rules import Level
from icectl.cli import exit_codes
from icectl.cli.context import CommandContext
from icectl.cli.options import DryRunOption, YesOption, command
from icectl.ops.repair import NamedStep
from icectl.ops.repair.run import RepairOptions, execute_repair, plan_repair
from icectl.render.repair import render_repair
from icectl.render.text import format_count

EXAMPLES = """
icectl repair --dry-run  # show what can be repaired and what would remain
icectl repair --yes -r s3://bucket/prefix  # repair without confirmation
icectl repair --step drop_lost_references  # also give up lost chunks, which become fill value
"""


@command()
def repair(
    context: CommandContext,
    step: Annotated[
        list[NamedStep] | None,
        typer.Option(metavar="ACTION"),
        f"Also execute the steps with this action, which lose data: {', '.join(NamedStep)}. "
        "Repeatable.",
    ] = None,
    level: Annotated[
        Literal["refs", "metadata", "manifests", "chunks"],
        typer.Option(metavar="LEVEL"),
        "How thoroughly to look, as for `icectl validate`.",
    ] = "chunks",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> int:
    """Repair what validate finds.

    Shows a plan and what each step loses, and asks before it changes anything. What cannot be
    repaired is left as it was and listed. Steps that give up data which others may still be able
    to restore are executed only if --step names their action. If files are missing, fetch them
    from a mirror first (see `icectl validate --missing`).

    restore_repo: the repo file is missing, damaged or older than its backups, and the newest
    sound backup replaces it; a damaged file is copied to overwritten/ first. With --step if the
    file can still be read in part. recover_branch: commits that the file no longer lists get a
    branch of their own. sort_repo: lists in the repo file that are out of order are sorted.

    rebuild_transaction_log: a missing or damaged log is derived from the two snapshots.
    rewrite_first_snapshot: the empty first snapshot is written again. reset_branch: a branch at
    an unreadable snapshot moves to its newest sound ancestor. release_snapshots: unreadable
    snapshots leave the history, and their children continue at the nearest sound ancestor.
    delete_tag, with --step: a tag at an unreadable snapshot, since tags never move.

    drop_lost_references, with --step: a new commit on each branch without the references to lost
    chunks and manifests; these chunks become fill value. Of a lost manifest, references that have
    not changed since an older version are taken from there. release_versions, with --step: older
    versions with such references leave the history, and their tags are deleted.

    restart_ops_log: the newest operation is in the future (ICE0022), because a client with a
    wrong clock wrote it, and official clients refuse every change until that time. A metadata
    update with the current time follows it, which does not change the metadata.
    reset_storage_settings: on S3 and GCS, the defaults of the stored settings that turn
    conditional writes off (ICE0023) are restored. Clients that have the repository open must
    reopen it.

    Exit code 3 means that findings remain.
    """
    storage = context.open_storage()
    options = RepairOptions(Level[level.upper()], frozenset(step or ()))
    plan = plan_repair(storage, options, storage.read_clock(), context.progress)
    planned = plan.result(dry_run=True, left=plan.left)
    if dry_run or not plan.chosen:
        result = planned if dry_run else plan.result(dry_run=False, left=plan.left)
    else:
        question = f"Execute {format_count(len(plan.chosen), 'step')} in {storage.location}?"
        context.confirm(question, yes=yes, plan=render_repair(planned))
        result = execute_repair(storage, plan, context.progress)
    context.emit(result, render_repair, paged=True)
    return exit_codes.FINDINGS if result.left else exit_codes.DONE
