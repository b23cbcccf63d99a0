"""The level `manifests`: every manifest once, and the chunks that changed beside the logs.

Manifests are read in the order in which commits changed them, so that the comparison of a
snapshot with its parent finds both in memory; those that no comparison needs come after.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from icectl.checks import rules
from icectl.checks.manifest import ArrayUse, ManifestClaim, check_manifest
from icectl.checks.problem import UNREADABLE, Problem, unreadable
from icectl.errors import FormatError, ObjectNotFoundError
from icectl.model.ids import ManifestId, NodeId
from icectl.model.manifest import Manifest
from icectl.model.snapshot import ArrayNodeData
from icectl.ops.diff.chunks import ManifestSource, read_chunk_changes
from icectl.ops.diff.result import ArrayPair, ChunkChanges, NodeDiff
from icectl.ops.validate.decoding import check_inline
from icectl.ops.validate.findings import Report
from icectl.ops.validate.metadata import ChangedArrays, Metadata
from icectl.pipeline.coordinates import CoordinateSet, coordinate_keys
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Counter, Progress
from icectl.pipeline.readers import count_readers
from icectl.repository.repository import Repository
from icectl.storage.bounded import map_on_threads

LOCAL_READERS = 2
REMOTE_READERS = 8
REFERENCES_REMEMBERED = 1_000_000
"""Of manifests that the next comparison may need again."""

Visit = Callable[[Manifest], None]


@dataclass(slots=True)
class CheckedManifests:
    """Reads manifests; each is checked, and shown to `visit`, when it is first read."""

    repository: Repository
    metadata: Metadata
    report: Report
    visit: Visit
    num_manifests: int = 0
    num_chunk_refs: int = 0
    unreadable: set[ManifestId] = field(default_factory=set)
    counter: Counter | None = None
    _done: set[ManifestId] = field(default_factory=set)
    _recent: OrderedDict[ManifestId, Manifest] = field(default_factory=OrderedDict)
    _held: int = 0
    """References in the recent ones."""
    _lock: Lock = field(default_factory=Lock)

    def read_manifest(self, manifest_id: ManifestId) -> Manifest:
        """`FormatError` for one that cannot be read, after it was reported."""
        with self._lock:
            known = self._recent.get(manifest_id)
            if known is not None:
                self._recent.move_to_end(manifest_id)
                return known
        manifest, problems = self._read(manifest_id)
        with self._lock:
            self._note(manifest_id, manifest, problems)
        if manifest is None:
            raise FormatError("the manifest cannot be read")
        return manifest

    def _read(self, manifest_id: ManifestId) -> tuple[Manifest | None, list[Problem]]:
        uses = self.metadata.uses.get(manifest_id, ())
        return read_and_check(self.repository, self.metadata.claims[manifest_id], uses)

    def _note(
        self, manifest_id: ManifestId, manifest: Manifest | None, problems: list[Problem]
    ) -> None:
        if manifest_id not in self._done:
            self._done.add(manifest_id)
            self.report.extend(problems, self.metadata.users[manifest_id])
            if manifest is None:
                self.unreadable.add(manifest_id)
            else:
                self.num_manifests += 1
                self.num_chunk_refs += manifest.num_chunk_refs
                self.visit(manifest)
            if self.counter is not None:
                self.counter.advance()
        if manifest is not None and manifest_id not in self._recent:
            self._recent[manifest_id] = manifest
            self._held += manifest.num_chunk_refs
            while len(self._recent) > 1 and self._held > REFERENCES_REMEMBERED:
                self._held -= self._recent.popitem(last=False)[1].num_chunk_refs

    def read_rest(self) -> None:
        """Those that no comparison needed."""
        rest = [one for one in self.metadata.claims if one not in self._done]
        workers = count_readers(
            self.repository.storage,
            (self.metadata.claims[one].num_chunk_refs for one in rest),
            local=LOCAL_READERS,
            remote=REMOTE_READERS,
            at_once=REFERENCES_REMEMBERED,
        )
        for manifest_id, (manifest, problems) in map_on_threads(
            lambda one: (one, self._read(one)), rest, workers=workers, ahead=workers
        ):
            self._note(manifest_id, manifest, problems)
        left = self.metadata.claims.keys() - self._done
        if left:  # whatever the reason: a check that skipped something must not pass
            raise FormatError(f"{len(left)} manifests were not checked, such as {min(left)}")


def read_and_check(
    repository: Repository, claim: ManifestClaim, uses: Collection[ArrayUse]
) -> tuple[Manifest | None, list[Problem]]:
    manifest: Manifest | None
    problems: list[Problem] = []
    try:
        if repository.is_writable:
            data = repository.storage.read(claim.path)
            manifest, problems = check_manifest(data, claim, uses)
        else:
            manifest = repository.read_manifest(claim.id)
    except ObjectNotFoundError:
        return None, []  # told by the listing
    except UNREADABLE as error:
        return None, [unreadable(rules.MANIFEST_UNREADABLE, claim.path, error)]
    if manifest is not None:
        problems += check_inline(manifest, claim.path, uses)
    return manifest, problems


def check_manifests(
    repository: Repository, metadata: Metadata, report: Report, progress: Progress, visit: Visit
) -> CheckedManifests:
    checked = CheckedManifests(repository, metadata, report, visit)
    with progress.phase("reading manifests", len(metadata.claims)) as counter:
        checked.counter = counter
        for changed in metadata.changes:
            _check_logged(repository, metadata, checked, changed)
        checked.read_rest()
    return checked


def _check_logged(
    repository: Repository, metadata: Metadata, checked: CheckedManifests, changed: ChangedArrays
) -> None:
    for problem in find_unlogged(repository, checked, changed, metadata.claims):
        checked.report.add(problem, (changed.snapshot_id,))


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
        # It was there a moment ago; somebody's gc takes its snapshot as well.
        yield Problem(rules.LOG_MISSING, error.path, "it went during the validation")
        return
    diff = NodeDiff(
        changed.parent_id,
        changed.snapshot_id,
        "content",
        arrays=arrays,
        num_chunk_refs={id_: claims[id_].num_chunk_refs for id_ in manifests_of(arrays)},
    )
    path = ObjectKind.TRANSACTION_LOG.path(changed.snapshot_id)
    try:
        for changes in read_chunk_changes(manifests, diff):
            chunk = _first_unlogged(changes, nodes[changes.path], logged)
            if chunk is not None:
                yield Problem(rules.REFERENCE_UNLOGGED, path, f"the chunk {chunk}", changes.path)
    except FormatError:
        pass  # the manifest that cannot be read has been told


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
) -> dict[NodeId, CoordinateSet]:
    logged = {node_id: CoordinateSet() for node_id in nodes}
    for log_id in changed.logs:
        for array in repository.read_transaction_log(log_id).updated_chunks:
            if array.node_id in logged:
                logged[array.node_id].add(array.chunks)
    return logged


def _first_unlogged(
    changes: ChunkChanges, pair: ArrayPair, logged: dict[NodeId, CoordinateSet]
) -> list[int] | None:
    """Only chunks inside both grids: a resize takes others away without a word."""
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
