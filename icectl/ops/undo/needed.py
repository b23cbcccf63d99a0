"""The objects that a state needs beyond another one: are they there?

Snapshots and manifests are read. Transaction logs and chunks are looked up one by one if they are
few, else by a listing, with their sizes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icectl.checks.manifest import ManifestClaim
from icectl.errors import FormatError, ObjectNotFoundError, StorageError
from icectl.format.envelope import HEADER_SIZE
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.repo import RepoInfo
from icectl.model.snapshot import ManifestFileInfo
from icectl.pipeline.id_columns import IdSet, id_set, union
from icectl.pipeline.listings import read_listing
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.references import MarkedManifest, mark_manifest, mark_snapshot, merge_claims
from icectl.repository.history import State, state_of
from icectl.storage.contract import Storage

FEW_REQUESTS = 64
GONE = -1

ManifestFiles = tuple[ManifestFileInfo, ...]


@dataclass(frozen=True, slots=True)
class NeededObjects:
    missing: tuple[str, ...]
    """Objects that a ref would need, by path."""
    incomplete: frozenset[SnapshotId]
    """Snapshots that no ref would lead to, and whose objects are not all there."""
    num_snapshots: int
    """How many snapshots `after` needs and `before` does not."""


def find_needed(
    storage: Storage, before: RepoInfo, after: RepoInfo, progress: Progress
) -> NeededObjects:
    """What `after` needs beyond `before`, and what of it is missing."""
    old, new = state_of(before), state_of(after)
    needed = (new.reachable - old.reachable) | (new.parents.keys() - old.parents.keys())
    extra_logs = new.logs - old.logs - needed
    if not needed and not extra_logs:
        return NeededObjects((), frozenset(), 0)
    found = _Found(storage, progress)
    snapshots = found.read_snapshots(needed)
    logs = {id_: _logs_of(new, id_) for id_ in needed}
    found.look_up_logs({log for ids in logs.values() for log in ids} | extra_logs)
    known = found.manifests_of(_borders(new, needed))
    claims: dict[ManifestId, ManifestClaim] = {}
    for snapshot_id, files in snapshots.items():
        merge_claims(claims, files, snapshot_id)
    found.look_up_content([claim for id_, claim in claims.items() if id_ not in known])
    missing: set[str] = {*found.missing_of_logs(extra_logs)}
    incomplete: set[SnapshotId] = set()
    for snapshot_id in needed:
        lacks = {*found.missing_of_logs(logs[snapshot_id])}
        lacks |= found.missing_of_snapshot(snapshot_id, snapshots.get(snapshot_id))
        if lacks and snapshot_id in new.reachable:
            missing |= lacks
        elif lacks:
            incomplete.add(snapshot_id)
    return NeededObjects(tuple(sorted(missing)), frozenset(incomplete), len(needed))


def _logs_of(state: State, snapshot_id: SnapshotId) -> set[SnapshotId]:
    """The first snapshot may have none: repositories of old versions write no log for it."""
    snapshot = state.snapshots[snapshot_id]
    own = () if snapshot.parent_id is None else (snapshot_id,)
    return {*own, *(snapshot.pruned_ancestor_tx_logs or ())}


def _borders(state: State, needed: Set[SnapshotId]) -> set[SnapshotId]:
    """Parents of the needed snapshots that the state before needs as well."""
    parents = (state.parents[snapshot_id] for snapshot_id in needed)
    return {parent for parent in parents if parent is not None and parent not in needed}


class _Found:
    """What was looked up so far."""

    def __init__(self, storage: Storage, progress: Progress) -> None:
        self._storage = storage
        self._progress = progress
        self._missing_logs: set[SnapshotId] = set()
        self._missing_by_manifest: dict[ManifestId, set[str]] = defaultdict(set)

    def read_snapshots(self, ids: Iterable[SnapshotId]) -> dict[SnapshotId, ManifestFiles]:
        """The manifests of each that exists; `FormatError` if one is damaged."""
        paths = {ObjectKind.SNAPSHOT.path(id_): id_ for id_ in ids}
        found: dict[SnapshotId, ManifestFiles] = {}
        with self._progress.phase("reading snapshots", len(paths)) as counter:
            for path, data in self._storage.read_many(paths):
                counter.advance()
                if isinstance(data, ObjectNotFoundError):
                    continue
                if isinstance(data, StorageError):
                    raise data
                found[paths[path]] = mark_snapshot(data, paths[path]).all_manifest_files
        return found

    def manifests_of(self, ids: Iterable[SnapshotId]) -> set[ManifestId]:
        """Of snapshots that need not be checked; none of one that cannot be read."""
        known: set[ManifestId] = set()
        for id_ in ids:
            try:
                snapshots = self.read_snapshots([id_])
            except FormatError:
                continue
            known.update(file.id for files in snapshots.values() for file in files)
        return known

    def look_up_logs(self, logs: Set[SnapshotId]) -> None:
        if not logs:
            return
        wanted = id_set(logs)
        sizes = self._read_sizes(ObjectKind.TRANSACTION_LOG, wanted)
        short = wanted[np.flatnonzero(sizes <= HEADER_SIZE)]
        self._missing_logs.update(map(SnapshotId, short.to_bytes()))

    def look_up_content(self, claims: Iterable[ManifestClaim]) -> None:
        """The manifests, and the chunks that they refer to."""
        by_path = {claim.path: claim for claim in claims}
        marked: dict[ManifestId, MarkedManifest] = {}
        with self._progress.phase("reading manifests", len(by_path)) as counter:
            for path, data in self._storage.read_many(by_path):
                counter.advance()
                claim = by_path[path]
                if isinstance(data, ObjectNotFoundError):
                    self._missing_by_manifest[claim.id].add(path)
                elif isinstance(data, StorageError):
                    raise data
                else:
                    marked[claim.id] = mark_manifest(data, claim)
        self._look_up_chunks(marked)

    def _look_up_chunks(self, marked: Mapping[ManifestId, MarkedManifest]) -> None:
        if not any(len(manifest.ids) for manifest in marked.values()):
            return
        wanted = union([manifest.ids for manifest in marked.values()])
        sizes = self._read_sizes(ObjectKind.CHUNK, wanted)
        for manifest_id, manifest in marked.items():
            if not len(manifest.ids):
                continue
            assert manifest.end is not None
            short = sizes[wanted.find(manifest.ids)] < manifest.end.astype(np.int64)
            for name in manifest.ids[np.flatnonzero(short)].to_names():
                self._missing_by_manifest[manifest_id].add(ObjectKind.CHUNK.path(name))

    def _read_sizes(self, kind: ObjectKind, wanted: IdSet) -> NDArray[np.int64]:
        """Of each object, or `GONE`."""
        storage = self._storage
        with self._progress.phase(f"looking up {kind.directory}", len(wanted)) as counter:
            if storage.is_object_store and len(wanted) > FEW_REQUESTS:
                listing = read_listing(storage, kind, self._progress, counter)
                if listing.size is not None:
                    rows = listing.ids.find(wanted)
                    return np.where(rows < 0, GONE, listing.size[rows])
            pairs = storage.read_sizes_and_times(kind.directory, wanted.to_names())
            return np.array([GONE if pair is None else pair[0] for pair in pairs], np.int64)

    def missing_of_logs(self, logs: Set[SnapshotId]) -> Iterable[str]:
        return (ObjectKind.TRANSACTION_LOG.path(id_) for id_ in logs & self._missing_logs)

    def missing_of_snapshot(self, snapshot_id: SnapshotId, files: ManifestFiles | None) -> set[str]:
        if files is None:
            return {ObjectKind.SNAPSHOT.path(snapshot_id)}
        lacks = (self._missing_by_manifest.get(file.id, ()) for file in files)
        return {path for paths in lacks for path in paths}
