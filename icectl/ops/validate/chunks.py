"""The level `chunks`: every native chunk file, by listing, and objects that no version needs.

A lost file is also looked up in manifests: which chunks of which array it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from icectl.checks import rules
from icectl.checks.listing import wrong_chunk_size
from icectl.checks.problem import UNREADABLE, Problem
from icectl.errors import ObjectNotFoundError
from icectl.model.ids import ChunkId, ManifestId, NodeId, SnapshotId
from icectl.model.manifest import RefKind
from icectl.ops.validate.manifests import ManifestItem, weigh
from icectl.ops.validate.metadata import Metadata
from icectl.ops.validate.report import Report
from icectl.pipeline.comparison import MISSING
from icectl.pipeline.engine import Engine, Listed, Mismatches, Scan, Work
from icectl.pipeline.id_columns import IdSet, id_columns, id_set, sort_order
from icectl.pipeline.listings import Listing, read_listing
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.history import History
from icectl.repository.repository import Repository

SHOWN_NAMES = 3


def check_chunks(
    engine: Engine,
    references: Scan,
    listed: Listed,
    repository: Repository,
    history: History,
    metadata: Metadata,
    manifests: Sequence[ManifestItem],
    report: Report,
    progress: Progress,
    *,
    orphans_of: Collection[ObjectKind],
) -> int:
    """Report missing chunks and wrong sizes; return the number of chunks that were compared.

    Unreferenced objects are reported of the kinds `orphans_of`.
    """
    comparison = engine.compare(references, listed, progress, exact_sizes=True)
    found = comparison.mismatches()
    if len(found):
        users = _find_users(engine, repository, found.ids, manifests, metadata, progress)
        _report_mismatches(found, users, metadata, report)
    if history.whole:
        if ObjectKind.CHUNK in orphans_of:
            orphans = comparison.unreferenced
            _report_orphans(ObjectKind.CHUNK, len(orphans), orphans.first(SHOWN_NAMES), report)
        _report_foreign(ObjectKind.CHUNK, comparison.num_foreign, comparison.foreign, report)
        _check_other_orphans(repository, history, metadata, orphans_of, report, progress)
    return comparison.num_matched


def _report_mismatches(
    found: Mismatches, users: Sequence[set[SnapshotId]], metadata: Metadata, report: Report
) -> None:
    arrays, manifests = [*metadata.arrays], [*metadata.claims]
    columns = (
        found.ids.to_names(),
        found.size.tolist(),
        found.columns["end"].tolist(),
        found.columns["array"].tolist(),
        found.columns["manifest"].tolist(),
    )
    for row, (name, size, end, array, one_manifest) in enumerate(zip(*columns, strict=True)):
        manifest = manifests[one_manifest]
        node = None if array < 0 else _path_in(metadata, arrays[array], manifest)
        known = None if size == MISSING else size
        problem = wrong_chunk_size(ObjectKind.CHUNK.path(name), known, end, node)
        if known is None:
            report.missing.append(problem.object)
        report.add(problem, users[row] | {*metadata.users[manifest]})


def _path_in(metadata: Metadata, array: NodeId, manifest: ManifestId) -> str:
    """The path of the array in a version that uses the manifest; others may have moved it."""
    newest = metadata.arrays[array].path
    paths = {use.path for use in metadata.uses.get(manifest, ()) if use.node_id == array}
    return newest if newest in paths or not paths else min(paths)


@dataclass(frozen=True, slots=True)
class _FindUsers:
    """Yields the number of each manifest that refers to one of the chunks, and which of them."""

    repository: Repository
    chunks: IdSet

    def __call__(self, manifests: Sequence[ManifestItem]) -> Iterator[tuple[int, NDArray[np.intp]]]:
        for item in manifests:
            try:
                manifest = self.repository.read_manifest(item.claim.id)
            except (ObjectNotFoundError, *UNREADABLE):
                continue  # deleted by another process in the meantime
            native = [
                array.refs.chunk_id[array.refs.kind == RefKind.NATIVE]
                for array in manifest.arrays
                if array.refs.chunk_id.shape[1] == 12
            ]
            found = [self.chunks.find(id_columns(ids)) for ids in native]
            rows = np.unique(np.concatenate([np.empty(0, np.intp), *found]))
            if (rows >= 0).any():
                yield item.number, rows[rows >= 0]


def _find_users(
    engine: Engine,
    repository: Repository,
    chunks: IdSet,
    manifests: Sequence[ManifestItem],
    metadata: Metadata,
    progress: Progress,
) -> list[set[SnapshotId]]:
    """The snapshots that lead to each of the chunks; reads all manifests again for that."""
    order = sort_order(chunks)
    users: list[set[SnapshotId]] = [set() for _ in order]
    function = _FindUsers(repository.without_history(), chunks[order])
    work = Work(
        "finding the versions that need them", repository.storage, manifests, function, weigh
    )
    for number, rows in engine.map(work, progress):
        snapshots = metadata.users[manifests[number].claim.id]
        for row in order[rows].tolist():
            users[row].update(snapshots)
    return users


def find_decidable(
    repository: Repository,
    history: History,
    metadata: Metadata,
    lost_manifests: int,
    report: Report,
) -> tuple[frozenset[ObjectKind], str | None]:
    """The kinds of which it is known what is needed, and why the others are not looked at.

    A file that cannot be read may need any other.
    """
    undecided: set[ObjectKind] = set()
    reasons: list[str] = []
    if not repository.lists_snapshots and any(
        problem.rule is rules.REPO_UNREADABLE for problem, _ in report.problems
    ):
        undecided.update(ObjectKind)
        reasons.append("a ref cannot be read")
    lost_snapshots = len(history.parents.keys() - metadata.snapshots)
    if lost_snapshots:
        undecided |= {ObjectKind.MANIFEST, ObjectKind.CHUNK}
        if not repository.lists_snapshots:  # it names its parent
            undecided |= {ObjectKind.SNAPSHOT, ObjectKind.TRANSACTION_LOG}
        reasons.append(_cannot_be_read(lost_snapshots, "snapshot"))
    lost_manifests += len(metadata.uses.keys() - metadata.claims.keys())
    if lost_manifests:
        undecided.add(ObjectKind.CHUNK)
        reasons.append(_cannot_be_read(lost_manifests, "manifest"))
    if not undecided:
        return frozenset(ObjectKind), None
    directories = " and ".join(f"{kind.directory}/" for kind in ObjectKind if kind in undecided)
    why = " and ".join(reasons)
    return (
        frozenset(ObjectKind) - undecided,
        f"unreferenced objects in {directories} were not looked for, since {why}",
    )


def _cannot_be_read(count: int, kind: str) -> str:
    return f"1 {kind} cannot be read" if count == 1 else f"{count:,} {kind}s cannot be read"


def _check_other_orphans(
    repository: Repository,
    history: History,
    metadata: Metadata,
    orphans_of: Collection[ObjectKind],
    report: Report,
    progress: Progress,
) -> None:
    """Of every kind but chunks."""
    needed: dict[ObjectKind, IdSet] = {
        ObjectKind.SNAPSHOT: id_set(history.parents),
        ObjectKind.TRANSACTION_LOG: id_set(metadata.logs),
        ObjectKind.MANIFEST: id_set(metadata.claims.keys() | metadata.uses.keys()),
    }
    for kind, ids in needed.items():
        listed = _list(repository, kind, progress)
        if kind in orphans_of:
            orphans = listed.ids[~ids.contains(listed.ids)]
            _report_orphans(kind, len(orphans), orphans, report)
        _report_foreign(kind, len(listed.foreign), listed.foreign, report)


def _report_orphans(kind: ObjectKind, count: int, first: IdSet, report: Report) -> None:
    """`first`, in order, begins with those that are shown."""
    if count:
        names = first[np.arange(min(SHOWN_NAMES, len(first)))].to_names()
        report.add(Problem(rules.ORPHANS, f"{kind.directory}/", _shown(count, names)))


def _report_foreign(kind: ObjectKind, count: int, paths: Iterable[str], report: Report) -> None:
    if count:
        names = [path.partition("/")[2] for path in sorted(paths)[:SHOWN_NAMES]]
        report.add(Problem(rules.FOREIGN, f"{kind.directory}/", _shown(count, names)))


def _shown(count: int, names: Iterable[str]) -> str:
    return f"{count:,} of them: {', '.join(names)}" + (", ..." if count > SHOWN_NAMES else "")


def _list(repository: Repository, kind: ObjectKind, progress: Progress) -> Listing:
    with progress.phase(f"listing {kind.directory}", None, "objects") as counter:
        return read_listing(repository.storage, kind, progress, counter)


MOST_MANIFESTS = 1000
"""That are read again to find coordinates."""
MOST_COORDINATES = 100
"""Of one chunk file, which is mostly one chunk; a reindexed array can use it several times."""


def add_coordinates(
    repository: Repository, metadata: Metadata, report: Report, progress: Progress
) -> None:
    """Complete the problems of chunk files, as far as their arrays are known."""
    prefix = ObjectKind.CHUNK.path("")
    lost: dict[ChunkId, list[int]] = {}
    paths: set[str] = set()
    for row, (problem, _) in enumerate(report.problems):
        if problem.object.startswith(prefix) and problem.path is not None:
            try:
                chunk_id = ChunkId.parse(problem.object.removeprefix(prefix))
            except ValueError:
                continue
            lost.setdefault(chunk_id, []).append(row)
            paths.add(problem.path)
    if not lost:
        return
    # Sorted, like the rows of the set.
    ordered = sorted(lost)
    ids = id_set(ordered)
    found: dict[ChunkId, set[tuple[int, ...]]] = defaultdict(set)
    manifests = _manifests_of(metadata, paths)
    with progress.phase("locating lost chunks", len(manifests)) as counter:
        for manifest_id in manifests:
            counter.advance()
            try:
                manifest = repository.read_manifest(manifest_id)
            except (ObjectNotFoundError, *UNREADABLE):
                continue
            for array in manifest.arrays:
                native = (array.refs.kind == RefKind.NATIVE).nonzero()[0]
                places = ids.find(id_columns(array.refs.chunk_id[native]))
                for hit in (places >= 0).nonzero()[0].tolist():
                    row = array.refs.coordinates[native[hit]].tolist()
                    found[ordered[int(places[hit])]].add(tuple(row))
    for chunk_id, rows in lost.items():
        coordinates = tuple(sorted(found[chunk_id])[:MOST_COORDINATES])
        for row in rows:
            problem, snapshots = report.problems[row]
            report.problems[row] = replace(problem, chunks=coordinates), snapshots


def _manifests_of(metadata: Metadata, paths: set[str]) -> list[ManifestId]:
    """Those of the arrays that are, or were, at one of these paths."""
    nodes: set[NodeId] = {
        use.node_id for uses in metadata.uses.values() for use in uses if use.path in paths
    }
    return [
        manifest_id
        for manifest_id, uses in metadata.uses.items()
        if any(use.node_id in nodes for use in uses)
    ][:MOST_MANIFESTS]
