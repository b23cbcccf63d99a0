"""Render the difference of two states of a repository."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from icectl.model.repo import Availability
from icectl.ops.reported_changes import RefChange, ReportedChanges, ValueChange
from icectl.render.blocks import Block, Role
from icectl.render.json import to_json
from icectl.render.words import format_count

MOST_LISTED = 20
NOTHING = "Nothing changes."


def render_changes(changes: ReportedChanges) -> Iterator[Block]:
    lines = [*_lines(changes)]
    yield from lines or [NOTHING]


def _lines(changes: ReportedChanges) -> Iterator[Block]:
    yield from _refs("branch", changes.branches)
    yield from _refs("tag", changes.tags)
    yield from _listed("+ snapshot", changes.added_snapshots, "good", "added")
    yield from _listed("- snapshot", changes.removed_snapshots, "bad", "removed")
    parents = [
        f"{one.id}: parent {one.previous_parent_id} -> {one.parent_id}"
        for one in changes.reparented_snapshots
    ]
    yield from _listed("~ snapshot", parents, "warning", "with another parent")
    yield from _values("config", changes.config)
    yield from _values("metadata", changes.metadata)
    yield from _values("flag", changes.flags)
    yield from _values("status", map(_named_status, changes.status))


def _refs(kind: Literal["branch", "tag"], refs: Iterable[RefChange]) -> Iterator[Block]:
    for ref in refs:
        name: tuple[str, Role] = (f"{kind} {ref.name}", kind)
        if ref.previous_snapshot_id is None:
            yield ("+ ", name, f" at {ref.snapshot_id}")
        elif ref.snapshot_id is None:
            yield ("- ", name, f", was at {ref.previous_snapshot_id}")
        else:
            yield ("~ ", name, f": {ref.previous_snapshot_id} -> {ref.snapshot_id}")


def _listed(what: str, items: Sequence[object], role: Role, did: str) -> Iterator[Block]:
    for item in items[:MOST_LISTED]:
        yield ((what, role), f" {item}")
    more = len(items) - MOST_LISTED
    if more > 0:
        yield f"  and {format_count(more, 'more snapshot')} {did}"


def _values(kind: str, changes: Iterable[ValueChange]) -> Iterator[Block]:
    for change in changes:
        before, after = _text(change.previous_value), _text(change.value)
        yield f"~ {kind} {change.key}: {before} -> {after}"


def _named_status(change: ValueChange) -> ValueChange:
    if change.key != "availability":
        return change
    return ValueChange(change.key, _name(change.value), _name(change.previous_value))


def _name(availability: object) -> object:
    known = {int(one): one.name.lower().replace("_", "-") for one in Availability}
    return known.get(availability, availability) if isinstance(availability, int) else availability


def _text(value: object) -> str:
    return "(none)" if value is None else json.dumps(to_json(value), ensure_ascii=False)
