"""The level `manifests`: every manifest once, and the chunks that commits changed without logging.

Manifests are read in the order in which commits changed them, so that the comparison of a
snapshot with its parent finds both in memory; those that no comparison needs come last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from icectl.checks import rules
from icectl.checks.decoding import check_inline
from icectl.checks.manifest import ArrayUse, ManifestClaim, check_manifest, check_manifest_size
from icectl.checks.problem import UNREADABLE, Problem, unreadable
from icectl.errors import FormatError, ObjectNotFoundError, StorageError
from icectl.model.ids import ManifestId, NodeId
from icectl.model.manifest import Manifest, RefKind
from icectl.model.snapshot import ArrayNodeData
from icectl.ops.diff.chunks import ManifestSource, read_chunk_changes
from icectl.ops.diff.result import ArrayPair, ChunkChanges, NodeDiff
from icectl.ops.validate.metadata import (
    ChangedArrays,
    Metadata,
    collect_logged,
    missing_manifest,
)
from icectl.ops.validate.report import CheckedCounts, Report
from icectl.ops.validate.virtual import SourceUse, find_sources
from icectl.pipeline.chunk_data import chunk_rows
from icectl.pipeline.coordinates import CoordinateSet, coordinate_keys
from icectl.pipeline.engine import REFERENCES, Rows
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.read_ahead import read_in_order
from icectl.repository.containers import Containers
from icectl.repository.layout import Layout
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

REFERENCES_REMEMBERED = 1_000_000
"""Of manifests that the next comparison may need again."""
FEW_REFERENCES = 64
LONGEST_WAIT_SECONDS = 60.0
"""For another thread, which may have been cancelled."""


@dataclass(frozen=True, slots=True)
class ManifestItem:
    """A manifest to check."""

    number: int
    claim: ManifestClaim
    uses: Collection[ArrayUse]


@dataclass(frozen=True, slots=True)
class CommitItem:
    """A commit whose changes are compared with its logs."""

    number: int
    changed: ChangedArrays
    claims: Mapping[ManifestId, ManifestClaim]
    """Of the manifests of both sides."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Manifests that one thread or task reads, and then the commit that changed them."""

    manifests: Sequence[ManifestItem]
    commit: CommitItem | None = None


@dataclass(frozen=True, slots=True)
class ManifestNote:
    number: int
    num_chunk_refs: int | None
    """None if the manifest cannot be read."""
    problems: list[Problem]
    has_long_ids: bool
    """Early generations have ids of 16 bytes, which are not looked for."""
    sources: list[SourceUse]
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class CommitNote:
    number: int
    problems: list[Problem]


def manifest_items(metadata: Metadata) -> list[ManifestItem]:
    """By number."""
    return [
        ManifestItem(number, claim, metadata.uses.get(manifest_id, ()))
        for number, (manifest_id, claim) in enumerate(metadata.claims.items())
    ]


def ordered_batches(metadata: Metadata, manifests: Iterable[ManifestItem]) -> list[Batch]:
    left = {item.claim.id: item for item in manifests}
    batches: list[Batch] = []
    for number, changed in enumerate(metadata.changes):
        needed = [id_ for id_ in manifests_of(changed.arrays) if id_ in metadata.claims]
        new = [left.pop(id_) for id_ in needed if id_ in left]
        commit = CommitItem(number, changed, {id_: metadata.claims[id_] for id_ in needed})
        # Many at once are a job for many threads.
        batches += (Batch([item]) for item in new[1:])
        batches.append(Batch(new[:1], commit))
    return [*batches, *(Batch([item]) for item in left.values())]


def weigh(item: ManifestItem) -> tuple[int, int]:
    return item.claim.size_bytes, item.claim.num_chunk_refs


def weigh_batch(batch: Batch) -> tuple[int, int]:
    """The other manifests of the commit are read for their own batches."""
    weights = [*map(weigh, batch.manifests)]
    return sum(size for size, _ in weights), sum(count for _, count in weights)


class ManifestCache:
    """The manifests that were read last; starts empty when it is pickled."""

    def __init__(self) -> None:
        self._found: OrderedDict[ManifestId, Future[Manifest | None]] = OrderedDict()
        self._num_refs: dict[ManifestId, int] = {}
        self._held = 0
        """The sum of these."""
        self._expected: set[ManifestId] = set()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ManifestCache, ()

    def expect(self, manifest_ids: Iterable[ManifestId]) -> None:
        """Let `read` wait for the `fill` of these, which other threads begin earlier."""
        self._expected.update(manifest_ids)

    def read(self, manifest_id: ManifestId, read: Callable[[], Manifest | None]) -> Manifest | None:
        """The manifest, which another thread may be reading at the moment."""
        with self._lock:
            future = self._found.get(manifest_id)
            if future is not None:
                self._found.move_to_end(manifest_id)
            elif manifest_id in self._expected:
                future = self._found[manifest_id] = Future()
        if future is None:
            return self.fill(manifest_id, read)
        try:
            return future.result(LONGEST_WAIT_SECONDS)
        except TimeoutError:
            return read()

    def fill(self, manifest_id: ManifestId, read: Callable[[], Manifest | None]) -> Manifest | None:
        with self._lock:
            future = self._found.pop(manifest_id, None)
            if future is None or future.done():
                future = Future()
            self._found[manifest_id] = future
            self._expected.discard(manifest_id)
        try:
            manifest = read()
        except BaseException as error:
            future.set_exception(error)
            raise
        future.set_result(manifest)
        with self._lock:
            self._held -= self._num_refs.get(manifest_id, 0)
            self._num_refs[manifest_id] = 0 if manifest is None else manifest.num_chunk_refs
            self._held += self._num_refs[manifest_id]
            while len(self._num_refs) > 1 and self._held > REFERENCES_REMEMBERED:
                self._drop_oldest()
        return manifest

    def _drop_oldest(self) -> None:
        oldest = next(id_ for id_ in self._found if id_ in self._num_refs)
        del self._found[oldest]
        self._held -= self._num_refs.pop(oldest)


class FilesInOrder:
    """Files that are taken in a known order, and read ahead."""

    def __init__(self, storage: Storage, paths: Iterable[str]) -> None:
        self._files = read_in_order(storage, paths)

    def read(self, path: str) -> bytes:
        found, data = next(self._files)
        if found != path:
            raise AssertionError(f"{path} was taken instead of {found}")
        if isinstance(data, StorageError):
            raise data
        return data


@dataclass(frozen=True, slots=True)
class CheckManifests:
    """Checks manifests and commits; yields notes and the references to chunks."""

    repository: Repository
    arrays: dict[NodeId, int]
    """The number of each array."""
    with_references: bool
    containers: Containers | None
    """Given if the sources of virtual chunks are wanted."""
    files: FilesInOrder | None = None
    """Read ahead, in the order of the manifests; given if one thread takes them all."""
    cache: ManifestCache = field(default_factory=ManifestCache)

    def __call__(self, batches: Sequence[Batch]) -> Iterator[Any]:
        for batch in batches:
            for item in batch.manifests:
                yield from self._check_manifest(item)
            if batch.commit is not None:
                commit = batch.commit
                problems = find_unlogged(self.repository, self, commit.changed, commit.claims)
                yield CommitNote(commit.number, list(problems))

    def _check_manifest(self, item: ManifestItem) -> Iterator[Any]:
        problems: list[Problem] = []
        is_missing = False

        def read() -> Manifest | None:
            nonlocal is_missing
            try:
                return self._read_and_check(item, problems)
            except ObjectNotFoundError:
                is_missing = True
                return None

        manifest = self.cache.fill(item.claim.id, read)
        if manifest is None:
            yield ManifestNote(item.number, None, problems, False, [], is_missing)
            return
        has_long_ids = False
        for array in manifest.arrays if self.with_references else ():
            if array.refs.chunk_id.shape[1] != 12:
                has_long_ids |= bool((array.refs.kind == RefKind.NATIVE).any())
            else:
                number = self.arrays.get(array.node_id, -1)
                yield Rows(REFERENCES, chunk_rows(array.refs, item.number, number))
        sources = [] if self.containers is None else find_sources(manifest, self.containers)
        yield ManifestNote(item.number, manifest.num_chunk_refs, problems, has_long_ids, sources)

    def _read_and_check(self, item: ManifestItem, problems: list[Problem]) -> Manifest | None:
        repository, claim = self.repository, item.claim
        manifest: Manifest | None
        try:
            if not repository.is_writable:
                manifest = repository.read_manifest(claim.id)
            else:
                read = repository.storage.read if self.files is None else self.files.read
                data = read(claim.path)
                problems += check_manifest_size(claim, len(data))
                manifest, found = check_manifest(data, claim, item.uses)
                problems += found
        except UNREADABLE as error:
            problems.append(unreadable(rules.MANIFEST_UNREADABLE, claim.path, error))
            return None
        if manifest is not None:
            problems += check_inline(manifest, claim.path, item.uses)
        return manifest

    def read_manifest(self, manifest_id: ManifestId) -> Manifest:
        """A manifest for the comparison of a commit; `FormatError` if it cannot be read."""
        manifest = self.cache.read(manifest_id, lambda: self._read_or_none(manifest_id))
        if manifest is None:
            raise FormatError("the manifest cannot be read")
        return manifest

    def _read_or_none(self, manifest_id: ManifestId) -> Manifest | None:
        try:
            return self.repository.read_manifest(manifest_id)
        except (ObjectNotFoundError, *UNREADABLE):
            return None


def report_notes(
    notes: Iterable[Any], metadata: Metadata, layout: Layout, report: Report
) -> CheckedCounts:
    """Report the problems in the notes; return the number of manifests and references."""
    manifests = list(metadata.claims)
    left = set(manifests)
    num_manifests = num_chunk_refs = 0
    for note in notes:
        if isinstance(note, CommitNote):
            report.extend(note.problems, (metadata.changes[note.number].snapshot_id,))
            continue
        manifest_id = manifests[note.number]
        left.discard(manifest_id)
        users = metadata.users[manifest_id]
        report.extend(note.problems, users)
        if note.is_missing:
            report.add(missing_manifest(layout.manifest(manifest_id), users), users)
        if note.num_chunk_refs is not None:
            num_manifests += 1
            num_chunk_refs += note.num_chunk_refs
    if left:  # for whatever reason: a check that skipped something must not pass
        raise FormatError(f"{len(left)} manifests were not checked, such as {min(left)}")
    return CheckedCounts(manifests=num_manifests, chunk_refs=num_chunk_refs)


def find_unlogged(
    repository: Repository,
    manifests: ManifestSource,
    changed: ChangedArrays,
    claims: Mapping[ManifestId, ManifestClaim],
) -> Iterator[Problem]:
    """Arrays with a chunk that differs from the parent's and is not in the logs between them."""
    arrays = tuple(pair for pair in changed.arrays if _is_comparable(pair, claims))
    if not arrays:
        return
    nodes = {pair.path: pair for pair in arrays}
    try:
        logged = _read_logged(repository, changed, {_node(pair) for pair in arrays})
    except ObjectNotFoundError as error:
        # It existed a moment ago; another gc deletes its snapshot as well.
        yield Problem(rules.LOG_MISSING, error.path, "it went during the validation")
        return
    num_chunk_refs = {id_: claims[id_].num_chunk_refs for id_ in manifests_of(arrays)}
    if sum(num_chunk_refs.values()) <= FEW_REFERENCES:
        arrays = tuple(pair for pair in arrays if not _is_all_logged(manifests, pair, logged))
        if not arrays:
            return
    diff = NodeDiff(
        changed.parent_id,
        changed.snapshot_id,
        "content",
        arrays=arrays,
        num_chunk_refs=num_chunk_refs,
    )
    path = ObjectKind.TRANSACTION_LOG.path(changed.snapshot_id)
    try:
        for changes in read_chunk_changes(manifests, diff):
            chunk = _first_unlogged(changes, nodes[changes.path], logged)
            if chunk is not None:
                yield Problem(rules.REFERENCE_UNLOGGED, path, f"the chunk {chunk}", changes.path)
    except FormatError:
        pass  # its own check reports the manifest that cannot be read


def _is_all_logged(
    manifests: ManifestSource, pair: ArrayPair, logged: Mapping[NodeId, CoordinateSet]
) -> bool:
    """Whether the logs record every chunk of both sides, so that it does not matter which differ.

    For a few references this is much faster than a comparison.
    """
    node_id = _node(pair)
    known = {*map(tuple, logged[node_id].rows().tolist())}
    try:
        return all(
            known.issuperset(map(tuple, array.refs.coordinates.tolist()))
            for manifest_id in manifests_of([pair])
            for array in manifests.read_manifest(manifest_id).arrays
            if array.node_id == node_id
        )
    except FormatError:
        return False


def _is_comparable(pair: ArrayPair, claims: Mapping[ManifestId, ManifestClaim]) -> bool:
    """Every manifest is listed, and a reshaped array keeps its number of dimensions."""
    dimensions = {len(data.num_chunks) for data in _sides(pair)}
    return manifests_of([pair]) <= claims.keys() and len(dimensions) == 1


def _sides(pair: ArrayPair) -> list[ArrayNodeData]:
    nodes = [node for node in (pair.before, pair.after) if node is not None]
    return [node.node_data for node in nodes if isinstance(node.node_data, ArrayNodeData)]


def manifests_of(pairs: Iterable[ArrayPair]) -> set[ManifestId]:
    return {ref.object_id for pair in pairs for data in _sides(pair) for ref in data.manifests}


def _node(pair: ArrayPair) -> NodeId:
    assert pair.after is not None
    return pair.after.id


def _read_logged(
    repository: Repository, changed: ChangedArrays, nodes: set[NodeId]
) -> Mapping[NodeId, CoordinateSet]:
    if changed.logged is not None:
        return changed.logged
    return collect_logged(repository.read_transaction_logs(changed.logs), nodes)


def _first_unlogged(
    changes: ChunkChanges, pair: ArrayPair, logged: Mapping[NodeId, CoordinateSet]
) -> list[int] | None:
    """Only chunks inside both grids: a resize removes others without logging them."""
    grids = [data.num_chunks for data in _sides(pair)]
    limit = np.min(np.array(grids, np.uint64).reshape(len(grids), -1), axis=0)
    known = logged[_node(pair)].rows()
    for block in changes.chunks:
        if not len(block):
            continue
        inside = block[(block < limit).all(axis=1)]
        if known.shape == inside.shape and np.array_equal(known, inside):
            continue
        if len(known) and known.shape[1] != block.shape[1]:
            known = known[:0]
        keys, known_keys = coordinate_keys(inside, known)
        missing = np.flatnonzero(~np.isin(keys, known_keys))
        if len(missing):
            row: list[int] = inside[missing[0]].tolist()
            return row
    return None
