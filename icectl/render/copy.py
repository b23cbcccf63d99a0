"""Render a copy: how many objects of each kind were copied, and what the target is now."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.ops.copy.run import CopyResult
from icectl.render.blocks import Block, Column, Table
from icectl.render.text import format_count, format_counts, format_size


def render_copy(result: CopyResult) -> Iterator[Block]:
    if result.is_up_to_date:
        yield f"{result.target} is up to date"
        return
    columns = (
        Column("KIND", lambda kind: kind.replace("_", " ")),
        Column("OBJECTS", lambda kind: f"{result.copied[kind]:,}", right=True),
        Column("SIZE", lambda kind: format_size(result.bytes_by_kind[kind]), right=True),
    )
    yield Table(columns, [kind for kind, count in result.copied.items() if count])
    verb = "would copy" if result.dry_run else "copied"
    yield (
        f"{verb} {format_count(result.objects, 'object')} "
        f"({format_size(result.bytes_copied)}) to {result.target}"
    )
    counts = {
        "branch": len(result.branches),
        "tag": len(result.tags),
        "snapshot": result.snapshots,
    }
    made = "is a new repository with" if result.is_new else "has"
    yield f"it {'would have' if result.dry_run else made} {format_counts(counts)}"
    if result.verified is not None:
        yield f"verified: its objects have the same {result.verified} as those of the source"
    for lost in result.lost:
        yield f"{'would lose' if result.dry_run else 'lost'} {lost}, which only the target had"
