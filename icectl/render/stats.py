"""Render storage usage: totals, a tree of groups and arrays with bars, and tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields

from icectl.ops.stats.result import ArrayStats, StatsResult
from icectl.render.blocks import Block, Column, Share, Table
from icectl.render.json import to_json
from icectl.render.text import escape_cell, first_line
from icectl.render.words import format_count, format_size, format_time_short


def make_stats_renderer(depth: int | None) -> Callable[[StatsResult], Iterator[Block]]:
    """Return a renderer that includes nodes below `depth` in their parent group."""

    def render(result: StatsResult) -> Iterator[Block]:
        yield from _totals(result)
        yield from _section("Groups and arrays", _tree(result, depth))
        if result.containers:
            yield from _section("Containers of virtual chunks", _containers(result))
        for title, refs in (("Branches", result.branches), ("Tags", result.tags)):
            name = "BRANCH" if title == "Branches" else "TAG"
            if refs is not None:
                columns = (
                    *(Column(name), Column("BYTES", right=True)),
                    *(Column("ITS OWN", right=True), Column("CHUNKS", right=True), Column("")),
                )
                rows = [
                    (
                        ref.name,
                        format_size(ref.bytes),
                        format_size(ref.own_bytes),
                        f"{ref.num_chunks:,}",
                        Share(ref.bytes / (result.total_bytes or 1)),
                    )
                    for ref in refs
                ]
                if rows:
                    yield from _section(title, Table(columns, rows))
        if result.snapshots is not None:
            yield from _section("Versions, newest first", _snapshots(result))

    return render


def _section(title: str, table: Table) -> Iterator[Block]:
    yield ""
    yield ((title, "title"),)
    yield table


def _totals(result: StatsResult) -> Iterator[Block]:
    versions = format_count(result.num_snapshots, "version")
    what = f"the version {result.ref}" if result.ref else f"all {versions}"
    yield (
        f"{format_size(result.total_bytes)} in {format_count(result.num_chunks, 'chunk')}, {what}"
    )
    total = result.total_bytes or 1
    kinds = (
        ("native", result.native_bytes),
        ("virtual", result.virtual_bytes),
        ("inline", result.inlined_bytes),
    )
    yield Table(
        (Column("KIND"), Column("BYTES", right=True), Column("")),
        [(name, format_size(count), Share(count / total)) for name, count in kinds],
    )
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
        yield f"  {format_count(result.num_unreachable, 'version')} more not reachable from any ref"
    freed = result.could_free
    if freed is not None:
        yield (
            f"  after expire, gc could free about {format_size(freed.bytes)}: "
            f"{format_count(freed.snapshots, 'snapshot')}, "
            f"{format_count(freed.manifests, 'manifest')}, "
            f"{format_count(freed.chunks, 'chunk')}; current garbage is not included"
        )


def _tree(result: StatsResult, depth: int | None) -> Table:
    rows = group_rows(result.arrays, depth)
    columns = [
        *(Column("PATH", "path", wraps=True), Column("BYTES", right=True)),
        *(Column("CHUNKS", right=True), Column("")),
    ]
    total = result.total_bytes or 1
    return Table(
        columns,
        (
            ("  " * level + name, format_size(size), f"{chunks:,}", Share(size / total))
            for level, name, size, chunks in rows
        ),
    )


def group_rows(arrays: Sequence[ArrayStats], depth: int | None) -> list[tuple[int, str, int, int]]:
    """Return level, name, bytes and chunks of each group and array, beginning with the root."""
    sums: dict[tuple[str, ...], list[int]] = {(): [0, 0]}
    for array in arrays:
        parts = tuple(part for part in array.path.split("/") if part)
        if not array.path:
            parts = ("(not in any array)",)
        shown = parts if depth is None else parts[:depth]
        for end in range(len(shown) + 1):
            entry = sums.setdefault(shown[:end], [0, 0])
            entry[0] += array.total_bytes
            entry[1] += array.num_chunks
    ordered = sorted(sums, key=lambda key: tuple(part.encode() for part in key))
    return [(len(key), key[-1] if key else "/", *_pair(sums[key])) for key in ordered]


def _pair(values: list[int]) -> tuple[int, int]:
    return values[0], values[1]


def _containers(result: StatsResult) -> Table:
    columns = [
        *(Column("PREFIX", "path", wraps=True), Column("BYTES", right=True)),
        *(Column("CHUNKS", right=True), Column("OBJECTS", right=True), Column("")),
    ]
    return Table(
        columns,
        (
            (
                one.url_prefix,
                format_size(one.bytes),
                f"{one.num_chunks:,}",
                f"{one.num_objects:,}",
                "" if one.configured else "not in the configuration",
            )
            for one in result.containers
        ),
    )


def _snapshots(result: StatsResult) -> Table:
    snapshots = result.snapshots or ()
    most = max((one.new_bytes for one in snapshots), default=0) or 1
    columns = [
        *(Column("ID", "id"), Column("TIME", "time"), Column("BYTES", right=True)),
        *(
            Column("ITS OWN", right=True, optional=True),
            Column("SHARED", right=True, optional=True),
        ),
        *(Column("NEW", right=True), Column("", optional=True), Column("MESSAGE", wraps=True)),
    ]
    return Table(
        columns,
        (
            (
                one.id,
                format_time_short(one.flushed_at),
                format_size(one.bytes),
                format_size(one.own_bytes),
                format_size(one.shared_bytes),
                format_size(one.new_bytes),
                Share(one.new_bytes / most),
                first_line(one.message),
            )
            for one in snapshots
        ),
    )


def render_stats_csv(items: Sequence[object]) -> Iterator[str]:
    """Yield a header with the names of the fields, and the rows of one breakdown."""
    if not items:
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="")
    names = [field.name for field in fields(items[0])]  # type: ignore[arg-type]
    rows = ([_csv_cell(item, name) for name in names] for item in items)
    table: list[Iterable[object]] = [names, *rows]
    for row in table:
        writer.writerow(row)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _csv_cell(item: object, name: str) -> object:
    """Return a cell; numbers stay numbers, even if JSON would use strings."""
    value = to_json(item)[name]
    is_number = isinstance(getattr(item, name), int | float)
    return escape_cell(value) if isinstance(value, str) and not is_number else value
