"""Commits as text: whole, on one line each, and beside a graph."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from icectl.model.ids import SnapshotId
from icectl.ops.commits import Commit
from icectl.ops.log import CommitWithChanges
from icectl.records import fields
from icectl.render.json import to_json
from icectl.render.sizes import format_count
from icectl.render.style import Style
from icectl.render.text import escape_controls, escape_lines, first_line
from icectl.render.times import format_time_short

if TYPE_CHECKING:
    from icectl.ops.change_counts import ChangeCounts

SHORT_ID = 12
"""Characters of an id where there is little room; icectl takes it as a REF."""


def render_log(commits: Iterable[Commit], style: Style, *, oneline: bool) -> Iterator[str]:
    for number, commit in enumerate(commits):
        if oneline:
            yield from _short(commit, style)
        else:
            if number:
                yield ""
            yield from render_commit(commit, style)


def render_log_graph(
    commits: Iterable[Commit],
    parents: Mapping[SnapshotId, SnapshotId | None],
    style: Style,
    *,
    oneline: bool,
) -> Iterator[str]:
    from icectl.render.graph import GraphRow, order_for_graph, render_graph

    rows = [
        GraphRow(
            commit.id,
            parents[commit.id],
            [*_short(commit, style)] if oneline else [*render_commit(commit, style), ""],
            commit.flushed_at,
        )
        for commit in commits
    ]
    return render_graph(order_for_graph(rows))


def format_changes(changes: ChangeCounts | None) -> str:
    """`1 new array, 20 updated chunks`."""
    if changes is None:
        return "what it changed is not known: it has no readable transaction log"
    parts = []
    for field in fields(changes):
        count = getattr(changes, field.name)
        if count:
            name = field.name.replace("_", " ")
            parts.append(format_count(count, name.removesuffix("s"), name))
    return ", ".join(parts) or "no changes"


def render_commit(commit: Commit, style: Style) -> Iterator[str]:
    yield f"snapshot {style.paint(str(commit.id), 'id')}{_names(commit, style)}"
    yield f"Date:     {format_time_short(commit.flushed_at)}"
    if commit.metadata:
        text = json.dumps(to_json(commit.metadata), ensure_ascii=False)
        yield f"Metadata: {escape_controls(text)}"
    yield ""
    for line in escape_lines(commit.message):
        yield f"    {line}".rstrip()
    if isinstance(commit, CommitWithChanges):
        yield ""
        yield f"    {style.paint(format_changes(commit.changes), 'dim')}"


def _short(commit: Commit, style: Style) -> Iterator[str]:
    short = style.paint(str(commit.id)[:SHORT_ID], "id")
    time = style.paint(format_time_short(commit.flushed_at), "time")
    yield f"{short} {time}{_names(commit, style)} {first_line(commit.message)}".rstrip()
    if isinstance(commit, CommitWithChanges):
        yield f"    {style.paint(format_changes(commit.changes), 'dim')}"


def _names(commit: Commit, style: Style) -> str:
    names = [style.paint(escape_controls(name), "branch") for name in commit.branches]
    names += [style.paint(f"tag: {escape_controls(name)}", "tag") for name in commit.tags]
    return f" ({', '.join(names)})" if names else ""
