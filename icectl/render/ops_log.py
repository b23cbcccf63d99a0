"""Render entries of the ops log: as JSON with the specification's names, and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from icectl.model.repo import (
    FEATURE_FLAGS,
    Availability,
    FeatureFlagChangedUpdate,
    RepoStatus,
    RepoStatusChangedUpdate,
)
from icectl.ops.ops_log import ListedOperation, OperationChanges, OpsLogBeyondReach
from icectl.render.blocks import Block, Line
from icectl.render.state_changes import render_changes
from icectl.render.words import format_time, format_time_short

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
    for field in fields(update.update_type):
        value = getattr(update.update_type, field.name)
        document[field.name] = _status_document(value) if field.name == "status" else value
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
    yield from render_changes(found.changes)


def describe_beyond_reach(end: OpsLogBeyondReach) -> str:
    if end.is_cleared:
        return f"Older operations are gone: the backups before {end.path} were deleted by age"
    return (
        f"Older operations cannot be shown: they are in the backup {end.path}, "
        f"which cannot be read ({end.error.message})"
    )


def describe_update(entry: ListedOperation) -> str:
    """Describe the operation."""
    match entry.update.update_type:
        case FeatureFlagChangedUpdate(flag_id, new_value, is_set):
            name = FEATURE_FLAGS.get(flag_id, f"number {flag_id}")
            state = ("on" if new_value else "off") if is_set else "back to its default"
            return f"feature flag {name} turned {state}"
        case RepoStatusChangedUpdate(status):
            return _describe_status(status)
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


def _status_document(status: RepoStatus | None) -> dict[str, Any] | None:
    if status is None:
        return None
    return {
        "availability": format_availability(status.availability),
        "set_at": format_time(status.set_at),
        "limited_availability_reason": status.limited_availability_reason,
    }


def _describe_status(status: RepoStatus | None) -> str:
    if status is None:
        return "status changed"
    reason = status.limited_availability_reason
    name = format_availability(status.availability).replace("_", "-")
    return f"status set to {name}" + (f": {reason}" if reason else "")
