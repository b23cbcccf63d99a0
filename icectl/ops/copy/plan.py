"""What the target needs and does not have.

The target's `repo` is written last, so that whatever its snapshots refer to is there: only new
snapshots and logs are read. Each directory of the target is listed at most once, and the source
never.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from icectl.checks.listing import missing
from icectl.checks.manifest import ManifestClaim
from icectl.checks.problem import error_of, raise_first
from icectl.checks.transaction_log import check_log
from icectl.errors import StorageError
from icectl.model.ids import INITIAL_SNAPSHOT_ID, ManifestId, SnapshotId
from icectl.model.node_columns import SnapshotColumns
from icectl.model.repo import pruned_logs_of
from icectl.ops.copy.transfer import count_chunks, read_digests
from icectl.ops.gc.reachability import read_sized_snapshots
from icectl.pipeline.comparison import compare_columns
from icectl.pipeline.engine import ChooseEngine, Columns, Comparison, Scan
from icectl.pipeline.id_columns import id_set
from icectl.pipeline.listings import Listings
from icectl.pipeline.local_engine import LocalEngine
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.references import check_root_v1, merge_claims, read_references
from icectl.repository.history import read_ancestors
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

MOST_COMMON = 64
"""Snapshots of the target that are read to learn which manifests it has."""
ORDER = (
    ObjectKind.CHUNK,
    ObjectKind.MANIFEST,
    ObjectKind.TRANSACTION_LOG,
    ObjectKind.SNAPSHOT,
)
"""What is referred to is copied before what refers to it."""


@dataclass(frozen=True, slots=True)
class KindPlan:
    """The objects of one kind."""

    needed: Mapping[str, int] = field(default_factory=dict)
    """The sizes of all objects that new snapshots need, by path; not those of chunks."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The same of the objects to copy."""
    count: int = 0
    bytes: int = 0
    """Of the objects to copy."""
    skipped: int = 0
    """How many needed objects the target has already."""


@dataclass(frozen=True, slots=True, eq=False)
class CopyPlan:
    state: Repository
    """The state that the target is to have."""
    kinds: Mapping[ObjectKind, KindPlan]
    references: Scan | None = None
    """The chunks that new manifests refer to, and these compared with those of the target."""
    chunks: Comparison | None = None
    engine: str = LocalEngine.name

    @property
    def num_objects(self) -> int:
        return sum(kind.count for kind in self.kinds.values())

    @property
    def num_bytes(self) -> int:
        return sum(kind.bytes for kind in self.kinds.values())


def plan_copy(
    state: Repository,
    source: Storage,
    target: Storage,
    known: Collection[SnapshotId],
    choose_engine: ChooseEngine,
    progress: Progress,
) -> CopyPlan:
    """Compare what `state` needs with the target, which has everything of the `known` snapshots.

    The snapshots are in the storage of `state`, manifests and logs in `source`.
    """
    snapshots = _read_new(state, frozenset(known), progress)
    if not snapshots.sizes:
        return CopyPlan(state, {kind: KindPlan() for kind in ORDER})
    claims = snapshots.claims
    with Listings(target, progress) as listings:
        for kind in ORDER[1:]:
            listings.begin(kind)
        engine = choose_engine(sum(claim.num_chunk_refs for claim in claims.values()))
        references = comparison = None
        chunks = KindPlan()
        if claims:
            engine.release()
            num_expected = sum(claim.num_chunk_refs for claim in claims.values())
            listed = engine.list_objects(target, ObjectKind.CHUNK, listings, num_expected)
            work = read_references(source, claims.values(), with_sizes=True)
            references = engine.scan(work, progress)
            comparison = engine.compare(references, listed, progress, exact_sizes=True)
            counted = [*comparison.map_mismatches(count_chunks)]
            chunks = KindPlan(
                count=sum(one.objects for one in counted),
                bytes=sum(one.bytes for one in counted),
                skipped=comparison.num_matched - sum(one.replaced for one in counted),
            )
        manifests = {id_: claim.size_bytes for id_, claim in claims.items()}
        kinds = {
            ObjectKind.CHUNK: chunks,
            ObjectKind.MANIFEST: _find_missing(
                target, ObjectKind.MANIFEST, manifests, listings, progress
            ),
            ObjectKind.TRANSACTION_LOG: _find_missing_logs(
                source, target, snapshots, listings, progress
            ),
            ObjectKind.SNAPSHOT: _find_missing(
                target, ObjectKind.SNAPSHOT, snapshots.sizes, listings, progress
            ),
        }
    for kind in (ObjectKind.TRANSACTION_LOG, ObjectKind.SNAPSHOT):
        # Every repository has a first snapshot of this name; an expiration of spec version 1
        # rewrites others as well.
        chosen = {*kinds[kind].needed}
        if state.info is not None:
            chosen &= {kind.path(INITIAL_SNAPSHOT_ID)}
        origin = state.storage if kind is ObjectKind.SNAPSHOT else source
        kinds[kind] = _with_changed(kinds[kind], chosen, origin, target)
    _check_logs(source, kinds[ObjectKind.TRANSACTION_LOG].sizes, progress)
    return CopyPlan(state, kinds, references, comparison, engine.name)


@dataclass(slots=True)
class _NewSnapshots:
    sizes: dict[SnapshotId, int] = field(default_factory=dict)
    claims: dict[ManifestId, ManifestClaim] = field(default_factory=dict)
    logs: set[SnapshotId] = field(default_factory=set)
    optional_logs: set[SnapshotId] = field(default_factory=set)
    """The first snapshot of old repositories has no log."""


def _read_new(state: Repository, known: Set[SnapshotId], progress: Progress) -> _NewSnapshots:
    new = _NewSnapshots()
    parents: dict[SnapshotId, SnapshotId | None] = {}

    def read(ids: Iterable[SnapshotId]) -> Iterator[SnapshotColumns]:
        for snapshot, size in read_sized_snapshots(state.storage, ids, progress):
            new.sizes[snapshot.id] = size
            merge_claims(new.claims, snapshot.all_manifest_files, snapshot.id)
            yield snapshot

    if state.info is None:
        tips = {*state.branches().values(), *state.tags().values()}
        for snapshot in read_ancestors(tips, read, known):
            check_root_v1(snapshot)
            parents[snapshot.id] = snapshot.parent_id
    else:
        parents = {one.id: one.parent_id for one in state.info.snapshots if one.id not in known}
        for _ in read(parents) if parents else ():
            pass
        for id_, pruned in pruned_logs_of(state.info.snapshots).items():
            if id_ in parents:
                new.logs.update(pruned)
    new.logs |= parents.keys()
    new.optional_logs = {id_ for id_, parent in parents.items() if parent is None}
    if new.claims:
        for manifest_id in _manifests_of_common(state, parents, known, progress):
            new.claims.pop(manifest_id, None)
    return new


def _manifests_of_common(
    state: Repository,
    parents: Mapping[SnapshotId, SnapshotId | None],
    known: Set[SnapshotId],
    progress: Progress,
) -> set[ManifestId]:
    """Manifests that snapshots of the target use from which new ones descend."""
    common = {parent for parent in parents.values() if parent is not None and parent in known}
    chosen = sorted(common)[:MOST_COMMON]
    found = read_sized_snapshots(state.storage, chosen, progress) if chosen else ()
    return {file.id for snapshot, _ in found for file in snapshot.all_manifest_files}


def _find_missing(
    target: Storage,
    kind: ObjectKind,
    sizes: Mapping[SnapshotId, int] | Mapping[ManifestId, int],
    listings: Listings,
    progress: Progress,
) -> KindPlan:
    """Objects that the target does not have, or not with these sizes."""
    ids = id_set(sizes)
    by_bytes = {bytes(id_): size for id_, size in sizes.items()}
    end = np.array([by_bytes[id_] for id_ in ids.to_bytes()], np.uint64)
    columns: Columns = {"end": end}
    comparison = compare_columns(
        target, ids, columns, listings.wait_for(kind), progress, cutoff=None, exact_sizes=True
    )
    wrong = comparison.mismatches()
    names = map(kind.path, wrong.ids.to_names())
    found = dict(zip(names, wrong.columns["end"].tolist(), strict=True))
    return _kind_plan({kind.path(id_): size for id_, size in sizes.items()}, found)


def _kind_plan(needed: Mapping[str, int], found: Mapping[str, int]) -> KindPlan:
    count = len(found)
    return KindPlan(needed, found, count, sum(found.values()), len(needed) - count)


def _with_changed(plan: KindPlan, chosen: Set[str], source: Storage, target: Storage) -> KindPlan:
    """Also those of the chosen objects that have other bytes at the target."""
    there = chosen - plan.sizes.keys()
    ours = dict(read_digests(source, there))
    found = {**plan.sizes}
    for path, digest in read_digests(target, there):
        if digest != ours[path]:
            found[path] = plan.needed[path]
    return _kind_plan(plan.needed, found)


def _find_missing_logs(
    source: Storage,
    target: Storage,
    snapshots: _NewSnapshots,
    listings: Listings,
    progress: Progress,
) -> KindPlan:
    """The same for logs, whose sizes only the source knows."""
    kind = ObjectKind.TRANSACTION_LOG
    there = {*listings.wait_for(kind).ids.to_bytes()}
    ids = sorted(snapshots.logs)
    found = source.read_sizes_and_times(kind.directory, map(str, ids))
    sizes: dict[SnapshotId, int] = {}
    for id_, size in zip(ids, found, strict=True):
        progress.check_time()
        if size is not None:
            sizes[id_] = size[0]
        elif id_ not in snapshots.optional_logs and bytes(id_) not in there:
            raise error_of(missing(kind.path(id_), "a version that is to be copied needs it"))
    return _find_missing(target, kind, sizes, listings, progress)


def _check_logs(source: Storage, paths: Collection[str], progress: Progress) -> None:
    """`FormatError` if one of the logs is damaged: nothing else reads it before it is published."""
    with progress.phase("reading transaction logs", len(paths)) as counter:
        for path, data in source.read_many(paths):
            progress.check_time()
            if isinstance(data, StorageError):
                raise data
            log, problems = check_log(data, SnapshotId.parse(path.rpartition("/")[2]))
            if log is None:
                raise_first(problems)
            counter.advance()
