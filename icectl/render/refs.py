"""Render branches and tags as tables, and changes of them as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from icectl.ops.refs import BranchChange, BranchList, ListedRef, TagChange, TagList
from icectl.render.blocks import Block, Column, Role, Table
from icectl.render.text import first_line, format_time_short


def render_branches(listing: BranchList) -> Iterator[Block]:
    yield _render_refs("BRANCH", "branch", listing.branches)


def render_tags(listing: TagList) -> Iterator[Block]:
    yield _render_refs("TAG", "tag", listing.tags)
    if listing.deleted_tags:
        names = ", ".join(listing.deleted_tags)
        yield ((f"Deleted, cannot be reused: {names}", "dim"),)


def render_branch_change(change: BranchChange) -> Iterator[Block]:
    name = change.branch
    if change.snapshot_id is None:
        yield f"branch {name} deleted; it pointed at {change.previous_snapshot_id}"
    elif change.previous_snapshot_id is None:
        yield f"branch {name} created at {change.snapshot_id}"
    elif change.previous_snapshot_id == change.snapshot_id:
        yield f"branch {name} was already at {change.snapshot_id}"
    else:
        yield f"branch {name} moved from {change.previous_snapshot_id} to {change.snapshot_id}"


def render_tag_created(change: TagChange) -> Iterator[Block]:
    yield f"tag {change.tag} created at {change.snapshot_id}"


def render_tag_deleted(change: TagChange) -> Iterator[Block]:
    yield f"tag {change.tag} deleted; it pointed at {change.snapshot_id}"


def _render_refs(title: str, role: Role, refs: Iterable[ListedRef]) -> Table:
    columns = (
        Column(title, lambda ref: ref.name, role),
        Column("SNAPSHOT", lambda ref: ref.snapshot_id, "id"),
        Column("DATE", _date, "time"),
        Column("MESSAGE", _message, wraps=True),
    )
    return Table(columns, refs)


def _date(ref: ListedRef) -> str | None:
    return None if ref.flushed_at is None else format_time_short(ref.flushed_at)


def _message(ref: ListedRef) -> str:
    return "(the snapshot cannot be read)" if ref.message is None else first_line(ref.message)
