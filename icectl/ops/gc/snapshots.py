"""Which snapshots stay: the roots of the collection, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from icectl.errors import FormatError, ObjectNotFoundError, Remedy, StorageError
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.repo import Ref, RepoInfo
from icectl.model.snapshot import Snapshot
from icectl.ops.gc.id_sets import id_set
from icectl.ops.gc.listing import Listing, read_candidates
from icectl.ops.gc.marking import ManifestClaim, check_root_v1, mark_snapshot, merge_claims
from icectl.ops.gc.objects import Garbage, ObjectKind
from icectl.ops.gc.transitions import state_of
from icectl.ops.gc.watch import Watch
from icectl.repository.ancestry import find_cycles
from icectl.repository.backups import made_at
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.ref_files import branch_file
from icectl.repository.reparent import drop_snapshots
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotPlan:
    kept: frozenset[SnapshotId]
    dropped: frozenset[SnapshotId]
    """Listed in `repo` and to leave it; empty in spec version 1."""
    garbage: Garbage
    logs: frozenset[SnapshotId]
    """The transaction logs that stay."""
    required_logs: frozenset[SnapshotId]
    """Those of them that must be there: the first snapshot of old repositories has none."""
    claims: dict[ManifestId, ManifestClaim]


def plan_snapshots(
    repository: Repository, listing: Listing, cutoff: int, watch: Watch
) -> SnapshotPlan:
    if DEFAULT_BRANCH not in repository.branches():
        # Nobody can delete it, so that its file or its entry is lost.
        raise FormatError(
            f"the branch {DEFAULT_BRANCH} is missing",
            path=REPO_PATH if repository.info is not None else branch_file(DEFAULT_BRANCH),
            hint=Remedy("create-branch", {"branch": DEFAULT_BRANCH}),
        )
    if repository.info is not None:
        return _plan_v2(repository.storage, repository.info, listing, cutoff, watch)
    return _plan_v1(repository, listing, cutoff, watch)


def _plan_v2(
    storage: Storage, info: RepoInfo, listing: Listing, cutoff: int, watch: Watch
) -> SnapshotPlan:
    check_order(info)
    check_copies(info)
    check_ancestry(info)
    state = state_of(info)
    others = np.flatnonzero(~id_set(state.reachable).contains(listing.ids))
    garbage = read_candidates(storage, listing, others, watch).created_before(cutoff)
    old = {SnapshotId(id_) for id_ in garbage.ids.to_bytes()}
    # Unreachable ones stay when they are young, and when the listing does not know them yet.
    kept = frozenset(id_ for id_ in state.snapshots if id_ in state.reachable or id_ not in old)
    claims: dict[ManifestId, ManifestClaim] = {}
    for snapshot in read_snapshots(storage, kept, watch):
        merge_claims(claims, snapshot.all_manifest_files, snapshot.id)
    dropped = frozenset(state.snapshots.keys() - kept)
    logs = set(kept)
    # A kept child of a dropped snapshot needs the log of its parent from now on.
    for snapshot_info in drop_snapshots(info, dropped).snapshots:
        logs.update(snapshot_info.pruned_ancestor_tx_logs or ())
    return SnapshotPlan(
        kept=kept,
        dropped=dropped,
        garbage=garbage,
        logs=frozenset(logs),
        required_logs=frozenset(
            logs - {id_ for id_ in kept if state.snapshots[id_].parent_id is None}
        ),
        claims=claims,
    )


def _plan_v1(repository: Repository, listing: Listing, cutoff: int, watch: Watch) -> SnapshotPlan:
    claims: dict[ManifestId, ManifestClaim] = {}
    kept: set[SnapshotId] = set()
    roots: set[SnapshotId] = set()
    ancestry: dict[SnapshotId, SnapshotId | None] = {}
    tips = {*repository.branches().values(), *repository.tags().values()}
    while tips:
        kept |= tips
        parents: set[SnapshotId] = set()
        for snapshot in read_snapshots(repository.storage, tips, watch):
            merge_claims(claims, snapshot.all_manifest_files, snapshot.id)
            ancestry[snapshot.id] = snapshot.parent_id
            if snapshot.parent_id is None:
                check_root_v1(snapshot)
                roots.add(snapshot.id)
            else:
                parents.add(snapshot.parent_id)
        tips = parents - kept
    for cycle in find_cycles(ancestry):
        # What came before the cycle would be garbage.
        path = ObjectKind.SNAPSHOT.path(cycle[-1])
        raise FormatError(f"its parent {cycle[0]} descends from it", path=path)
    others = np.flatnonzero(~id_set(kept).contains(listing.ids))
    candidates = read_candidates(repository.storage, listing, others, watch)
    return SnapshotPlan(
        kept=frozenset(kept),
        dropped=frozenset(),
        garbage=candidates.created_before(cutoff),
        logs=frozenset(kept),
        required_logs=frozenset(kept - roots),
        claims=claims,
    )


def read_snapshots(storage: Storage, ids: Iterable[SnapshotId], watch: Watch) -> Iterator[Snapshot]:
    """The snapshots in no order; the first that is missing or does not fit ends it."""
    paths = {ObjectKind.SNAPSHOT.path(id_): id_ for id_ in ids}
    with watch.phase("reading snapshots", len(paths)) as counter:
        for path, data in storage.read_many(paths):
            watch.check_time()
            if isinstance(data, ObjectNotFoundError):
                raise FormatError("the snapshot is missing", path=path)
            if isinstance(data, StorageError):
                raise data
            yield mark_snapshot(data, paths[path])
            counter.advance()


def check_order(info: RepoInfo) -> None:
    """Names and ids are sorted and distinct; an offset bent to a neighbour breaks that."""

    def check(keys: list[bytes], what: str) -> None:
        if any(second <= first for first, second in pairwise(keys)):
            raise FormatError(f"its {what} are not in order", path=REPO_PATH)

    def names(refs: Iterable[Ref]) -> list[bytes]:
        return [ref.name.encode() for ref in refs]

    check(names(info.branches), "branches")
    check(names(info.tags), "tags")
    check([snapshot.id for snapshot in info.snapshots], "snapshots")


def check_copies(info: RepoInfo) -> None:
    """The ops log names copies as writers do; a flipped bit in a name breaks that."""
    names = [info.repo_before_updates, *(update.backup_path for update in info.latest_updates)]
    for name in names:
        if name is not None and made_at(name) is None:
            raise FormatError(f"its ops log names a copy {name!r}, which cannot be", path=REPO_PATH)


def check_ancestry(info: RepoInfo) -> None:
    """Every history begins with the one first snapshot; a bent parent can make a circle."""
    parents = {snapshot.id: snapshot.parent_id for snapshot in info.snapshots}
    roots = [id_ for id_, parent in parents.items() if parent is None]
    if len(roots) != 1:
        raise FormatError(f"{len(roots)} of its snapshots have no parent", path=REPO_PATH)
    for cycle in find_cycles(parents):
        raise FormatError(f"the snapshot {cycle[0]} is its own ancestor", path=REPO_PATH)
