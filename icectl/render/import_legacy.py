"""Render an import: what the new repository has, and what it has not."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.ops.import_legacy.plan import ImportResult
from icectl.render.blocks import Block
from icectl.render.text import format_count, format_size
from icectl.render.upgrade import detached_table


def render_import(result: ImportResult) -> Iterator[Block]:
    if result.detached:
        yield from detached_table(result.detached)
        yield "They are not part of the new repository."
        yield ""
    for codec, arrays in result.unknown_codecs.items():
        yield f"the codec {codec} needs a plug-in for zarr: {', '.join(arrays)}"
    for root in result.uncovered_virtual_roots:
        yield f"virtual chunks in {root} need a virtual chunk container in the configuration"
    if result.dropped_settings:
        yield f"settings that do not apply any more: {', '.join(result.dropped_settings)}"
    counts = (
        format_count(result.snapshots, "snapshot"),
        format_count(len(result.branches), "branch", "branches"),
        format_count(len(result.tags), "tag"),
        format_count(len(result.deleted_tags), "deleted tag"),
        format_count(result.manifests, "manifest"),
        f"{format_count(result.chunks, 'chunk')} ({format_size(result.chunk_bytes)})",
    )
    verb = "would be imported" if result.dry_run else "imported"
    source = f"{result.source} ({result.from_generation})"
    yield f"{source} {verb} into {result.location}: {', '.join(counts)}"
    if not result.dry_run and not result.written_objects:
        yield "Everything was there already; nothing was written."
