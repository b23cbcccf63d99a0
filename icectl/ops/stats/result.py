"""What `stats` tells. Bytes and chunks count each chunk object once, inline ones each time."""

from __future__ import annotations

from dataclasses import dataclass

from icectl.model.ids import SnapshotId


@dataclass(frozen=True, slots=True)
class ArrayStats:
    path: str
    native_bytes: int
    virtual_bytes: int
    inlined_bytes: int
    num_chunks: int

    @property
    def total_bytes(self) -> int:
        return self.native_bytes + self.virtual_bytes + self.inlined_bytes


@dataclass(frozen=True, slots=True)
class RefStats:
    """What a branch or a tag leads to, over its whole history."""

    name: str
    bytes: int
    own_bytes: int
    """Needed by no other ref."""
    num_chunks: int


@dataclass(frozen=True, slots=True)
class SnapshotStats:
    id: SnapshotId
    flushed_at: int
    message: str
    bytes: int
    """All that the version refers to."""
    own_bytes: int
    """What no other version refers to."""
    shared_bytes: int
    new_bytes: int
    """What no older version refers to: the growth by this commit."""


@dataclass(frozen=True, slots=True)
class ContainerStats:
    url_prefix: str
    """Of the container in the configuration; else the beginning of the locations."""
    configured: bool
    bytes: int
    num_chunks: int
    num_objects: int


@dataclass(frozen=True, slots=True)
class ManifestStats:
    num_manifests: int
    size_bytes: int
    num_chunk_refs: int
    smallest: int
    """By references; `largest` alike."""
    largest: int
    fill: float | None
    """References by chunks that fit into the regions; None where no region is known."""


@dataclass(frozen=True, slots=True)
class BackupStats:
    num_backups: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FreedStats:
    """What expire lets go and gc then deletes; what is garbage today comes on top."""

    snapshots: int
    manifests: int
    chunks: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StatsResult:
    ref: str | None
    """The version that was asked for; None: all of them."""
    engine: str
    native_bytes: int
    virtual_bytes: int
    inlined_bytes: int
    num_chunks: int
    num_snapshots: int
    arrays: tuple[ArrayStats, ...]
    containers: tuple[ContainerStats, ...]
    manifests: ManifestStats
    overwritten: BackupStats
    branches: tuple[RefStats, ...] | None
    """None: not asked for; likewise below."""
    tags: tuple[RefStats, ...] | None
    snapshots: tuple[SnapshotStats, ...] | None
    could_free: FreedStats | None
    num_unreachable: int
    """Snapshots in the repo file that no ref leads to; their bytes are not in these numbers."""

    @property
    def total_bytes(self) -> int:
        return self.native_bytes + self.virtual_bytes + self.inlined_bytes
