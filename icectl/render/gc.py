"""A garbage collection's plan or result, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from icectl.render.blocks import Block, Column, Table
from icectl.render.sizes import format_count, format_size
from icectl.render.times import format_time_short

if TYPE_CHECKING:
    from icectl.ops.gc.result import GcResult

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
            Column("KIND"),
            Column("WOULD GO" if result.dry_run else "DELETED", right=True),
            Column("KEPT", right=True),
        )
        rows = [(kind, f"{count:,}", f"{kept:,}") for kind, count, kept in counts]
        yield Table(columns, rows)
        if result.dry_run:
            yield from _render_plan(result)
    if any(kind.count for kind in result.garbage):
        yield f"{format_count(total, 'object')} ({format_size(result.bytes_deleted)}) {verb}"
    else:
        yield "there is no garbage"
    if result.backups_deleted:
        size = format_size(result.backup_bytes_deleted)
        copies = format_count(result.backups_deleted, "old copy", "old copies")
        yield f"{copies} in overwritten/ ({size}) {verb}"
    if result.failures:
        count = format_count(len(result.failures), "object")
        yield ((f"{count} could not be deleted: the next run tries again", "warning"),)
        if result.skipped_phases:
            kinds = ", ".join(phase.replace("_", " ") for phase in result.skipped_phases)
            yield ((f"skipped for that reason: {kinds}; the next run deletes them", "warning"),)
    elif not result.is_complete:
        yield (("the time was up: the next run goes on with the rest", "warning"),)


def _render_plan(result: GcResult) -> Iterator[Block]:
    yield ""
    columns = (Column("AGE"), Column("OBJECTS", right=True), Column("SIZE", right=True))
    rows = [(age.age, f"{age.count:,}", format_size(age.bytes)) for age in result.by_age]
    yield Table(columns, rows)
    yield ""
    largest = (Column("LARGEST", "path"), Column("SIZE", right=True), Column("CREATED", "time"))
    yield Table(
        largest,
        [
            (item.object, format_size(item.size), format_time_short(item.created_at))
            for item in result.largest
        ],
    )
    yield ""


def render_notes(result: GcResult) -> Iterator[str]:
    """What belongs to stderr: what was left alone, and failed deletes."""
    if result.num_spared:
        count = format_count(result.num_spared, "object")
        yield f"{count} of the plan stay as they are: needed by now, too young, or gone already"
    if result.ops_log_uncut:
        yield (
            "the ops log was not cut: its entries of that age stand in copies, which are never "
            "rewritten"
        )
    if result.foreign:
        names = ", ".join(result.foreign[:SHOWN])
        more = f" and {len(result.foreign) - SHOWN} more" if len(result.foreign) > SHOWN else ""
        yield f"left alone, since their names are not those of Icechunk: {names}{more}"
    for failure in result.failures[:SHOWN]:
        named = "" if failure.object in failure.error else f"{failure.object}: "
        yield f"not deleted: {named}{failure.error}"
    if len(result.failures) > SHOWN:
        yield f"{len(result.failures) - SHOWN} more objects were not deleted"
