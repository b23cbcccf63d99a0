"""Render the steps of a repair and the remaining findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.ops.repair.repo_file import Backup
from icectl.ops.repair.run import RepairResult, StepResult
from icectl.render.blocks import Block
from icectl.render.text import format_count, format_time_short
from icectl.render.validate import render_finding

SHOWN_BACKUPS = 5


def render_repair(result: RepairResult) -> Iterator[Block]:
    yield from _render_backups(result.backups)
    done = "Steps executed:" if not result.dry_run else "Steps to execute:"
    yield from _steps(done, [step for step in result.steps if step.chosen])
    optional = [step for step in result.steps if not step.chosen]
    options = " ".join(dict.fromkeys(f"--step {step.action}" for step in optional))
    yield from _steps(f"Not executed without {options}, because data is lost:", optional)
    for finding in result.left:
        yield from render_finding(finding)
    for note in result.notes:
        yield f"Note: {note}."
    if not result.steps:
        yield "Nothing here can be repaired." if result.left else "Nothing needs repair."
    if result.left:
        count = format_count(len(result.left), "finding")
        explained = f"`icectl validate --explain {result.left[0].code}`"
        yield f"{count} left; see {explained} and icectl-recovery(7)."


def _steps(title: str, steps: Sequence[StepResult]) -> Iterator[Block]:
    if steps:
        yield ((title, "title"),)
    for step in steps:
        yield ("  ", (step.object, "path"), f": {step.summary}")
        for loss in step.loses:
            yield f"    loses {loss}"


def _render_backups(backups: Sequence[Backup]) -> Iterator[Block]:
    if not backups:
        return
    yield (("Backups of the repo file, newest first:", "title"),)
    for backup in backups[:SHOWN_BACKUPS]:
        chosen = ", used for the repair" if backup.chosen else ""
        yield ("  ", (backup.path, "path"), f": {backup.detail or backup.state}{chosen}")
        if backup.newest_operation is not None and backup.updated_at is not None:
            newest = backup.newest_operation.replace("_", " ")
            refs = ", ".join(backup.branches)
            yield f"    {newest} at {format_time_short(backup.updated_at)}; branches: {refs}"
    if len(backups) > SHOWN_BACKUPS:
        yield f"  ... and {len(backups) - SHOWN_BACKUPS:,} older ones"
    yield ""
