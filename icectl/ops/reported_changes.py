"""The difference of two states of a repository, as documents and renderers show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from icectl.errors import FormatError
from icectl.format.values import decode_flexbuffers, decode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.redaction import redact_locations
from icectl.model.repo import FEATURE_FLAGS, RepoStatus
from icectl.model.values import MetadataItem
from icectl.repository.state_changes import Change, StateChanges, Target


@dataclass(frozen=True, slots=True)
class RefChange:
    name: str
    snapshot_id: SnapshotId | None
    """None if the ref is gone."""
    previous_snapshot_id: SnapshotId | None
    """None if the ref is new."""


@dataclass(frozen=True, slots=True)
class ParentChange:
    id: SnapshotId
    parent_id: SnapshotId | None
    previous_parent_id: SnapshotId | None
    num_pruned_logs: int
    """How many transaction logs of released ancestors the snapshot lists."""
    previous_num_pruned_logs: int


@dataclass(frozen=True, slots=True)
class ValueChange:
    key: str
    value: object
    """None if it is gone, or left at its default."""
    previous_value: object


@dataclass(frozen=True, slots=True)
class ReportedChanges:
    branches: tuple[RefChange, ...]
    tags: tuple[RefChange, ...]
    added_snapshots: tuple[SnapshotId, ...]
    removed_snapshots: tuple[SnapshotId, ...]
    reparented_snapshots: tuple[ParentChange, ...]
    config: tuple[ValueChange, ...]
    metadata: tuple[ValueChange, ...]
    flags: tuple[ValueChange, ...]
    status: tuple[ValueChange, ...]


def report_changes(changes: StateChanges) -> ReportedChanges:
    config = changes.config or Change(None, None)
    return ReportedChanges(
        branches=tuple(_refs(changes.branches)),
        tags=tuple(_refs(changes.tags)),
        added_snapshots=tuple(snapshot.id for snapshot in changes.added),
        removed_snapshots=tuple(snapshot.id for snapshot in changes.removed),
        reparented_snapshots=tuple(
            ParentChange(
                change.after.id,
                change.after.parent_id,
                change.before.parent_id,
                len(change.after.pruned_ancestor_tx_logs or ()),
                len(change.before.pruned_ancestor_tx_logs or ()),
            )
            for change in changes.reparented
        ),
        config=tuple(_compare(_settings(config.before), _settings(config.after))),
        metadata=tuple(
            ValueChange(name, _value(change.after), _value(change.before))
            for name, change in sorted(changes.metadata.items())
        ),
        flags=tuple(
            ValueChange(FEATURE_FLAGS.get(flag, str(flag)), change.after, change.before)
            for flag, change in sorted(changes.flags.items())
        ),
        status=tuple(_compare_status(changes.status)) if changes.status else (),
    )


def _refs(changes: Mapping[str, Target]) -> Iterator[RefChange]:
    for name, change in sorted(changes.items()):
        yield RefChange(name, change.after, change.before)


def _settings(config: bytes | None) -> dict[str, object]:
    """By dotted keys, without the secrets of locations."""
    try:
        decoded = decode_flexbuffers(config) if config else {}
    except FormatError:
        return {"(unreadable)": config}
    return dict(_flatten("", redact_locations(decoded)))


def _flatten(key: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _flatten(f"{key}.{name}" if key else str(name), below)
    else:
        yield key, value


def _compare(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[ValueChange]:
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield ValueChange(key, after.get(key), before.get(key))


def _value(item: MetadataItem | None) -> object:
    try:
        return None if item is None else decode_metadata((item,), 2)[item.name]
    except FormatError:
        return "(unreadable)"


def _compare_status(change: Change[RepoStatus]) -> Iterable[ValueChange]:
    before, after = change.before, change.after
    return _compare(
        {"availability": before.availability, "reason": before.limited_availability_reason},
        {"availability": after.availability, "reason": after.limited_availability_reason},
    )
