"""Render the plan and the result of an undo or a restore."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from icectl.ops.undo.execute import UndoResult
from icectl.render.blocks import Block
from icectl.render.ops_log import render_ops_log, update_document
from icectl.render.state_changes import MOST_LISTED, NOTHING, render_changes
from icectl.render.words import format_count


def undo_document(result: UndoResult) -> dict[str, Any]:
    changes = {field.name: getattr(result.changes, field.name) for field in fields(result.changes)}
    return {
        "dry_run": result.dry_run,
        "operation": update_document(result.operation),
        "restored_snapshots": changes.pop("added_snapshots"),
        **changes,
        "left_out_snapshots": result.left_out_snapshots,
        "burnt_tags": result.burnt_tags,
        "missing": result.missing,
    }


def render_undo(result: UndoResult) -> Iterator[Block]:
    yield from render_ops_log([result.operation])
    changes = [*render_changes(result.changes)]
    if changes != [NOTHING]:
        yield "Would change:" if result.dry_run else "Changed:"
    yield from changes
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
