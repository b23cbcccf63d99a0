"""The repo info file of spec version 2: entry point, refs and ops log of a repository."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, overload

from icectl.model.ids import SnapshotId
from icectl.model.values import MetadataItem, UnknownField

if TYPE_CHECKING:
    from icectl.model.manifest import Spans


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


def sorted_refs(targets: Mapping[str, SnapshotId]) -> tuple[Ref, ...]:
    """The refs in the order of the specification."""
    return tuple(Ref(name, targets[name]) for name in sorted(targets, key=str.encode))


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: int
    message: str
    metadata: tuple[MetadataItem, ...] | None = None
    pruned_ancestor_tx_logs: tuple[SnapshotId, ...] | None = None
    """Transaction logs of expired or collected ancestors, oldest first. Never empty."""


class SnapshotInfoColumns(Sequence[SnapshotInfo]):
    """Many snapshots as columns, in the order of the file; an element is made on each access."""

    def __init__(
        self,
        ids: list[SnapshotId],
        parents: list[int],
        flushed_at: list[int],
        messages: Spans,
        num_metadata: list[int],
        with_logs: list[int],
        read: Callable[[int], SnapshotInfo],
    ) -> None:
        self.ids = ids
        self.parents = parents
        """The index of each parent; -1 for none."""
        self.flushed_at = flushed_at
        self.messages = messages
        self.num_metadata = num_metadata
        """The number of metadata items of each; -1 for none, which is not an empty list."""
        self.with_logs = with_logs
        """The indexes of those with pruned logs."""
        self._read = read

    @property
    def is_sorted(self) -> bool:
        return all(one < other for one, other in pairwise(self.ids))

    @cached_property
    def rows(self) -> Mapping[SnapshotId, int]:
        return {id_: number for number, id_ in enumerate(self.ids)}

    @cached_property
    def parents_by_id(self) -> Mapping[SnapshotId, SnapshotId | None]:
        # The index -1 of a root is that of the last element here.
        ids: list[SnapshotId | None] = [*self.ids, None]
        return dict(zip(self.ids, map(ids.__getitem__, self.parents), strict=True))

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, number: int) -> SnapshotInfo: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[SnapshotInfo]: ...
    def __getitem__(self, number: int | slice) -> SnapshotInfo | Sequence[SnapshotInfo]:
        if isinstance(number, slice):
            return tuple(map(self._read, range(len(self))[number]))
        return self._read(range(len(self))[number])

    def __iter__(self) -> Iterator[SnapshotInfo]:
        return map(self._read, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class _InfosById(Mapping[SnapshotId, SnapshotInfo]):
    def __init__(self, columns: SnapshotInfoColumns) -> None:
        self._columns = columns

    def __getitem__(self, snapshot_id: SnapshotId) -> SnapshotInfo:
        return self._columns[self._columns.rows[snapshot_id]]

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._columns.rows

    def __iter__(self) -> Iterator[SnapshotId]:
        return iter(self._columns.ids)

    def __len__(self) -> int:
        return len(self._columns)


def ids_of(snapshots: Sequence[SnapshotInfo]) -> list[SnapshotId]:
    if isinstance(snapshots, SnapshotInfoColumns):
        return snapshots.ids
    return [snapshot.id for snapshot in snapshots]


def infos_by_id(snapshots: Sequence[SnapshotInfo]) -> Mapping[SnapshotId, SnapshotInfo]:
    if isinstance(snapshots, SnapshotInfoColumns):
        return _InfosById(snapshots)
    return {snapshot.id: snapshot for snapshot in snapshots}


def parents_of(snapshots: Sequence[SnapshotInfo]) -> Mapping[SnapshotId, SnapshotId | None]:
    if isinstance(snapshots, SnapshotInfoColumns):
        return snapshots.parents_by_id
    return {snapshot.id: snapshot.parent_id for snapshot in snapshots}


def times_of(snapshots: Sequence[SnapshotInfo]) -> dict[SnapshotId, int]:
    """When each snapshot was flushed."""
    if isinstance(snapshots, SnapshotInfoColumns):
        return dict(zip(snapshots.ids, snapshots.flushed_at, strict=True))
    return {snapshot.id: snapshot.flushed_at for snapshot in snapshots}


def pruned_logs_of(
    snapshots: Sequence[SnapshotInfo],
) -> dict[SnapshotId, tuple[SnapshotId, ...]]:
    """The `pruned_ancestor_tx_logs` of those snapshots that have any."""
    if isinstance(snapshots, SnapshotInfoColumns):
        snapshots = [snapshots[number] for number in snapshots.with_logs]
    return {
        snapshot.id: snapshot.pruned_ancestor_tx_logs
        for snapshot in snapshots
        if snapshot.pruned_ancestor_tx_logs
    }


@dataclass(frozen=True, slots=True)
class RepoStatus:
    availability: int
    """An `Availability`, or a number that this version of icectl does not know."""
    set_at: int
    limited_availability_reason: str | None = None


# Making a dataclass takes half a millisecond of the start of every command, so kinds with the same
# fields share one.


@dataclass(frozen=True, slots=True)
class _WithoutFields:
    kind: ClassVar[str]


@dataclass(frozen=True, slots=True)
class _WithName:
    kind: ClassVar[str]
    name: str


@dataclass(frozen=True, slots=True)
class _WithPrevious:
    kind: ClassVar[str]
    name: str
    previous_snap_id: SnapshotId


class RepoInitializedUpdate(_WithoutFields):
    __slots__ = ()
    kind: ClassVar[str] = "repo_initialized"


@dataclass(frozen=True, slots=True)
class RepoMigratedUpdate:
    kind: ClassVar[str] = "repo_migrated"
    from_version: int
    to_version: int


class ConfigChangedUpdate(_WithoutFields):
    __slots__ = ()
    kind: ClassVar[str] = "config_changed"


class MetadataChangedUpdate(_WithoutFields):
    __slots__ = ()
    kind: ClassVar[str] = "metadata_changed"


class TagCreatedUpdate(_WithName):
    __slots__ = ()
    kind: ClassVar[str] = "tag_created"


class TagDeletedUpdate(_WithPrevious):
    __slots__ = ()
    kind: ClassVar[str] = "tag_deleted"


class BranchCreatedUpdate(_WithName):
    __slots__ = ()
    kind: ClassVar[str] = "branch_created"


class BranchDeletedUpdate(_WithPrevious):
    __slots__ = ()
    kind: ClassVar[str] = "branch_deleted"


class BranchResetUpdate(_WithPrevious):
    __slots__ = ()
    kind: ClassVar[str] = "branch_reset"


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


class GCRanUpdate(_WithoutFields):
    __slots__ = ()
    kind: ClassVar[str] = "gc_ran"


class ExpirationRanUpdate(_WithoutFields):
    __slots__ = ()
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
    snapshots: Sequence[SnapshotInfo]
    """A tuple, or `SnapshotInfoColumns` if there are many."""
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
