"""Edits of a repo info file, as pure functions.

Each takes the current `RepoInfo` and returns the new one with the ops log's entry for it. An
edit that changes nothing returns an equal `RepoInfo`: the update loop then writes nothing. An
edit that must not happen raises. The ops log itself is kept by `update`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from icectl.errors import ConflictError, RefNotFoundError, RefusedError, Remedy
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    FEATURE_FLAGS,
    Availability,
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    ConfigChangedUpdate,
    FeatureFlagChangedUpdate,
    MetadataChangedUpdate,
    Ref,
    RepoInfo,
    RepoStatus,
    RepoStatusChangedUpdate,
    TagCreatedUpdate,
    TagDeletedUpdate,
    UpdateType,
    ids_of,
)
from icectl.model.values import MetadataItem
from icectl.repository.names import check_new_name, nearest_hint

Edited = tuple[RepoInfo, UpdateType]

DEFAULT_BRANCH = "main"
CREATE_TAG_FLAG = 4
DELETE_TAG_FLAG = 5


def find_ref(refs: Iterable[Ref], name: str, kind: str) -> SnapshotId:
    """Where the branch or tag points; `RefNotFoundError` if it does not exist."""
    known = {ref.name: ref.snapshot_id for ref in refs}
    if name not in known:
        raise RefNotFoundError(f"there is no {kind} {name}", hint=nearest_hint(name, known))
    return known[name]


def create_branch(info: RepoInfo, name: str, snapshot_id: SnapshotId) -> Edited:
    check_new_name(name, "branch", info.spec_version)
    _check_absent(info.branches, name, "branch")
    _check_snapshot(info, snapshot_id)
    branches = _with_ref(info.branches, Ref(name, snapshot_id))
    return replace(info, branches=branches), BranchCreatedUpdate(name)


def reset_branch(
    info: RepoInfo, name: str, snapshot_id: SnapshotId, expect: SnapshotId | None = None
) -> Edited:
    previous = find_ref(info.branches, name, "branch")
    check_expected(name, previous, expect)
    _check_snapshot(info, snapshot_id)
    branches = _with_ref(info.branches, Ref(name, snapshot_id))
    return replace(info, branches=branches), BranchResetUpdate(name, previous)


def delete_branch(info: RepoInfo, name: str, expect: SnapshotId | None = None) -> Edited:
    check_deletable(name)
    previous = find_ref(info.branches, name, "branch")
    check_expected(name, previous, expect)
    branches = tuple(ref for ref in info.branches if ref.name != name)
    return replace(info, branches=branches), BranchDeletedUpdate(name, previous)


def create_tag(info: RepoInfo, name: str, snapshot_id: SnapshotId) -> Edited:
    _check_flag(info, CREATE_TAG_FLAG, "creating tags")
    check_new_name(name, "tag", info.spec_version)
    _check_absent(info.tags, name, "tag")
    if name in info.deleted_tags:
        raise deleted_tag_error(name)
    _check_snapshot(info, snapshot_id)
    return replace(info, tags=_with_ref(info.tags, Ref(name, snapshot_id))), TagCreatedUpdate(name)


def delete_tag(info: RepoInfo, name: str) -> Edited:
    _check_flag(info, DELETE_TAG_FLAG, "deleting tags")
    previous = find_ref(info.tags, name, "tag")
    tags = tuple(ref for ref in info.tags if ref.name != name)
    deleted_tags = tuple(sorted({*info.deleted_tags, name}, key=str.encode))
    return replace(info, tags=tags, deleted_tags=deleted_tags), TagDeletedUpdate(name, previous)


def set_status(
    info: RepoInfo,
    availability: Availability,
    reason: str | None,
    set_at: int,
    *,
    again: bool = False,
) -> Edited:
    """`again` makes it a change even if the status is the same."""
    status = info.status
    if again or (status.availability, status.limited_availability_reason) != (availability, reason):
        status = RepoStatus(int(availability), set_at, reason)
    return replace(info, status=status), RepoStatusChangedUpdate(status)


def leave_log_behind(info: RepoInfo) -> Edited:
    """Begin the ops log with a new entry; the backup of the update holds the older ones.

    The format has no operation of this kind: the entry is one that changes nothing else.
    """
    emptied = replace(info, latest_updates=(), repo_before_updates=None)
    return emptied, MetadataChangedUpdate()


def set_config(info: RepoInfo, config: bytes) -> Edited:
    return replace(info, config=config), ConfigChangedUpdate()


def set_metadata(info: RepoInfo, items: Iterable[MetadataItem]) -> Edited:
    """Add the items, replacing those of the same name."""
    merged = {item.name: item for item in (*(info.metadata or ()), *items)}
    metadata = tuple(sorted(merged.values(), key=lambda item: item.name.encode()))
    return replace(info, metadata=metadata or info.metadata), MetadataChangedUpdate()


def unset_metadata(info: RepoInfo, names: Collection[str]) -> Edited:
    known = {item.name for item in info.metadata or ()}
    for name in names:
        if name not in known:
            raise RefNotFoundError(
                f"the repository has no metadata named {name}", hint=nearest_hint(name, known)
            )
    metadata = tuple(item for item in info.metadata or () if item.name not in names)
    return replace(info, metadata=metadata), MetadataChangedUpdate()


def set_flag(info: RepoInfo, flag_id: int, value: bool | None) -> Edited:
    """Turn a feature flag on or off; None leaves it at its default."""
    enabled, disabled = info.enabled_feature_flags, info.disabled_feature_flags
    edited = replace(
        info,
        enabled_feature_flags=_with_flag(enabled, flag_id, value is True),
        disabled_feature_flags=_with_flag(disabled, flag_id, value is False),
    )
    return edited, FeatureFlagChangedUpdate(flag_id, value is True, value is not None)


def flag_enabled(info: RepoInfo, flag_id: int) -> bool:
    return flag_id not in (info.disabled_feature_flags or ())


def check_expected(branch: str, actual: SnapshotId, expect: SnapshotId | None) -> None:
    if expect is not None and actual != expect:
        raise ConflictError(
            f"the branch {branch} points at {actual}, not at the expected {expect}",
            hint=Remedy("look-at-log"),
        )


def check_deletable(branch: str) -> None:
    if branch == DEFAULT_BRANCH:
        raise RefusedError(
            f"the branch {DEFAULT_BRANCH} cannot be deleted: every repository has it",
            hint=Remedy("move-branch-to-snapshot", {"branch": DEFAULT_BRANCH}),
        )


def existing_ref_error(kind: str, name: str, snapshot_id: SnapshotId | None) -> RefusedError:
    where = f", at {snapshot_id}" if snapshot_id else ""
    hint = (
        Remedy("reset-branch", {"branch": name})
        if kind == "branch"
        else "tags never move: choose another name"
    )
    return RefusedError(f"the {kind} {name} exists already{where}", hint=hint)


def deleted_tag_error(name: str) -> RefusedError:
    return RefusedError(
        f"there was a tag {name} that was deleted; its name is never used again",
        hint="choose another name",
    )


def _check_absent(refs: Iterable[Ref], name: str, kind: str) -> None:
    for ref in refs:
        if ref.name == name:
            raise existing_ref_error(kind, name, ref.snapshot_id)


def _check_snapshot(info: RepoInfo, snapshot_id: SnapshotId) -> None:
    if snapshot_id not in ids_of(info.snapshots):
        raise RefNotFoundError(f"the repository has no snapshot {snapshot_id}")


def _check_flag(info: RepoInfo, flag_id: int, what: str) -> None:
    if not flag_enabled(info, flag_id):
        name = FEATURE_FLAGS[flag_id]
        raise RefusedError(
            f"{what} is turned off in this repository by the feature flag {name}",
            hint=Remedy("enable-flag", {"flag": name}),
        )


def _with_ref(refs: tuple[Ref, ...], new: Ref) -> tuple[Ref, ...]:
    others = (ref for ref in refs if ref.name != new.name)
    return tuple(sorted((*others, new), key=lambda ref: ref.name.encode()))


def _with_flag(
    flags: tuple[int, ...] | None, flag_id: int, present: bool
) -> tuple[int, ...] | None:
    if flags is None and not present:
        return None
    return tuple(sorted({*(flags or ())} - {flag_id} | ({flag_id} if present else set())))
