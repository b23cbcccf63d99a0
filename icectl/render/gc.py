"""Render the plan or the result of a garbage collection."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

from icectl.render.blocks import Block, Column, Table
from icectl.render.text import format_count, format_size, format_time_short

if TYPE_CHECKING:
    from icectl.ops.gc.report import GcResult

SHOWN = 10


def render_gc(result: GcResult) -> Iterator[Block]:
    counts = (
        ("snapshots", result.snapshots_deleted, result.kept.snapshots),
        ("transaction logs", result.transaction_logs_deleted, result.kept.transaction_logs),
        ("manifests", result.manifests_deleted, result.kept.manifests),
        ("chunks", result.chunks_deleted, result.kept.chunks),
    )
    total = result.num_objects
    verb = "would be deleted" if result.dry_run else "deleted"
    if total:
        columns = (
            Column("KIND", itemgetter(0)),
            Column(
                "WOULD GO" if result.dry_run else "DELETED", lambda row: f"{row[1]:,}", right=True
            ),
            Column("KEPT", lambda row: f"{row[2]:,}", right=True),
        )
        yield Table(columns, counts)
        if result.dry_run:
            yield from _render_plan(result)
    if any(kind.count for kind in result.garbage):
        yield f"{format_count(total, 'object')} ({format_size(result.bytes_deleted)}) {verb}"
    else:
        yield "no garbage"
    if result.backups_deleted:
        size = format_size(result.backup_bytes_deleted)
        backups = format_count(result.backups_deleted, "old backup")
        yield f"{backups} in overwritten/ ({size}) {verb}"
    if result.failures:
        count = format_count(len(result.failures), "object")
        yield ((f"{count} could not be deleted; the next run tries again", "warning"),)
        if result.skipped_phases:
            kinds = ", ".join(phase.replace("_", " ") for phase in result.skipped_phases)
            yield ((f"therefore skipped: {kinds}; the next run deletes them", "warning"),)
    elif not result.is_complete:
        yield (("stopped at the time limit; the next run continues", "warning"),)


def _render_plan(result: GcResult) -> Iterator[Block]:
    ages = (
        Column("AGE", lambda age: age.age),
        Column("OBJECTS", lambda age: f"{age.count:,}", right=True),
        Column("SIZE", lambda age: format_size(age.bytes), right=True),
    )
    largest = (
        Column("LARGEST", lambda item: item.object, "path"),
        Column("SIZE", lambda item: format_size(item.size), right=True),
        Column("CREATED", lambda item: format_time_short(item.created_at), "time"),
    )
    yield from ("", Table(ages, result.by_age), "", Table(largest, result.largest), "")


def render_notes(result: GcResult) -> Iterator[str]:
    """Yield the warnings for stderr: skipped objects and failed deletes."""
    if result.num_spared:
        count = format_count(result.num_spared, "object")
        yield f"{count} in the plan skipped: now in use, too recent, or already deleted"
    if result.ops_log_uncut:
        yield (
            "the ops log was not truncated: by their names, some younger backups are older than "
            "those to be deleted, and the log would have a gap"
        )
    if result.foreign:
        names = ", ".join(result.foreign[:SHOWN])
        more = f" and {len(result.foreign) - SHOWN} more" if len(result.foreign) > SHOWN else ""
        yield f"ignored, because their names are not those of Icechunk: {names}{more}"
    for failure in result.failures[:SHOWN]:
        named = "" if failure.object in failure.error else f"{failure.object}: "
        yield f"not deleted: {named}{failure.error}"
    if len(result.failures) > SHOWN:
        yield f"{len(result.failures) - SHOWN} more objects were not deleted"
