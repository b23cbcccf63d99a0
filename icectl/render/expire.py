"""Render an expiration: which snapshots of each branch are released or kept, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.ops.expire.report import ExpireResult, SnapshotFate
from icectl.render.blocks import Block, Column, Table, time_column
from icectl.render.text import first_line, format_count, format_counts, format_size

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
    refs = [f"branch {name}" for name in result.deleted_branches]
    for ref in (*refs, *(f"tag {name}" for name in result.deleted_tags)):
        yield f"{ref} {'would be deleted' if result.dry_run else 'deleted'}"
    if result.could_free is not None and result.released_snapshots:
        freed = result.could_free
        counts = {"snapshot": freed.snapshots, "manifest": freed.manifests}
        if freed.chunks is not None:
            counts["chunk"] = freed.chunks
        size = "" if freed.bytes is None else f", about {format_size(freed.bytes)}"
        yield f"gc could then delete {format_counts(counts)}{size}"


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
    time_column("FLUSHED", "flushed_at"),
    Column("MESSAGE", lambda fate: first_line(fate.message), wraps=True),
    Column("WHY", _why, wraps=True),
)
