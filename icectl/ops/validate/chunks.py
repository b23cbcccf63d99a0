"""The level `chunks`: every native chunk file, by listing, and what no version needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from icectl.checks import rules
from icectl.checks.listing import wrong_chunk_size
from icectl.checks.problem import UNREADABLE, Problem
from icectl.errors import ObjectNotFoundError
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import ChunkRefs, Manifest, RefKind
from icectl.ops.stats.distinct import Column, Distinct
from icectl.ops.validate.findings import Report
from icectl.ops.validate.metadata import Metadata
from icectl.pipeline.id_columns import IdSet, id_columns, id_set, sort_order
from icectl.pipeline.listings import Listing, read_candidates, read_listing
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.history import History
from icectl.repository.repository import Repository

SHOWN_NAMES = 3


@dataclass(slots=True)
class NeededChunks:
    """Collects the native references of all manifests, each chunk file once."""

    repository: Repository
    metadata: Metadata
    _distinct: Distinct = field(
        default_factory=lambda: Distinct(
            ("high", "low"),
            {
                "end": np.maximum,
                "manifest": np.minimum,
                "array": None,
                "offset": None,
                "length": None,
            },
        )
    )
    manifests: list[ManifestId] = field(default_factory=list)
    arrays: dict[bytes, int] = field(default_factory=dict)
    """Numbers of the arrays that chunks belong to."""
    has_long_ids: bool = False
    """Early generations have ids of 16 bytes, which are not looked for."""

    def add(self, manifest: Manifest) -> None:
        number = len(self.manifests)
        self.manifests.append(manifest.id)
        for array in manifest.arrays:
            refs = array.refs
            if refs.chunk_id.shape[1] != 12:
                self.has_long_ids |= bool((refs.kind == RefKind.NATIVE).any())
                continue
            place = self.arrays.setdefault(array.node_id, len(self.arrays))
            columns = native_columns(refs)
            rows = len(columns["high"])
            columns["manifest"] = np.full(rows, number, np.int32)
            columns["array"] = np.full(rows, place, np.int32)
            self._distinct.add(columns)

    def columns(self) -> tuple[IdSet, dict[str, Column]]:
        """The ids in ascending order, and the other columns beside them."""
        columns = self._distinct.compact()
        ids = IdSet(columns["high"].astype(np.uint64), columns["low"].astype(np.uint32))
        order = sort_order(ids)
        return ids[order], {name: column[order] for name, column in columns.items()}

    def node_path(self, array: int) -> str | None:
        node = self.metadata.arrays.get(NodeId(list(self.arrays)[array]))
        return None if node is None else node.path

    def users(self, manifest_number: int) -> Collection[SnapshotId]:
        return self.metadata.users[self.manifests[manifest_number]]


def native_columns(refs: ChunkRefs) -> dict[str, Column]:
    """The chunk files that the references need, and which bytes of each."""
    rows = np.flatnonzero(refs.kind == RefKind.NATIVE)
    ids = id_columns(refs.chunk_id[rows])
    offset, length = refs.offset[rows], refs.length[rows]
    end = offset + length
    return {
        "high": ids.high,
        "low": ids.low,
        "end": np.where(end < offset, np.uint64(2**64 - 1), end),
        "offset": offset,
        "length": length,
    }


def check_chunks(
    repository: Repository,
    history: History,
    needed: NeededChunks,
    report: Report,
    progress: Progress,
) -> int:
    """How many chunk files were looked at."""
    ids, columns = needed.columns()
    listing = _list(repository, ObjectKind.CHUNK, progress)
    rows = listing.ids.find(ids)
    present = rows >= 0
    found = read_candidates(repository.storage, listing, rows[present], progress)
    places = ids.find(found.ids)
    size = np.zeros(len(ids), np.uint64)
    size[places] = found.size.astype(np.uint64)
    gone = np.ones(len(ids), np.bool_)
    gone[places] = False
    end = columns["end"]
    bad = np.flatnonzero(gone | (size != end))
    names = ids[bad].to_names()
    every_user = _users(needed, ids[bad], columns["manifest"][bad].tolist())
    for name, row, users in zip(names, bad.tolist(), every_user, strict=True):
        node = needed.node_path(int(columns["array"][row]))
        told = None if gone[row] else int(size[row])
        problem = wrong_chunk_size(ObjectKind.CHUNK.path(name), told, int(end[row]), node)
        if told is None:
            report.missing.append(problem.object)
        report.add(problem, users)
    if history.whole:
        orphans = listing.ids[~ids.contains(listing.ids)]
        report_orphans(ObjectKind.CHUNK, len(orphans), orphans, report)
        report_foreign(ObjectKind.CHUNK, len(listing.foreign), listing.foreign, report)
        check_other_orphans(repository, needed.metadata, report, progress)
    return len(found)


def _users(needed: NeededChunks, chunks: IdSet, manifests: Iterable[int]) -> list[set[SnapshotId]]:
    """The snapshots that lead to each of the chunks, of which one manifest each is known;
    reads the manifests again for that."""
    users = [set(needed.users(number)) for number in manifests]
    if not users:
        return users
    for manifest_id in needed.manifests:
        try:
            manifest = needed.repository.read_manifest(manifest_id)
        except (ObjectNotFoundError, *UNREADABLE):
            continue  # collected by somebody meanwhile
        for array in manifest.arrays:
            native = array.refs.chunk_id[array.refs.kind == RefKind.NATIVE]
            for row in np.unique(chunks.find(id_columns(native))).tolist():
                if row >= 0:
                    users[row].update(needed.metadata.users[manifest_id])
    return users


def check_other_orphans(
    repository: Repository, metadata: Metadata, report: Report, progress: Progress
) -> None:
    """Of every kind but chunks."""
    needed: dict[ObjectKind, IdSet] = {
        ObjectKind.SNAPSHOT: id_set(metadata.snapshots),
        ObjectKind.TRANSACTION_LOG: id_set(metadata.logs),
        ObjectKind.MANIFEST: id_set(metadata.claims),
    }
    for kind, ids in needed.items():
        listed = _list(repository, kind, progress)
        orphans = listed.ids[~ids.contains(listed.ids)]
        report_orphans(kind, len(orphans), orphans, report)
        report_foreign(kind, len(listed.foreign), listed.foreign, report)


def report_orphans(kind: ObjectKind, count: int, first: IdSet, report: Report) -> None:
    """`first`, in order, begins with those that are shown."""
    if count:
        names = first[np.arange(min(SHOWN_NAMES, len(first)))].to_names()
        report.add(Problem(rules.ORPHANS, f"{kind.directory}/", _shown(count, names)))


def report_foreign(kind: ObjectKind, count: int, paths: Iterable[str], report: Report) -> None:
    if count:
        names = [path.partition("/")[2] for path in sorted(paths)[:SHOWN_NAMES]]
        report.add(Problem(rules.FOREIGN, f"{kind.directory}/", _shown(count, names)))


def _shown(count: int, names: Iterable[str]) -> str:
    return f"{count:,} of them: {', '.join(names)}" + (", ..." if count > SHOWN_NAMES else "")


def _list(repository: Repository, kind: ObjectKind, progress: Progress) -> Listing:
    with progress.phase(f"listing {kind.directory}", None, "objects") as counter:
        return read_listing(repository.storage, kind, progress, counter)
