"""Render commits: in a log, as a graph, or one in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from icectl.model.ids import SnapshotId
from icectl.ops.log import CommitWithChanges, WholeCommit
from icectl.render.blocks import Block, Column, Line, Part, Table, size_column
from icectl.render.json import show_json
from icectl.render.text import (
    first_line,
    format_count,
    format_counts,
    format_time_short,
    message_lines,
)
from icectl.repository.commits import Commit

if TYPE_CHECKING:
    from icectl.repository.change_counts import ChangeCounts

SHORT_ID = 12
"""The length of a shortened id, which is still a valid REF."""


def render_log(commits: Iterable[Commit], *, oneline: bool) -> Iterator[Line]:
    for number, commit in enumerate(commits):
        if oneline:
            yield from _short(commit)
        else:
            if number:
                yield ""
            yield from render_commit(commit)


def render_log_graph(
    commits: Iterable[Commit], parents: Mapping[SnapshotId, SnapshotId | None], *, oneline: bool
) -> Iterator[Block]:
    from icectl.render.graph import GraphRow, order_for_graph, render_graph

    rows = [
        GraphRow(
            commit.id,
            parents[commit.id],
            [*_short(commit)] if oneline else [*render_commit(commit), ""],
            commit.flushed_at,
        )
        for commit in commits
    ]
    return render_graph(order_for_graph(rows))


def format_changes(changes: ChangeCounts | None) -> str:
    """Return text such as `1 new array, 20 updated chunks`."""
    if changes is None:
        return "changes unknown: no readable transaction log"
    counts = {name.replace("_", " ").removesuffix("s"): n for name, n in asdict(changes).items()}
    return format_counts(counts, omit_zeros=True) or "no changes"


def render_commit(commit: Commit) -> Iterator[Line]:
    yield ("snapshot ", (str(commit.id), "id"), *_names(commit))
    yield f"Date:     {format_time_short(commit.flushed_at)}"
    if commit.metadata:
        yield f"Metadata: {show_json(commit.metadata)}"
    yield ""
    for line in message_lines(commit.message):
        yield f"    {line}".rstrip()
    if isinstance(commit, CommitWithChanges):
        yield ""
        yield ("    ", (format_changes(commit.changes), "dim"))


def render_whole_commit(commit: WholeCommit) -> Iterator[Block]:
    yield from render_commit(commit)
    yield ""
    yield f"Parent: {commit.parent_id or 'none (first commit)'}"
    counts = {
        "group": commit.num_groups,
        "array": commit.num_arrays,
        "manifest": len(commit.manifest_files),
    }
    yield f"Counts: {format_counts(counts)}"
    if commit.num_expired_ancestors:
        expired = format_count(commit.num_expired_ancestors, "expired ancestor")
        yield f"The changes include those of {expired}."
    if commit.manifest_files:
        yield ""
        columns = (
            Column("MANIFEST", lambda file: file.id, "id"),
            size_column("SIZE", "size_bytes"),
            Column("CHUNK REFS", lambda file: f"{file.num_chunk_refs:,}"),
        )
        yield Table(columns, commit.manifest_files)


def _short(commit: Commit) -> Iterator[Line]:
    yield (
        (str(commit.id)[:SHORT_ID], "id"),
        " ",
        (format_time_short(commit.flushed_at), "time"),
        *_names(commit),
        f" {first_line(commit.message)}",
    )
    if isinstance(commit, CommitWithChanges):
        yield ("    ", (format_changes(commit.changes), "dim"))


def _names(commit: Commit) -> Iterator[Part]:
    names: list[Part] = [(name, "branch") for name in commit.branches]
    names += [(f"tag: {name}", "tag") for name in commit.tags]
    for index, name in enumerate(names):
        yield ", " if index else " ("
        yield name
    if names:
        yield ")"
