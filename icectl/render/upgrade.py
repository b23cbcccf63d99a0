"""Render an upgrade: what `repo` will list, and the snapshots that no ref leads to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.format.envelope import Generation
from icectl.ops.upgrade import DetachedSnapshot, UpgradeResult
from icectl.render.blocks import Block, Column, Table
from icectl.render.text import first_line, format_count, format_time_short

MOST_ROWS = 50


def render_upgrade(result: UpgradeResult) -> Iterator[Block]:
    if result.from_generation == Generation.V2:
        yield f"The repository has spec version {result.to_spec_version} already."
        return
    if result.detached:
        yield from detached_table(result.detached)
        yield _fate(result)
        yield ""
    if result.resumed:
        yield "An earlier upgrade was interrupted; this one finishes it."
    counts = (
        format_count(result.snapshots, "snapshot"),
        format_count(len(result.branches), "branch", "branches"),
        format_count(len(result.tags), "tag"),
        format_count(len(result.deleted_tags), "deleted tag"),
        format_count(result.operations, "operation"),
    )
    verb = "would be upgraded" if result.dry_run else "upgraded"
    yield f"{result.location} {verb} to spec version {result.to_spec_version}: {', '.join(counts)}"
    files = format_count(result.old_files, "file")
    verb = "would be moved" if result.dry_run else "moved"
    yield (
        f"{files} of spec version 1 {verb} to ",
        (str(result.backup), "path"),
    )


def detached_table(snapshots: Sequence[DetachedSnapshot]) -> Iterator[Block]:
    yield (("Snapshots that no branch or tag leads to:", "title"),)
    yield Table(_COLUMNS, snapshots[:MOST_ROWS])
    if len(snapshots) > MOST_ROWS:
        yield f"… and {len(snapshots) - MOST_ROWS:,} older ones; --json lists them"


def _fate(result: UpgradeResult) -> str:
    if result.kept_detached:
        return "They stay in the list of snapshots until a garbage collection deletes them."
    return (
        "They are not listed in the upgraded repository, and a garbage collection deletes them; "
        "--keep-detached lists them."
    )


def _message(snapshot: DetachedSnapshot) -> str:
    return first_line(snapshot.message or "") if snapshot.error is None else snapshot.error


_COLUMNS = (
    Column("SNAPSHOT", lambda snapshot: snapshot.id, "id"),
    Column(
        "FLUSHED",
        lambda snapshot: (
            "" if snapshot.flushed_at is None else format_time_short(snapshot.flushed_at)
        ),
        "time",
    ),
    Column("MESSAGE", _message, wraps=True),
)
