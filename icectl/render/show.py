"""Render one commit in full."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.ops.show import WholeCommit
from icectl.render.blocks import Block, Column, Table
from icectl.render.log import render_commit
from icectl.render.sizes import format_count, format_size


def render_whole_commit(commit: WholeCommit) -> Iterator[Block]:
    yield from render_commit(commit)
    yield ""
    yield f"Parent: {commit.parent_id or 'none (first commit)'}"
    counts = (
        format_count(commit.num_groups, "group"),
        format_count(commit.num_arrays, "array"),
        format_count(len(commit.manifest_files), "manifest"),
    )
    yield f"Counts: {', '.join(counts)}"
    if commit.num_expired_ancestors:
        yield (
            f"The changes include those of "
            f"{format_count(commit.num_expired_ancestors, 'expired ancestor')}."
        )
    if commit.manifest_files:
        yield ""
        columns = (Column("MANIFEST", "id"), Column("SIZE", right=True), Column("CHUNK REFS"))
        rows = (
            (file.id, format_size(file.size_bytes), f"{file.num_chunk_refs:,}")
            for file in commit.manifest_files
        )
        yield Table(columns, rows)
