"""What a garbage collection keeps: reachable snapshots and their logs, read and checked.

Everything that a branch or tag leads to stays, whatever its age; so does everything younger than
the cutoff. The kept snapshots name the manifests that stay, and those the chunks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from icectl.checks.listing import missing
from icectl.checks.manifest import ManifestClaim
from icectl.checks.problem import error_of, raise_first
from icectl.checks.repo import (
    check_ancestry,
    check_backup_names,
    check_main,
    check_repo_order,
    sorted_lists,
)
from icectl.checks.snapshot import check_ancestry_v1
from icectl.checks.transaction_log import check_log_id
from icectl.errors import FormatError, ObjectNotFoundError, Remedy, StorageError, UnsupportedError
from icectl.format.envelope import HEADER_SIZE
from icectl.format.transaction_log import decode_transaction_log, decode_transaction_log_id
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.node_columns import SnapshotColumns
from icectl.model.repo import RepoInfo, pruned_logs_of
from icectl.pipeline.id_columns import IdSet, id_set
from icectl.pipeline.listings import Listing, Listings, read_candidates
from icectl.pipeline.objects import Garbage, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.references import check_root_v1, mark_snapshot, merge_claims
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.history import read_ancestors, state_of
from icectl.repository.reparent import drop_snapshots
from icectl.repository.repository import Repository
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

LOG_HEAD = 2**18
"""The first zstd block ends here at the latest, and the id is in it."""
LOG_READERS = 16


@dataclass(frozen=True, slots=True, eq=False)
class KeptSnapshots:
    kept: frozenset[SnapshotId]
    dropped: frozenset[SnapshotId]
    """Listed in `repo` and to leave it; empty in spec version 1."""
    garbage: Garbage
    logs: frozenset[SnapshotId]
    """The transaction logs that stay."""
    required_logs: frozenset[SnapshotId]
    """Those of them that must be there: the first snapshot of old repositories has none."""
    claims: dict[ManifestId, ManifestClaim]


def find_kept_snapshots(
    repository: Repository, listings: Listings, cutoff: int, progress: Progress
) -> KeptSnapshots:
    """Read the kept snapshots while `listings` lists all of them."""
    # It cannot be deleted, so its file or its entry is lost.
    raise_first(
        check_main(repository.branches(), repository.refs.branch_object(DEFAULT_BRANCH)),
        hint=Remedy("create-branch", {"branch": DEFAULT_BRANCH}),
    )
    if repository.info is not None:
        return _find_kept_v2(repository.storage, repository.info, listings, cutoff, progress)
    return _find_kept_v1(repository, listings, cutoff, progress)


def _find_kept_v2(
    storage: Storage, info: RepoInfo, listings: Listings, cutoff: int, progress: Progress
) -> KeptSnapshots:
    raise_first(check_repo_order(sorted_lists(info)))
    raise_first(check_backup_names(info))
    raise_first(check_ancestry(info))
    state = state_of(info)
    claims: dict[ManifestId, ManifestClaim] = {}
    seen: set[bytes] = set()

    def read_claims(ids: Collection[SnapshotId]) -> None:
        for snapshot in read_snapshots(storage, ids, progress) if ids else ():
            merge_claims(claims, snapshot.manifest_files.new_infos(seen), snapshot.id)

    read_claims(state.reachable)
    listing = listings.wait_for(ObjectKind.SNAPSHOT)
    others = np.flatnonzero(~id_set(state.reachable).contains(listing.ids))
    garbage = read_candidates(storage, listing, others, progress).created_before(cutoff)
    old = {SnapshotId(id_) for id_ in garbage.ids.to_bytes()}
    # Unreachable ones stay if they are young, and if the listing does not have them yet.
    kept = frozenset(id_ for id_ in state.parents if id_ in state.reachable or id_ not in old)
    read_claims(kept - state.reachable)
    dropped = frozenset(state.parents.keys() - kept)
    logs = set(kept)
    # A kept child of a dropped snapshot needs the log of its parent from now on.
    for pruned in pruned_logs_of(drop_snapshots(info, dropped).snapshots).values():
        logs.update(pruned)
    return KeptSnapshots(
        kept=kept,
        dropped=dropped,
        garbage=garbage,
        logs=frozenset(logs),
        required_logs=frozenset(logs - {id_ for id_ in kept if state.parents[id_] is None}),
        claims=claims,
    )


def _find_kept_v1(
    repository: Repository, listings: Listings, cutoff: int, progress: Progress
) -> KeptSnapshots:
    claims: dict[ManifestId, ManifestClaim] = {}
    seen: set[bytes] = set()
    parents: dict[SnapshotId, SnapshotId | None] = {}
    tips = {*repository.branches().values(), *repository.tags().values()}
    for snapshot in read_ancestors(
        tips, lambda ids: read_snapshots(repository.storage, ids, progress)
    ):
        merge_claims(claims, snapshot.manifest_files.new_infos(seen), snapshot.id)
        check_root_v1(snapshot)
        parents[snapshot.id] = snapshot.parent_id
    raise_first(check_ancestry_v1(parents))  # everything older than a cycle would be garbage
    kept = frozenset(parents)
    listing = listings.wait_for(ObjectKind.SNAPSHOT)
    others = np.flatnonzero(~id_set(kept).contains(listing.ids))
    candidates = read_candidates(repository.storage, listing, others, progress)
    return KeptSnapshots(
        kept=kept,
        dropped=frozenset(),
        garbage=candidates.created_before(cutoff),
        logs=kept,
        required_logs=frozenset(id_ for id_, parent in parents.items() if parent is not None),
        claims=claims,
    )


def read_snapshots(
    storage: Storage, ids: Iterable[SnapshotId], progress: Progress
) -> Iterator[SnapshotColumns]:
    """The snapshots in no particular order; `FormatError` if one is missing or damaged."""
    return (snapshot for snapshot, _ in read_sized_snapshots(storage, ids, progress))


def read_sized_snapshots(
    storage: Storage, ids: Iterable[SnapshotId], progress: Progress
) -> Iterator[tuple[SnapshotColumns, int]]:
    """The same, with the sizes of their files."""
    paths = {ObjectKind.SNAPSHOT.path(id_): id_ for id_ in ids}
    with progress.phase("reading snapshots", len(paths)) as counter:
        for path, data in storage.read_many(paths):
            progress.check_time()
            if isinstance(data, ObjectNotFoundError):
                raise error_of(missing(path, "a kept version needs it"))
            if isinstance(data, StorageError):
                raise data
            yield mark_snapshot(data, paths[path]), len(data)
            counter.advance()


def check_log_ids(
    storage: Storage,
    listing: Listing,
    kept: IdSet,
    known_missing: frozenset[str],
    progress: Progress,
) -> None:
    """`FormatError` if a kept log that is listed has another id, or none.

    On an object store the listing must suffice, which shows those that are missing or cut short: a
    request for each would be most of the requests of a run, as every pruned ancestor has a log. A
    log leads to no other object, so what it contains does not change what is deleted; `validate`
    reads it.
    """
    rows = listing.ids.find(kept)
    rows = rows[rows >= 0]
    names = listing.ids[rows].to_names()
    if listing.size is None:
        pairs = storage.read_sizes_and_times(listing.kind.directory, names)
        sizes = [0 if pair is None else pair[0] for pair in pairs]
    else:
        sizes = listing.size[rows].tolist()
    paths = {
        path: size
        for path, size in zip(map(listing.kind.path, names), sizes, strict=True)
        if path not in known_missing
    }
    if storage.is_object_store:
        for path, size in paths.items():
            if size <= HEADER_SIZE:
                reason = f"its {size} bytes are too few for a header and content"
                raise FormatError(reason, path=path)
        return
    with progress.phase("reading transaction logs", len(paths)) as counter:
        for path, data in _read_log_heads(storage, paths):
            progress.check_time()
            _check_log_id(storage, path, data)
            counter.advance()


def _read_log_heads(storage: Storage, sizes: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """The first bytes of large files, and small files in full."""
    for path, data in storage.read_many([path for path, size in sizes.items() if size <= LOG_HEAD]):
        if isinstance(data, ObjectNotFoundError):
            raise error_of(missing(path, "it was deleted after it was listed"))
        if isinstance(data, StorageError):
            raise data
        yield path, data
    large = [path for path, size in sizes.items() if size > LOG_HEAD]
    if not large:
        return
    heads = map_on_threads(
        lambda path: (path, storage.read_range(path, 0, LOG_HEAD)),
        large,
        workers=LOG_READERS,
        ahead=2 * LOG_READERS,
    )
    yield from heads


def _check_log_id(storage: Storage, path: str, data: bytes) -> None:
    try:
        found = decode_transaction_log_id(data, is_whole=len(data) != LOG_HEAD)
        if found is None:
            found = decode_transaction_log(storage.read(path)).id
    except FormatError as error:
        raise error.at(path) from None
    except UnsupportedError as error:
        raise FormatError(error.message, path=path) from None
    raise_first(check_log_id(found, SnapshotId.parse(path.rpartition("/")[2])))
