"""Render the steps of a repair and the remaining findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.ops.repair.repo_file import Backup
from icectl.ops.repair.run import RepairResult, StepResult
from icectl.render.blocks import Block, Column, Table
from icectl.render.text import format_count, format_time
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
        yield f"{count} left; see `icectl validate --explain {result.left[0].code}`."


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
    columns = (
        Column("BACKUP", lambda backup: backup.path, "path"),
        Column("NEWEST OPERATION", _operation, wraps=True),
        Column("AT", _date, "time"),
        Column("BRANCHES", lambda backup: ", ".join(backup.branches), "branch", wraps=True),
        Column("STATE", _describe),
    )
    yield Table(columns, backups[:SHOWN_BACKUPS])
    if len(backups) > SHOWN_BACKUPS:
        yield f"... and {len(backups) - SHOWN_BACKUPS:,} older ones."
    yield ""


def _date(backup: Backup) -> str | None:
    return None if backup.updated_at is None else format_time(backup.updated_at)


def _operation(backup: Backup) -> str | None:
    return backup.newest_operation and backup.newest_operation.replace("_", " ")


def _describe(backup: Backup) -> str:
    return "used for the repair" if backup.chosen else backup.detail or backup.state
