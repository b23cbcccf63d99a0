"""Render operations of the ops log, the changes of a state, and the result of an undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Literal

from icectl.model.repo import (
    FEATURE_FLAGS,
    Availability,
    FeatureFlagChangedUpdate,
    RepoStatus,
    RepoStatusChangedUpdate,
)
from icectl.ops.ops_log import (
    ListedOperation,
    OperationChanges,
    OpsLogBeyondReach,
    RefChange,
    ReportedChanges,
    ValueChange,
)
from icectl.ops.undo.run import UndoResult
from icectl.render.blocks import Block, Line, Role
from icectl.render.json import show_json, to_json
from icectl.render.text import format_count, format_time, format_time_short

SENTENCES = {
    "repo_initialized": "repository initialized",
    "repo_migrated": "repository migrated from spec version {from_version} to {to_version}",
    "config_changed": "configuration changed",
    "metadata_changed": "metadata changed",
    "tag_created": "tag {name} created at {target_snapshot_id}",
    "tag_deleted": "tag {name} deleted, was at {previous_snap_id}",
    "branch_created": "branch {name} created at {target_snapshot_id}",
    "branch_deleted": "branch {name} deleted, was at {previous_snap_id}",
    "branch_reset": "branch {name} reset from {previous_snap_id} to {target_snapshot_id}",
    "new_commit": "commit {new_snap_id} on branch {branch}",
    "commit_amended": "commit {previous_snap_id} on branch {branch} amended to {new_snap_id}",
    "new_detached_snapshot": "snapshot {new_snap_id} written without a branch",
    "gc_ran": "garbage collected",
    "expiration_ran": "old snapshots expired",
    "unknown": "unknown operation of type {type_code}",
}
"""The text of each kind; the names in braces are those of its JSON document."""


def update_document(entry: ListedOperation) -> dict[str, Any]:
    """Return number, `kind`, time and backup, the fields of the kind, and a ref's target."""
    update = entry.update
    document: dict[str, Any] = {
        "op": entry.number,
        "undoable": entry.obstacle is None,
        "not_undoable_because": entry.obstacle,
        "written_with": entry.written_with,
        "kind": update.update_type.kind,
        "updated_at": format_time(update.updated_at),
        "backup_path": update.backup_path,
    }
    document |= {
        one.name: getattr(update.update_type, one.name) for one in fields(update.update_type)
    }
    status: RepoStatus | None = document.get("status")
    if status is not None:
        document["status"] = {
            **to_json(status),
            "availability": format_availability(status.availability),
        }
    if "previous_snap_id" in document:
        # The name in the specification, and the name in all other documents.
        document["previous_snapshot_id"] = document["previous_snap_id"]
    if "{target_snapshot_id}" in SENTENCES.get(update.update_type.kind, ""):
        document["target_snapshot_id"] = entry.target
    return document


def beyond_reach_document(end: OpsLogBeyondReach | None) -> dict[str, Any] | None:
    if end is None:
        return None
    return {"path": end.path, "reason": end.error.message, "is_cleared": end.is_cleared}


def render_ops_log(entries: Iterable[ListedOperation]) -> Iterator[Line]:
    for entry in entries:
        time = format_time_short(entry.update.updated_at)
        line: Line = (
            (f"{f'@{entry.number}':<5}", "id"),
            (time, "time"),
            f"  {describe_update(entry)}",
        )
        if entry.written_with is not None:
            yield (*line, (f" (with @{entry.written_with})", "dim"))
        else:
            yield line if entry.obstacle is None else (*line, (" (final)", "dim"))


def operation_document(found: OperationChanges) -> dict[str, Any]:
    return {
        "operation": update_document(found.operation),
        "written_together": [update_document(one) for one in found.written_together],
        "changes": found.changes,
    }


def render_operation(found: OperationChanges) -> Iterator[Block]:
    yield from render_ops_log((found.operation, *found.written_together))
    if found.operation.obstacle is not None:
        yield f"It cannot be undone: {found.operation.obstacle}."
    yield ""
    yield from [*_render_changes(found.changes)] or [NOTHING]


def describe_beyond_reach(end: OpsLogBeyondReach) -> str:
    if end.is_cleared:
        return f"Older operations are gone: the backups before {end.path} were deleted by age"
    return (
        f"Older operations cannot be shown: they are in the backup {end.path}, "
        f"which cannot be read ({end.error.message})"
    )


def describe_update(entry: ListedOperation) -> str:
    match entry.update.update_type:
        case FeatureFlagChangedUpdate(flag_id, new_value, is_set):
            name = FEATURE_FLAGS.get(flag_id, f"number {flag_id}")
            state = ("on" if new_value else "off") if is_set else "back to its default"
            return f"feature flag {name} turned {state}"
        case RepoStatusChangedUpdate(None):
            return "status changed"
        case RepoStatusChangedUpdate(RepoStatus(availability, _, reason)):
            name = format_availability(availability).replace("_", "-")
            return f"status set to {name}" + (f": {reason}" if reason else "")
        case update:
            sentence = SENTENCES[update.kind]
            if entry.target is None:
                sentence = sentence.replace("at {target_snapshot_id}", "(target unknown)")
                sentence = sentence.replace("to {target_snapshot_id}", "(target unknown)")
            return sentence.format_map(update_document(entry))


def format_availability(availability: int) -> str:
    """Return text such as `read_only`, or the number if it is unknown."""
    known = availability in set(Availability)
    return Availability(availability).name.lower() if known else str(availability)


MOST_LISTED = 20
NOTHING = "Nothing changes."


def _render_changes(changes: ReportedChanges) -> Iterator[Block]:
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
    """One line per item; the last word of `what` is what they are."""
    for item in items[:MOST_LISTED]:
        yield ((what, role), f" {item}")
    more = len(items) - MOST_LISTED
    if more > 0:
        yield f"  and {format_count(more, f'more {what.split()[-1]}')} {did}"


def _values(kind: str, changes: Iterable[ValueChange]) -> Iterator[Block]:
    for change in changes:
        before, after = _text(change.previous_value), _text(change.value)
        yield f"~ {kind} {change.key}: {before} -> {after}"


def _named_status(change: ValueChange) -> ValueChange:
    if change.key != "availability":
        return change
    names: dict[object, str] = {one: one.name.lower().replace("_", "-") for one in Availability}
    now, before = (names.get(one, one) for one in (change.value, change.previous_value))
    return ValueChange(change.key, now, before)


def _text(value: object) -> str:
    return "(none)" if value is None else show_json(value)


def undo_document(result: UndoResult) -> dict[str, Any]:
    changes = to_json(result.changes)
    return {
        "dry_run": result.dry_run,
        "operation": update_document(result.operation),
        "restored_snapshots": changes.pop("added_snapshots"),
        **changes,
        "left_out_snapshots": result.left_out_snapshots,
        "burnt_tags": result.burnt_tags,
        "missing": result.missing,
    }


def render_undo(result: UndoResult) -> Iterator[Block]:
    yield from render_ops_log([result.operation])
    changes = [*_render_changes(result.changes)]
    title = "Would change:" if result.dry_run else "Changed:"
    yield from [title, *changes] if changes else [NOTHING]
    for name in result.burnt_tags:
        yield ((f"The name of the tag {name} can never be used again.", "warning"),)
    if result.left_out_snapshots:
        count = format_count(len(result.left_out_snapshots), "unreachable snapshot")
        yield f"{count} stay released, because their objects are gone."
    yield from _listed("missing object", result.missing, "bad", "missing")
