"""Render the steps of a repair and the remaining findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.ops.repair.repo_file import Backup
from icectl.ops.repair.run import RepairResult, StepResult
from icectl.render.blocks import Block, Column, Part, Table
from icectl.render.validate import render_finding
from icectl.render.words import format_count, format_time

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
        explained = f"`icectl validate --explain {result.left[0].code}`"
        yield f"{count} left; see {explained} and icectl-recovery(7)."


def _state(step: StepResult) -> Part:
    if not step.chosen:
        return ("offered", "dim")
    return ("done", "good") if step.done else ("planned", "warning")


def _render_backups(backups: Sequence[Backup]) -> Iterator[Block]:
    if not backups:
        return
    columns = (
        Column("BACKUP", lambda backup: backup.path, "path"),
        Column("NEWEST OPERATION", lambda backup: backup.newest_operation),
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


def _describe(backup: Backup) -> str:
    return "chosen" if backup.chosen else backup.detail or backup.state
