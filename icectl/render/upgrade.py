"""Render an upgrade in place, or into a new repository, and the snapshots that no ref leads to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.ops.import_legacy.plan import ImportResult
from icectl.ops.upgrade import DetachedSnapshot, Upgraded, UpgradeResult
from icectl.render.blocks import Block, Column, Table, time_column
from icectl.render.text import first_line, format_count, format_counts, format_size

MOST_ROWS = 50


def render_upgrade(result: UpgradeResult) -> Iterator[Block]:
    if result.from_generation == f"v{result.to_spec_version}":
        yield f"The repository already has spec version {result.to_spec_version}."
        return
    if result.detached:
        yield from _detached(result.detached)
        if result.kept_detached:
            yield "They stay in the list of snapshots until a garbage collection deletes them."
        else:
            yield (
                "They are not listed in the upgraded repository, and a garbage collection deletes "
                "them; --keep-detached lists them."
            )
        yield ""
    if result.resumed:
        yield "An earlier upgrade was interrupted; this one finishes it."
    counts = format_counts({**_counts(result), "operation": result.operations})
    verb = "would be upgraded" if result.dry_run else "upgraded"
    yield f"{result.location} {verb} to spec version {result.to_spec_version}: {counts}"
    files = format_count(result.old_files, "file")
    verb = "would be moved" if result.dry_run else "moved"
    yield (f"{files} of spec version 1 {verb} to ", (str(result.backup), "path"))


def render_import(result: ImportResult) -> Iterator[Block]:
    if result.detached:
        yield from _detached(result.detached)
        yield "They are not part of the new repository."
        yield ""
    for codec, arrays in result.unknown_codecs.items():
        yield f"the codec {codec} needs a plug-in for zarr: {', '.join(arrays)}"
    for root in result.uncovered_virtual_roots:
        yield f"virtual chunks in {root} need a virtual chunk container in the configuration"
    if result.dropped_settings:
        yield f"settings that do not apply any more: {', '.join(result.dropped_settings)}"
    counts = {**_counts(result), "manifest": result.manifests, "chunk": result.chunks}
    verb = "would be imported" if result.dry_run else "imported"
    size = format_size(result.chunk_bytes)
    source = f"{result.source} ({result.from_generation})"
    yield f"{source} {verb} into {result.location}: {format_counts(counts)} ({size})"
    if not result.dry_run and not result.written_objects:
        yield "Everything was there already; nothing was written."


def _counts(result: Upgraded) -> dict[str, int]:
    return {
        "snapshot": result.snapshots,
        "branch": len(result.branches),
        "tag": len(result.tags),
        "deleted tag": len(result.deleted_tags),
    }


def _detached(snapshots: Sequence[DetachedSnapshot]) -> Iterator[Block]:
    yield (("Snapshots that no branch or tag leads to:", "title"),)
    yield Table(_COLUMNS, snapshots[:MOST_ROWS])
    if len(snapshots) > MOST_ROWS:
        yield f"… and {len(snapshots) - MOST_ROWS:,} older ones; --json lists them"


def _message(snapshot: DetachedSnapshot) -> str:
    return first_line(snapshot.message or "") if snapshot.error is None else snapshot.error


_COLUMNS = (
    Column("SNAPSHOT", lambda snapshot: snapshot.id, "id"),
    time_column("FLUSHED", "flushed_at"),
    Column("MESSAGE", _message, wraps=True),
)
