"""The result of `stats`. Chunk objects count once; inline chunks count each time."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Everything reachable from a branch or tag, over its whole history."""

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
    """Of all chunks that the version refers to."""
    own_bytes: int
    """Of chunks that no other version refers to."""
    shared_bytes: int
    new_bytes: int
    """Of chunks that no older version refers to: the growth by this commit."""


@dataclass(frozen=True, slots=True)
class GrowthStats:
    """What a commit added to an array: the new bytes of a version, by array."""

    id: SnapshotId
    path: str | None
    """None: all arrays but the largest."""
    new_bytes: int


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
    """What expire releases and gc then deletes, in addition to today's garbage."""

    snapshots: int
    manifests: int
    chunks: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StatsResult:
    ref: str | None
    """The requested version; None: all versions."""
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
    """None: not requested; the same holds for the next fields."""
    tags: tuple[RefStats, ...] | None
    snapshots: tuple[SnapshotStats, ...] | None
    growth: tuple[GrowthStats, ...] | None
    could_free: FreedStats | None
    num_unreachable: int
    """Snapshots in the repo file that no ref reaches; their bytes are not counted."""

    @property
    def total_bytes(self) -> int:
        return self.native_bytes + self.virtual_bytes + self.inlined_bytes


@dataclass(slots=True)
class GroupStats:
    """What a group and everything below it occupies; `level` is its depth in the hierarchy."""

    level: int
    name: str
    bytes: int = 0
    num_chunks: int = 0


def sum_by_group(arrays: Sequence[ArrayStats], depth: int | None) -> list[GroupStats]:
    """For each group and array the sum below it, beginning with the root.

    Nodes below `depth` count only for their parent group.
    """
    rows: dict[tuple[str, ...], GroupStats] = {(): GroupStats(0, "/")}
    for array in arrays:
        path = array.path or "(not in any array)"
        shown = tuple(part for part in path.split("/") if part)[:depth]
        for end in range(len(shown) + 1):
            row = rows.setdefault(shown[:end], GroupStats(end, "".join(shown[end - 1 : end])))
            row.bytes += array.total_bytes
            row.num_chunks += array.num_chunks
    return [rows[key] for key in sorted(rows, key=lambda key: [part.encode() for part in key])]
