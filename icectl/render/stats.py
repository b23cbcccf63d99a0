"""Render storage usage: totals, a tree of groups and arrays with bars, and tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from icectl.ops.stats.result import ArrayStats, StatsResult
from icectl.render.blocks import Block, Column, Share, Table
from icectl.render.json import to_json
from icectl.render.text import escape_cell, first_line, format_count, format_size, format_time_short


def make_stats_renderer(depth: int | None) -> Callable[[StatsResult], Iterator[Block]]:
    """Return a renderer that includes nodes below `depth` in their parent group."""

    def render(result: StatsResult) -> Iterator[Block]:
        total = result.total_bytes or 1
        most = max((one.new_bytes for one in result.snapshots or ()), default=0) or 1
        yield from _totals(result)
        tables = {
            "Groups and arrays": Table(
                (
                    Column("PATH", lambda row: "  " * row.level + row.name, "path", wraps=True),
                    *(_size("BYTES", "bytes"), _count("CHUNKS", "num_chunks")),
                    _share("bytes", total),
                ),
                group_rows(result.arrays, depth),
            ),
            "Containers of virtual chunks": Table(
                (
                    Column("PREFIX", lambda one: one.url_prefix, "path", wraps=True),
                    *(_size("BYTES", "bytes"), _count("CHUNKS", "num_chunks")),
                    _count("OBJECTS", "num_objects"),
                    Column("", lambda one: "" if one.configured else "not in the configuration"),
                ),
                result.containers,
            ),
            "Branches": Table(_ref_columns("BRANCH", total), result.branches or ()),
            "Tags": Table(_ref_columns("TAG", total), result.tags or ()),
            "Versions, newest first": Table(
                (
                    Column("ID", lambda one: one.id, "id"),
                    Column("TIME", lambda one: format_time_short(one.flushed_at), "time"),
                    _size("BYTES", "bytes"),
                    _size("ITS OWN", "own_bytes", optional=True),
                    _size("SHARED", "shared_bytes", optional=True),
                    _size("NEW", "new_bytes"),
                    _share("new_bytes", most, optional=True),
                    Column("MESSAGE", lambda one: first_line(one.message), wraps=True),
                ),
                result.snapshots or (),
            ),
        }
        for title, table in tables.items():
            if table.items:
                yield from ("", ((title, "title"),), table)

    return render


def _size(title: str, name: str, *, optional: bool = False) -> Column:
    return Column(title, lambda one: format_size(getattr(one, name)), right=True, optional=optional)


def _count(title: str, name: str) -> Column:
    return Column(title, lambda one: f"{getattr(one, name):,}", right=True)


def _share(name: str, whole: int, *, optional: bool = False) -> Column:
    return Column("", lambda one: Share(getattr(one, name) / whole), optional=optional)


def _ref_columns(title: str, total: int) -> Sequence[Column]:
    return (
        Column(title, lambda ref: ref.name),
        *(_size("BYTES", "bytes"), _size("ITS OWN", "own_bytes"), _count("CHUNKS", "num_chunks")),
        _share("bytes", total, optional=True),
    )


def _totals(result: StatsResult) -> Iterator[Block]:
    versions = format_count(result.num_snapshots, "version")
    what = f"the version {result.ref}" if result.ref else f"all {versions}"
    yield (
        f"{format_size(result.total_bytes)} in {format_count(result.num_chunks, 'chunk')}, {what}"
    )
    kinds = [
        GroupRow(0, "native", result.native_bytes),
        GroupRow(0, "virtual", result.virtual_bytes),
        GroupRow(0, "inline", result.inlined_bytes),
    ]
    share = _share("bytes", result.total_bytes or 1)
    yield Table((Column("KIND", lambda row: row.name), _size("BYTES", "bytes"), share), kinds)
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
        yield (
            f"  after expire, gc could free about {format_size(freed.bytes)}: "
            f"{format_count(freed.snapshots, 'snapshot')}, "
            f"{format_count(freed.manifests, 'manifest')}, "
            f"{format_count(freed.chunks, 'chunk')}; current garbage is not included"
        )


@dataclass(slots=True)
class GroupRow:
    level: int
    name: str
    bytes: int = 0
    num_chunks: int = 0


def group_rows(arrays: Sequence[ArrayStats], depth: int | None) -> list[GroupRow]:
    """Return a row for each group and array, beginning with the root."""
    rows: dict[tuple[str, ...], GroupRow] = {(): GroupRow(0, "/")}
    for array in arrays:
        path = array.path or "(not in any array)"
        shown = tuple(part for part in path.split("/") if part)[:depth]
        for end in range(len(shown) + 1):
            row = rows.setdefault(shown[:end], GroupRow(end, "".join(shown[end - 1 : end])))
            row.bytes += array.total_bytes
            row.num_chunks += array.num_chunks
    return [rows[key] for key in sorted(rows, key=lambda key: [part.encode() for part in key])]


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
