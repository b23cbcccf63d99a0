"""Render the plan and the result of an undo or a restore."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from icectl.ops.reported_changes import ReportedChanges
from icectl.ops.undo.execute import UndoResult
from icectl.render.blocks import Block
from icectl.render.ops_log import render_ops_log, update_document
from icectl.render.state_changes import MOST_LISTED, render_changes
from icectl.render.words import format_count


def undo_document(result: UndoResult) -> dict[str, Any]:
    document = {field.name: getattr(result, field.name) for field in fields(result)}
    return {**document, "operation": update_document(result.operation)}


def render_undo(result: UndoResult) -> Iterator[Block]:
    yield from render_ops_log([result.operation])
    changes = ReportedChanges(
        branches=result.branches,
        tags=result.tags,
        added_snapshots=result.restored_snapshots,
        removed_snapshots=result.removed_snapshots,
        reparented_snapshots=result.reparented_snapshots,
        config=result.config,
        metadata=result.metadata,
        flags=result.flags,
        status=result.status,
    )
    yield "Would change:" if result.dry_run else "Changed:"
    yield from render_changes(changes)
    for name in result.burnt_tags:
        yield ((f"The name of the tag {name} can never be used again.", "warning"),)
    if result.left_out_snapshots:
        count = format_count(len(result.left_out_snapshots), "unreachable snapshot")
        yield f"{count} stay released, because their objects are gone."
    for path in result.missing[:MOST_LISTED]:
        yield (("missing", "bad"), "  ", (path, "path"))
    more = len(result.missing) - MOST_LISTED
    if more > 0:
        yield f"  and {format_count(more, 'more object')} missing"
