"""Branches and tags as tables, and what happened to them in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from icectl.ops.refs import BranchChange, BranchList, ListedRef, TagChange, TagList
from icectl.render.style import Role, Style
from icectl.render.tables import Column, render_table
from icectl.render.text import escape_controls, first_line
from icectl.render.times import format_time_short


def render_branches(listing: BranchList, style: Style) -> Iterator[str]:
    return _render_refs("BRANCH", "branch", listing.branches, style)


def render_tags(listing: TagList, style: Style) -> Iterator[str]:
    yield from _render_refs("TAG", "tag", listing.tags, style)
    if listing.deleted_tags:
        names = ", ".join(map(escape_controls, listing.deleted_tags))
        yield style.paint(f"Deleted, never to be used again: {names}", "dim")


def render_branch_change(change: BranchChange, _style: Style) -> Iterator[str]:
    name = escape_controls(change.branch)
    if change.snapshot_id is None:
        yield f"branch {name} deleted; it pointed at {change.previous_snapshot_id}"
    elif change.previous_snapshot_id is None:
        yield f"branch {name} created at {change.snapshot_id}"
    elif change.previous_snapshot_id == change.snapshot_id:
        yield f"branch {name} was at {change.snapshot_id} already"
    else:
        yield f"branch {name} moved from {change.previous_snapshot_id} to {change.snapshot_id}"


def render_tag_created(change: TagChange, _style: Style) -> Iterator[str]:
    yield f"tag {escape_controls(change.tag)} created at {change.snapshot_id}"


def render_tag_deleted(change: TagChange, _style: Style) -> Iterator[str]:
    yield f"tag {escape_controls(change.tag)} deleted; it pointed at {change.snapshot_id}"


def _render_refs(title: str, role: Role, refs: Iterable[ListedRef], style: Style) -> Iterator[str]:
    columns = (
        Column(title, role),
        Column("SNAPSHOT", "id"),
        Column("DATE", "time"),
        Column("MESSAGE", shrink=True),
    )
    return render_table(columns, map(_row, refs), style)


def _row(ref: ListedRef) -> tuple[object, ...]:
    if ref.flushed_at is None or ref.message is None:
        return (ref.name, ref.snapshot_id, None, "(the snapshot cannot be read)")
    return (ref.name, ref.snapshot_id, format_time_short(ref.flushed_at), first_line(ref.message))
