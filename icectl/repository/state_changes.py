"""The difference of two states of a repository (V2), and its application to a third one. Pure.

An operation changed one state into another; its difference the other way around, applied to the
newest state, takes the operation back. What changed since then is in the way: a conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Generic, TypeVar

from icectl.errors import ConflictError, FormatError, Hint, RefusedError, Remedy
from icectl.format.values import decode_flexbuffers, decode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    ConfigChangedUpdate,
    ExpirationRanUpdate,
    FeatureFlagChangedUpdate,
    MetadataChangedUpdate,
    NewDetachedSnapshotUpdate,
    Ref,
    RepoInfo,
    RepoStatus,
    RepoStatusChangedUpdate,
    SnapshotInfo,
    TagCreatedUpdate,
    TagDeletedUpdate,
    UpdateType,
    sorted_refs,
)
from icectl.model.values import MetadataItem
from icectl.repository.edits import (
    CREATE_TAG_FLAG,
    DELETE_TAG_FLAG,
    check_deletable,
    check_flag,
    set_flag,
)
from icectl.repository.history import find_reachable, state_of
from icectl.repository.writes import find_write_problem

T = TypeVar("T")
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    before: T
    after: T


Target = Change[SnapshotId | None]
"""Of a branch or tag; None where it does not exist."""


@dataclass(frozen=True, slots=True)
class StateChanges:
    """From one state to another; refs, metadata and flags by name."""

    branches: Mapping[str, Target]
    tags: Mapping[str, Target]
    added: tuple[SnapshotInfo, ...]
    """Snapshots that only the second state lists; `removed` are those of the first alone."""
    removed: tuple[SnapshotInfo, ...]
    reparented: tuple[Change[SnapshotInfo], ...]
    """Snapshots of both with another parent, or another list of pruned logs."""
    config: Change[bytes | None] | None
    metadata: Mapping[str, Change[MetadataItem | None]]
    flags: Mapping[int, Change[bool | None]]
    """None for a flag that is left at its default."""
    status: Change[RepoStatus] | None

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, field.name) for field in fields(self))


class WrittenSinceError(ConflictError):
    """Later operations are in the way."""

    def __init__(self, conflicts: Sequence[str], hint: Hint | None = None) -> None:
        more = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
        super().__init__(f"later operations are in the way: {conflicts[0]}{more}", hint=hint)


def diff_states(before: RepoInfo, after: RepoInfo) -> StateChanges:
    old = {snapshot.id: snapshot for snapshot in before.snapshots}
    new = {snapshot.id: snapshot for snapshot in after.snapshots}
    return StateChanges(
        branches=_compare(_targets(before.branches), _targets(after.branches)),
        tags=_compare(_targets(before.tags), _targets(after.tags)),
        added=tuple(snapshot for id_, snapshot in new.items() if id_ not in old),
        removed=tuple(snapshot for id_, snapshot in old.items() if id_ not in new),
        reparented=tuple(
            Change(old[id_], snapshot)
            for id_, snapshot in new.items()
            if id_ in old and _line(old[id_]) != _line(snapshot)
        ),
        config=(
            None
            if _is_same_config(before.config, after.config)
            else Change(before.config, after.config)
        ),
        metadata={
            name: change
            for name, change in _compare(_items(before), _items(after)).items()
            if not _is_same_item(change.before, change.after)
        },
        flags=_compare(flag_settings(before), flag_settings(after)),
        status=None if before.status == after.status else Change(before.status, after.status),
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the changes between two states, such as one branch."""

    branches: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    """Of `KINDS`."""


KINDS = ("config", "metadata", "flags", "status", "history")


def select_part(
    changes: StateChanges, part: Part, before: RepoInfo, after: RepoInfo
) -> StateChanges:
    """Only these changes, and of the history what the selected refs need or no longer need."""
    branches = {name: one for name, one in changes.branches.items() if name in part.branches}
    tags = {name: one for name, one in changes.tags.items() if name in part.tags}
    whole = "history" in part.kinds
    targets = [*branches.values(), *tags.values()]
    gained = _ancestors(after, (change.after for change in targets))
    lost = _ancestors(before, (change.before for change in targets))
    return StateChanges(
        branches,
        tags,
        tuple(one for one in changes.added if whole or one.id in gained),
        tuple(one for one in changes.removed if whole or one.id in lost),
        changes.reparented if whole else (),
        changes.config if "config" in part.kinds else None,
        changes.metadata if "metadata" in part.kinds else {},
        changes.flags if "flags" in part.kinds else {},
        changes.status if "status" in part.kinds else None,
    )


def apply_changes(
    info: RepoInfo, changes: StateChanges, *, undelete_tags: bool = False
) -> RepoInfo:
    """`info` with the changes; `WrittenSinceError` where it is not as they found it.

    What is already as the changes leave it stays. A removed snapshot stays listed if a ref or
    another snapshot leads to it. A deleted tag comes back only with `undelete_tags`.
    """
    conflicts: list[str] = []
    branches = _apply_refs("branch", _targets(info.branches), changes.branches, conflicts)
    tags = _apply_refs("tag", _targets(info.tags), changes.tags, conflicts)
    snapshots = _apply_history(info, changes, conflicts)
    config, status = info.config, info.status
    if changes.config and not _is_same_config(config, changes.config.after):
        if not _is_same_config(config, changes.config.before):
            conflicts.append("the configuration was changed again")
        config = changes.config.after
    if changes.status and status != changes.status.after:
        if status != changes.status.before:
            conflicts.append("the status was set again")
        status = changes.status.after
    edited = _apply_flags(_apply_metadata(info, changes, conflicts), changes, conflicts)
    kept = _without_unneeded(snapshots, changes.removed, (*branches.values(), *tags.values()))
    conflicts += _find_gaps(kept, branches, tags)
    if conflicts:
        raise WrittenSinceError(conflicts)
    old_tags = _targets(info.tags)
    _check_refs(info, branches, tags.keys() - old_tags, old_tags.keys() - tags, undelete_tags)
    burnt = {*info.deleted_tags, *(old_tags.keys() - tags.keys())} - tags.keys()
    return replace(
        edited,
        branches=sorted_refs(branches),
        tags=sorted_refs(tags),
        deleted_tags=tuple(sorted(burnt, key=str.encode)),
        snapshots=tuple(kept[id_] for id_ in sorted(kept)),
        config=config,
        status=status,
    )


def updates_of(before: RepoInfo, after: RepoInfo) -> tuple[UpdateType, ...]:
    """The entries of the ops log for one write from state to state, oldest first."""
    changes = diff_states(before, after)
    updates: list[UpdateType] = [
        NewDetachedSnapshotUpdate(snapshot.id) for snapshot in _parents_first(changes.added)
    ]
    for name, change in sorted(changes.branches.items()):
        if change.before is None:
            updates.append(BranchCreatedUpdate(name))
        elif change.after is None:
            updates.append(BranchDeletedUpdate(name, change.before))
        else:
            updates.append(BranchResetUpdate(name, change.before))
    for name, change in sorted(changes.tags.items()):
        if change.before is not None:
            updates.append(TagDeletedUpdate(name, change.before))
        if change.after is not None:
            updates.append(TagCreatedUpdate(name))
    updates += [ConfigChangedUpdate()] if changes.config else []
    updates += [MetadataChangedUpdate()] if changes.metadata else []
    for flag_id, value in sorted(changes.flags.items()):
        updates.append(
            FeatureFlagChangedUpdate(flag_id, value.after is True, value.after is not None)
        )
    if changes.status:
        updates.append(RepoStatusChangedUpdate(changes.status.after))
    if changes.removed or changes.reparented:
        states = state_of(before), state_of(after)
        if find_write_problem(updates, *states) is not None:
            # The kind for snapshots that leave the list though no ref moves, or not they alone.
            updates.append(ExpirationRanUpdate())
    return tuple(updates)


def keep_encodings(before: RepoInfo, after: RepoInfo) -> RepoInfo:
    """`after`, with the bytes of `before` for equal values: other bytes would need an entry."""
    old, new = _items(before), _items(after)
    items = [old[name] if _is_same_item(old.get(name), new[name]) else new[name] for name in new]
    is_same = _is_same_config(before.config, after.config)
    return replace(
        after,
        config=before.config if is_same else after.config,
        metadata=tuple(items) or None,
    )


def flag_settings(info: RepoInfo) -> dict[int, bool]:
    """What the repository says of each flag that it does not leave at its default."""
    settings = dict.fromkeys(info.enabled_feature_flags or (), True)
    return settings | dict.fromkeys(info.disabled_feature_flags or (), False)


def _compare(before: Mapping[Key, T], after: Mapping[Key, T]) -> dict[Key, Change[T | None]]:
    names = dict.fromkeys((*before, *after))
    pairs = {name: Change(before.get(name), after.get(name)) for name in names}
    return {name: change for name, change in pairs.items() if change.before != change.after}


def _targets(refs: Iterable[Ref]) -> dict[str, SnapshotId]:
    return {ref.name: ref.snapshot_id for ref in refs}


def _items(info: RepoInfo) -> dict[str, MetadataItem]:
    return {item.name: item for item in info.metadata or ()}


def _line(snapshot: SnapshotInfo) -> tuple[SnapshotId | None, tuple[SnapshotId, ...]]:
    return snapshot.parent_id, snapshot.pruned_ancestor_tx_logs or ()


def _is_same_config(one: bytes | None, other: bytes | None) -> bool:
    """Writers encode values again, and a value has several encodings."""
    try:
        return one == other or _decode(one) == _decode(other)
    except FormatError:
        return False


def _decode(config: bytes | None) -> object:
    return decode_flexbuffers(config) if config else {}


def _is_same_item(one: MetadataItem | None, other: MetadataItem | None) -> bool:
    if one is None or other is None or one == other:
        return one == other
    try:
        return decode_metadata((one,), 2) == decode_metadata((other,), 2)
    except FormatError:
        return False


def _ancestors(info: RepoInfo, tips: Iterable[SnapshotId | None]) -> Set[SnapshotId]:
    parents = {snapshot.id: snapshot.parent_id for snapshot in info.snapshots}
    return find_reachable((tip for tip in tips if tip is not None), parents.get)


def _parents_first(snapshots: Collection[SnapshotInfo]) -> Iterator[SnapshotInfo]:
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    done: set[SnapshotId] = set()
    for snapshot in sorted(snapshots, key=lambda one: (one.flushed_at, one.id)):
        line: list[SnapshotInfo] = []
        next_id: SnapshotId | None = snapshot.id
        while next_id in by_id and next_id not in done:
            done.add(next_id)
            line.append(by_id[next_id])
            next_id = by_id[next_id].parent_id
        yield from reversed(line)


def _apply_refs(
    kind: str,
    current: dict[str, SnapshotId],
    changes: Mapping[str, Target],
    conflicts: list[str],
) -> dict[str, SnapshotId]:
    for name, change in changes.items():
        now = current.get(name)
        if now == change.after:
            continue
        if now != change.before:
            is_now = f"points at {now}" if now is not None else "was deleted"
            was = f", not at {change.before}" if now and change.before else ""
            conflicts.append(f"the {kind} {name} {is_now}{was}")
        if change.after is None:
            current.pop(name, None)
        else:
            current[name] = change.after
    return current


def _apply_history(
    info: RepoInfo, changes: StateChanges, conflicts: list[str]
) -> dict[SnapshotId, SnapshotInfo]:
    snapshots = {snapshot.id: snapshot for snapshot in info.snapshots}
    conflicts += (
        f"the snapshot {added.id} has another parent"
        for added in changes.added
        if _line(snapshots.setdefault(added.id, added)) != _line(added)
    )
    for change in changes.reparented:
        found = snapshots.get(change.after.id)
        if found is None or _line(found) == _line(change.after):
            continue
        if _line(found) != _line(change.before):
            conflicts.append(f"the snapshot {found.id} has got another parent")
        parent_id, logs = _line(change.after)
        snapshots[found.id] = replace(
            found, parent_id=parent_id, pruned_ancestor_tx_logs=logs or None
        )
    return snapshots


def _without_unneeded(
    snapshots: Mapping[SnapshotId, SnapshotInfo],
    removed: Iterable[SnapshotInfo],
    tips: Iterable[SnapshotId],
) -> dict[SnapshotId, SnapshotInfo]:
    candidates = {snapshot.id for snapshot in removed} & snapshots.keys()
    if not candidates:
        return dict(snapshots)

    def parent_of(id_: SnapshotId) -> SnapshotId | None:
        found = snapshots.get(id_)
        return None if found is None else found.parent_id

    needed = find_reachable((*tips, *(snapshots.keys() - candidates)), parent_of)
    return {id_: one for id_, one in snapshots.items() if id_ in needed}


def _find_gaps(
    snapshots: Mapping[SnapshotId, SnapshotInfo],
    branches: Mapping[str, SnapshotId],
    tags: Mapping[str, SnapshotId],
) -> Iterator[str]:
    """Snapshots that are needed and not listed any more."""
    for kind, refs in (("branch", branches), ("tag", tags)):
        for name, target in refs.items():
            if target not in snapshots:
                yield f"{target}, where the {kind} {name} would point, was released"
    for snapshot in snapshots.values():
        if snapshot.parent_id is not None and snapshot.parent_id not in snapshots:
            yield f"{snapshot.parent_id}, the parent of {snapshot.id}, was released"


def _apply_metadata(info: RepoInfo, changes: StateChanges, conflicts: list[str]) -> RepoInfo:
    if not changes.metadata:
        return info
    items = _items(info)
    for name, change in changes.metadata.items():
        now = items.get(name)
        if _is_same_item(now, change.after):
            continue
        if not _is_same_item(now, change.before):
            conflicts.append(f"the metadata {name} was changed again")
        if change.after is None:
            items.pop(name, None)
        else:
            items[name] = change.after
    metadata = tuple(items[name] for name in sorted(items, key=str.encode))
    return replace(info, metadata=metadata or None)


def _apply_flags(info: RepoInfo, changes: StateChanges, conflicts: list[str]) -> RepoInfo:
    for flag_id, change in changes.flags.items():
        now = flag_settings(info).get(flag_id)
        if now == change.after:
            continue
        if now != change.before:
            conflicts.append(f"the feature flag {flag_id} was set again")
        info, _ = set_flag(info, flag_id, change.after)
    return info


def _check_refs(
    info: RepoInfo,
    branches: Mapping[str, SnapshotId],
    created_tags: Set[str],
    deleted_tags: Set[str],
    undelete_tags: bool,
) -> None:
    for ref in info.branches:
        if ref.name not in branches:
            check_deletable(ref.name)
    if created_tags:
        check_flag(info, CREATE_TAG_FLAG, "creating tags")
    if deleted_tags:
        check_flag(info, DELETE_TAG_FLAG, "deleting tags")
    for name in sorted(created_tags & {*info.deleted_tags}):
        if not undelete_tags:
            raise RefusedError(
                f"the tag {name} was deleted, and a deleted tag comes back only on request",
                hint=Remedy("undelete-tag"),
            )
