"""Render the steps of a repair and the remaining findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.ops.repair.repo_file import Backup
from icectl.ops.repair.run import RepairResult, StepResult
from icectl.render.blocks import Block, Column, Part, Table
from icectl.render.sizes import format_count
from icectl.render.times import format_time
from icectl.render.validate import render_finding

SHOWN_BACKUPS = 5


def render_repair(result: RepairResult) -> Iterator[Block]:
    yield from _render_backups(result.backups)
    for step in result.steps:
        yield (_state(step), "  ", (step.object, "path"), f": {step.summary}")
        for loss in step.loses:
            yield f"    loses {loss}"
    for finding in result.left:
        yield from render_finding(finding)
    for note in result.notes:
        yield f"Note: {note}."
    if not result.steps:
        yield "Nothing here can be repaired." if result.left else "Nothing needs repair."
    named = dict.fromkeys(step.action for step in result.steps if not step.chosen)
    if named:
        options = " ".join(f"--step {action}" for action in named)
        yield f"To execute the steps that lose data, add {options}."
    if result.left:
        count = format_count(len(result.left), "finding")
        yield f"{count} left; see `icectl validate --explain {result.left[0].code}`."


def _state(step: StepResult) -> Part:
    if not step.chosen:
        return ("offered", "dim")
    return ("done", "good") if step.done else ("planned", "warning")


def _render_backups(backups: Sequence[Backup]) -> Iterator[Block]:
    if not backups:
        return
    columns = [
        Column("BACKUP", "path"),
        Column("NEWEST OPERATION"),
        Column("AT", "time"),
        Column("BRANCHES", "branch", wraps=True),
        Column("STATE"),
    ]
    rows = [
        (
            backup.path,
            backup.newest_operation,
            None if backup.updated_at is None else format_time(backup.updated_at),
            ", ".join(backup.branches),
            "chosen" if backup.chosen else backup.detail or backup.state,
        )
        for backup in backups[:SHOWN_BACKUPS]
    ]
    yield Table(columns, rows)
    if len(backups) > SHOWN_BACKUPS:
        yield f"... and {len(backups) - SHOWN_BACKUPS:,} older ones."
    yield ""
