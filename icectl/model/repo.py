"""The repo info file of spec version 2: entry point, refs and ops log of a repository."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from icectl.model.ids import SnapshotId
from icectl.model.values import MetadataItem, UnknownField


class Availability(enum.IntEnum):
    ONLINE = 0
    READ_ONLY = 1
    OFFLINE = 2


FEATURE_FLAGS = {3: "move_node", 4: "create_tag", 5: "delete_tag"}
"""The known flags. Each is enabled unless the repository disables it."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag. The file stores an index into `RepoInfo.snapshots`, not the id."""

    name: str
    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: int
    message: str
    metadata: tuple[MetadataItem, ...] | None = None
    pruned_ancestor_tx_logs: tuple[SnapshotId, ...] | None = None
    """Transaction logs of expired or collected ancestors, oldest first. Never empty."""


@dataclass(frozen=True, slots=True)
class RepoStatus:
    availability: int
    """An `Availability`, or a number that this version of icectl does not know."""
    set_at: int
    limited_availability_reason: str | None = None


@dataclass(frozen=True, slots=True)
class RepoInitializedUpdate:
    kind: ClassVar[str] = "repo_initialized"


@dataclass(frozen=True, slots=True)
class RepoMigratedUpdate:
    kind: ClassVar[str] = "repo_migrated"
    from_version: int
    to_version: int


@dataclass(frozen=True, slots=True)
class ConfigChangedUpdate:
    kind: ClassVar[str] = "config_changed"


@dataclass(frozen=True, slots=True)
class MetadataChangedUpdate:
    kind: ClassVar[str] = "metadata_changed"


@dataclass(frozen=True, slots=True)
class TagCreatedUpdate:
    kind: ClassVar[str] = "tag_created"
    name: str


@dataclass(frozen=True, slots=True)
class TagDeletedUpdate:
    kind: ClassVar[str] = "tag_deleted"
    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class BranchCreatedUpdate:
    kind: ClassVar[str] = "branch_created"
    name: str


@dataclass(frozen=True, slots=True)
class BranchDeletedUpdate:
    kind: ClassVar[str] = "branch_deleted"
    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class BranchResetUpdate:
    kind: ClassVar[str] = "branch_reset"
    name: str
    previous_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class NewCommitUpdate:
    kind: ClassVar[str] = "new_commit"
    branch: str
    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class CommitAmendedUpdate:
    kind: ClassVar[str] = "commit_amended"
    branch: str
    previous_snap_id: SnapshotId
    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class NewDetachedSnapshotUpdate:
    kind: ClassVar[str] = "new_detached_snapshot"
    new_snap_id: SnapshotId


@dataclass(frozen=True, slots=True)
class GCRanUpdate:
    kind: ClassVar[str] = "gc_ran"


@dataclass(frozen=True, slots=True)
class ExpirationRanUpdate:
    kind: ClassVar[str] = "expiration_ran"


@dataclass(frozen=True, slots=True)
class FeatureFlagChangedUpdate:
    kind: ClassVar[str] = "feature_flag_changed"
    id: int
    new_value: bool
    is_set: bool


@dataclass(frozen=True, slots=True)
class RepoStatusChangedUpdate:
    kind: ClassVar[str] = "repo_status_changed"
    status: RepoStatus | None


@dataclass(frozen=True, slots=True)
class UnknownUpdate:
    """An update of a type that this version of icectl does not know."""

    kind: ClassVar[str] = "unknown"
    type_code: int


UpdateType = (
    RepoInitializedUpdate
    | RepoMigratedUpdate
    | ConfigChangedUpdate
    | MetadataChangedUpdate
    | TagCreatedUpdate
    | TagDeletedUpdate
    | BranchCreatedUpdate
    | BranchDeletedUpdate
    | BranchResetUpdate
    | NewCommitUpdate
    | CommitAmendedUpdate
    | NewDetachedSnapshotUpdate
    | GCRanUpdate
    | ExpirationRanUpdate
    | FeatureFlagChangedUpdate
    | RepoStatusChangedUpdate
    | UnknownUpdate
)


@dataclass(frozen=True, slots=True)
class Update:
    """One entry of the ops log."""

    update_type: UpdateType
    updated_at: int
    backup_path: str | None = None


@dataclass(frozen=True, slots=True)
class RepoInfo:
    spec_version: int
    tags: tuple[Ref, ...]
    branches: tuple[Ref, ...]
    deleted_tags: tuple[str, ...]
    snapshots: tuple[SnapshotInfo, ...]
    status: RepoStatus
    metadata: tuple[MetadataItem, ...] | None
    latest_updates: tuple[Update, ...]
    """Newest first."""
    repo_before_updates: str | None = None
    config: bytes | None = None
    """The FlexBuffers bytes of the file; `format.values` decodes them."""
    enabled_feature_flags: tuple[int, ...] | None = None
    disabled_feature_flags: tuple[int, ...] | None = None
    extra: bytes | None = None
    unknown_fields: tuple[UnknownField, ...] = ()
