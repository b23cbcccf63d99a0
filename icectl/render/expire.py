"""Render an expiration: which snapshots of each branch are released or kept, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.ops.expire.report import ExpireResult, Freed, SnapshotFate
from icectl.render.blocks import Block, Column, Table
from icectl.render.text import first_line, format_count, format_size, format_time_short

MOST_ROWS = 200
SHOWN_ROWS = 20


def render_expiration(result: ExpireResult, *, every: bool = False) -> Iterator[Block]:
    """Of a long history only the newest snapshots, unless `every` one is wanted."""
    for branch in result.branches:
        state = "  (the branch would be deleted)" if branch.deleted else ""
        yield ((f"branch {branch.branch}", "branch"), state)
        yield from _table(branch.snapshots, every)
    if result.unreachable:
        yield (("not on any branch", "title"),)
        yield from _table(result.unreachable, every)
    verb = "would be released" if result.dry_run else "released"
    yield (
        f"{format_count(result.gone_snapshots, 'snapshot')} {verb}, {result.kept_snapshots} kept, "
        f"{len(result.edited_snapshots)} with a new parent"
    )
    for kind, names in (("branch", result.deleted_branches), ("tag", result.deleted_tags)):
        for name in names:
            verb = "would be deleted" if result.dry_run else "deleted"
            yield f"{kind} {name} {verb}"
    if result.could_free is not None and result.released_snapshots:
        yield _render_freed(result.could_free)


def _table(fates: Sequence[SnapshotFate], every: bool) -> Iterator[Block]:
    is_short = every or len(fates) <= MOST_ROWS
    yield Table(_COLUMNS, fates if is_short else fates[:SHOWN_ROWS])
    if not is_short:
        yield f"… and {len(fates) - SHOWN_ROWS:,} older snapshots; --all shows them"
    yield ""


def _why(fate: SnapshotFate) -> str:
    why = ", ".join(fate.reasons) or ("" if fate.released else "kept")
    if fate.parent_id is not None:
        why += f"; its parent becomes {str(fate.parent_id)[:12]}"
    return why


_COLUMNS = (
    Column("", lambda fate: "-" if fate.released else " ", "dim"),
    Column("SNAPSHOT", lambda fate: fate.id, "id"),
    Column("FLUSHED", lambda fate: format_time_short(fate.flushed_at), "time"),
    Column("MESSAGE", lambda fate: first_line(fate.message), wraps=True),
    Column("WHY", _why, wraps=True),
)


def _render_freed(freed: Freed) -> str:
    parts = [format_count(freed.snapshots, "snapshot"), format_count(freed.manifests, "manifest")]
    if freed.chunks is not None:
        parts.append(format_count(freed.chunks, "chunk"))
    size = "" if freed.bytes is None else f", about {format_size(freed.bytes)}"
    return f"gc could then delete {', '.join(parts)}{size}"
