"""Render the plan or the result of a garbage collection."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

from icectl.render.blocks import Block, Column, Table, count_column, size_column, time_column
from icectl.render.text import format_count, format_size, format_time_short, join_first

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
        titles = ("KIND", "WOULD GO" if result.dry_run else "DELETED", "KEPT")
        columns = [Column(title, itemgetter(at), right=at > 0) for at, title in enumerate(titles)]
        yield Table(columns, [(kind, f"{gone:,}", f"{kept:,}") for kind, gone, kept in counts])
        if result.dry_run:
            yield from _render_plan(result)
    if any(kind.count for kind in result.garbage):
        yield f"{format_count(total, 'object')} ({format_size(result.bytes_deleted)}) {verb}"
    else:
        yield f"no garbage from before {format_time_short(result.cutoff_at)}"
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
    age = Column("AGE", lambda age: age.age)
    ages = (age, count_column("OBJECTS", "count"), size_column("SIZE", "bytes"))
    largest = (
        Column("LARGEST", lambda item: item.object, "path"),
        size_column("SIZE", "size"),
        time_column("CREATED", "created_at"),
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
        names = join_first(result.foreign, SHOWN)
        yield f"ignored, because their names are not those of Icechunk: {names}"
    for failure in result.failures[:SHOWN]:
        named = "" if failure.object in failure.error else f"{failure.object}: "
        yield f"not deleted: {named}{failure.error}"
    if len(result.failures) > SHOWN:
        yield f"{len(result.failures) - SHOWN} more objects were not deleted"
