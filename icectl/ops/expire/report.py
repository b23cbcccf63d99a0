"""The result of an expiration or of its dry run, and an estimate of what gc could then free."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import overload

from icectl.errors import FormatError, StorageError
from icectl.format.manifest import NativeRefs, decode_native_refs
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.node_columns import byte_rows
from icectl.model.snapshot import ManifestFileInfo
from icectl.ops.expire.plan import Expiration
from icectl.pipeline.progress import Progress
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.repository import Repository

MOST_SNAPSHOTS_READ = 2_000
MOST_REFERENCES_READ = 5_000_000


@dataclass(frozen=True, slots=True)
class Freed:
    """The least that gc could delete afterwards; sizes of chunks need every reference read."""

    snapshots: int
    manifests: int
    chunks: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class SnapshotFate:
    id: SnapshotId
    flushed_at: int
    message: str
    released: bool
    reasons: tuple[str, ...]
    parent_id: SnapshotId | None
    """The new parent, where it changes."""


class _Fates(Sequence[SnapshotFate]):
    """Of many snapshots: each is made when it is shown."""

    def __init__(
        self, ids: Sequence[SnapshotId], fate: Callable[[SnapshotId], SnapshotFate]
    ) -> None:
        self._ids = ids
        self._fate = fate

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, number: int) -> SnapshotFate: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[SnapshotFate]: ...
    def __getitem__(self, number: int | slice) -> SnapshotFate | Sequence[SnapshotFate]:
        if isinstance(number, slice):
            return _Fates(self._ids[number], self._fate)
        return self._fate(self._ids[number])


@dataclass(frozen=True, slots=True)
class BranchFate:
    branch: str
    deleted: bool
    snapshots: Sequence[SnapshotFate]
    """Newest first, without the history that it shares with a branch listed before it."""


@dataclass(frozen=True, slots=True)
class ExpireResult:
    dry_run: bool
    released_snapshots: tuple[SnapshotId, ...]
    edited_snapshots: tuple[SnapshotId, ...]
    deleted_branches: tuple[str, ...]
    deleted_tags: tuple[str, ...]
    gone_snapshots: int
    """Released and kept by nothing else; V1 also calls the tips of expired refs released."""
    kept_snapshots: int
    branches: tuple[BranchFate, ...]
    """Only in a dry run."""
    unreachable: Sequence[SnapshotFate]
    """Snapshots on no branch; only in a dry run."""
    could_free: Freed | None


def build_result(
    repository: Repository,
    expiration: Expiration,
    *,
    dry_run: bool,
    progress: Progress | None = None,
) -> ExpireResult:
    history, plan = expiration.history, expiration.plan
    gone = plan.gone

    def fate(snapshot_id: SnapshotId) -> SnapshotFate:
        snapshot = history.snapshots[snapshot_id]
        return SnapshotFate(
            snapshot_id,
            snapshot.flushed_at,
            snapshot.message,
            snapshot_id in gone,
            plan.reasons.get(snapshot_id, ()),
            plan.parents.get(snapshot_id),
        )

    branches: tuple[BranchFate, ...] = ()
    unreachable: Sequence[SnapshotFate] = ()
    if dry_run:
        on_branches: set[SnapshotId] = set()
        fates = []
        for name in sorted(history.branches, key=lambda name: (name != DEFAULT_BRANCH, name)):
            ancestry = history.ancestry(history.branches[name])
            own = [*takewhile(lambda id_: id_ not in on_branches, ancestry)]
            on_branches.update(own)
            fates.append(BranchFate(name, name in plan.deleted_branches, _Fates(own, fate)))
        branches = tuple(fates)
        others = [id_ for id_ in history.parents if id_ not in on_branches]
        others.sort(key=history.flushed_at.__getitem__, reverse=True)
        unreachable = _Fates(others, fate)
    return ExpireResult(
        dry_run=dry_run,
        # The history is in order already, and sorting that is quick.
        released_snapshots=tuple(sorted(id_ for id_ in history.parents if id_ in plan.released)),
        edited_snapshots=tuple(sorted(plan.parents)),
        deleted_branches=plan.deleted_branches,
        deleted_tags=plan.deleted_tags,
        gone_snapshots=len(gone),
        kept_snapshots=len(history.parents) - len(gone),
        branches=branches,
        unreachable=unreachable,
        could_free=(
            estimate_freed(repository, expiration, progress or Progress()) if dry_run else None
        ),
    )


def estimate_freed(
    repository: Repository, expiration: Expiration, progress: Progress
) -> Freed | None:
    """Objects that only released snapshots refer to; None if finding them would take long."""
    history, released = expiration.history, expiration.plan.gone
    if not released:
        return Freed(0, 0, 0, 0)
    if len(history.parents) > MOST_SNAPSHOTS_READ:
        return None
    try:
        gone = _manifests(repository, released, progress)
        kept = _manifests(repository, history.parents.keys() - released, progress)
        only_gone = {key: info for key, info in gone.items() if key not in kept}
        references = sum(info.num_chunk_refs for info in (*only_gone.values(), *kept.values()))
        chunks = size = None
        if references <= MOST_REFERENCES_READ:
            chunks, size = _chunks_only_in(repository, only_gone, kept, progress)
            size += sum(info.size_bytes for info in only_gone.values())
    except (StorageError, FormatError):
        return None  # expiring needs none of these files
    return Freed(len(released), len(only_gone), chunks, size)


def _manifests(
    repository: Repository, snapshots: Collection[SnapshotId], progress: Progress
) -> dict[ManifestId, ManifestFileInfo]:
    seen: set[bytes] = set()
    read = repository.read_snapshot_columns(snapshots)
    return {
        info.id: info
        for columns in progress.count(read, "reading snapshots", len(snapshots))
        for info in columns.manifest_files.new_infos(seen)
    }


def _chunks_only_in(
    repository: Repository,
    gone: Collection[ManifestId],
    kept: Collection[ManifestId],
    progress: Progress,
) -> tuple[int, int]:
    """Chunks that only the first manifests refer to, and their size by the references."""
    sizes: dict[bytes, int] = {}
    for refs in _read_native_refs(repository, gone, progress):
        assert refs.end is not None
        for chunk_id, end in zip(byte_rows(refs.chunk_id), refs.end.tolist(), strict=True):
            sizes[chunk_id] = max(end, sizes.get(chunk_id, 0))
    if sizes:
        for refs in _read_native_refs(repository, kept, progress):
            for chunk_id in byte_rows(refs.chunk_id):
                sizes.pop(chunk_id, None)
    return len(sizes), sum(sizes.values())


def _read_native_refs(
    repository: Repository, manifests: Collection[ManifestId], progress: Progress
) -> Iterator[NativeRefs]:
    read = repository.storage.read_many(map(repository.layout.manifest, manifests))
    for _, data in progress.count(read, "reading manifests", len(manifests)):
        if isinstance(data, StorageError):
            raise data
        yield decode_native_refs(data)
