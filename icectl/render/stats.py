"""Render storage usage: totals, a tree of groups and arrays with bars, and tables."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

from icectl.ops.stats.result import GroupStats, StatsResult, sum_by_group
from icectl.render.blocks import (
    Block,
    Column,
    Share,
    Table,
    count_column,
    size_column,
    time_column,
)
from icectl.render.json import to_json
from icectl.render.text import escape_cell, first_line, format_count, format_counts, format_size


def render_stats(result: StatsResult, *, depth: int | None) -> Iterator[Block]:
    """Render all tables; nodes below `depth` are included in their parent group."""
    total = result.total_bytes or 1
    most = max((one.new_bytes for one in result.snapshots or ()), default=0) or 1
    size, count = size_column("BYTES", "bytes"), count_column("CHUNKS", "num_chunks")
    groups = (
        Column("PATH", lambda row: "  " * row.level + row.name, "path", wraps=True),
        *(size, count, _share("bytes", total, optional=True)),
    )
    containers = (
        Column("PREFIX", lambda one: one.url_prefix, "path", wraps=True),
        *(size, count, count_column("OBJECTS", "num_objects")),
        Column("", lambda one: "" if one.configured else "not in the configuration"),
    )
    own = size_column("ITS OWN", "own_bytes")
    of_ref = (size, own, count, _share("bytes", total, optional=True))
    versions = (
        Column("ID", lambda one: one.id, "id"),
        time_column("TIME", "flushed_at"),
        size,
        replace(own, optional=True),
        size_column("SHARED", "shared_bytes", optional=True),
        size_column("NEW", "new_bytes"),
        _share("new_bytes", most, optional=True),
        Column("MESSAGE", lambda one: first_line(one.message), wraps=True),
    )
    growth = (
        Column("ID", lambda one: one.id, "id"),
        size_column("NEW", "new_bytes"),
        Column("PATH", lambda one: one.path or "(other arrays)", "path", wraps=True),
    )
    yield from _totals(result)
    for title, columns, items in (
        ("Groups and arrays", groups, sum_by_group(result.arrays, depth)),
        ("Containers of virtual chunks", containers, result.containers),
        ("Branches", (Column("BRANCH", lambda ref: ref.name), *of_ref), result.branches),
        ("Tags", (Column("TAG", lambda ref: ref.name), *of_ref), result.tags),
        ("Versions, newest first", versions, result.snapshots),
        ("Growth by array, newest first", growth, result.growth),
    ):
        if items:
            yield from ("", ((title, "title"),), Table(columns, items))


def _share(name: str, whole: int, *, optional: bool = False) -> Column:
    return Column("", lambda one: Share(getattr(one, name) / whole), optional=optional)


def _totals(result: StatsResult) -> Iterator[Block]:
    every = "" if result.num_snapshots == 1 else "all "
    versions = f"{every}{format_count(result.num_snapshots, 'version')}"
    what = f"the version {result.ref}" if result.ref else versions
    yield (
        f"{format_size(result.total_bytes)} in {format_count(result.num_chunks, 'chunk')}, {what}"
    )
    kinds = [
        GroupStats(0, "native", result.native_bytes),
        GroupStats(0, "virtual", result.virtual_bytes),
        GroupStats(0, "inline", result.inlined_bytes),
    ]
    share = _share("bytes", result.total_bytes or 1)
    yield Table((Column("KIND", lambda row: row.name), size_column("BYTES", "bytes"), share), kinds)
    manifests = result.manifests
    fill = "" if manifests.fill is None else f", {manifests.fill:.0%} full"
    yield (
        f"  {format_count(manifests.num_manifests, 'manifest')}, "
        f"{format_size(manifests.size_bytes)}, "
        f"{format_count(manifests.num_chunk_refs, 'reference')} "
        f"({manifests.smallest:,} to {manifests.largest:,} each{fill})"
    )
    backups = result.overwritten
    yield (
        f"  {format_count(backups.num_backups, 'overwritten backup')}, "
        f"{format_size(backups.size_bytes)}"
    )
    if result.num_unreachable:
        more = format_count(result.num_unreachable, "more version")
        yield f"  {more} not reachable from any ref"
    freed = result.could_free
    if freed is not None:
        counts = {
            "snapshot": freed.snapshots,
            "manifest": freed.manifests,
            "chunk": freed.chunks,
        }
        yield (
            f"  after expire, gc could free about {format_size(freed.bytes)}: "
            f"{format_counts(counts)}; current garbage is not included"
        )


def render_stats_csv(items: Sequence[Any]) -> Iterator[str]:
    """Yield a header with the names of the fields, and the rows of one breakdown."""
    lines: list[str] = []
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="")
    for item in items:
        names = [field.name for field in fields(item)]
        if not lines:
            writer.writerow(names)
        cells = to_json(item)
        # Numbers stay numbers, even if JSON would use strings.
        texts = [name for name in names if not isinstance(getattr(item, name), int | float)]
        cells |= {name: escape_cell(cells[name]) for name in texts if isinstance(cells[name], str)}
        writer.writerow(cells.values())
    yield from lines
