"""The sources of virtual chunks: there, long enough, and unchanged since they were referred to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote

import numpy as np

from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.checks.rules import Rule
from icectl.errors import FormatError, Hint, IcectlError, ObjectNotFoundError, Remedy, UsageError
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.manifest import ChunkRefs, Manifest
from icectl.model.redaction import has_userinfo, redact_location
from icectl.ops.validate.metadata import Metadata
from icectl.ops.validate.report import Report
from icectl.pipeline.locations import NumberedLocations, number_locations
from icectl.pipeline.progress import Progress
from icectl.pipeline.reference_changes import same_spans
from icectl.repository.containers import RELATIVE, Containers, split_location
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import ObjectInfo, Storage
from icectl.storage.open import split_location as split_scheme

READERS = 16
USERS_REMEMBERED = 16
"""Neighbouring sources are mostly referred to by the same manifests."""
OpenStorage = Callable[[str], Storage]
"""Opens the root that a URL names."""


@dataclass(slots=True)
class SourceUse:
    """What the references of one array in a manifest say about one file."""

    location: str
    """Absolute; a relative one stays where no container has its name."""
    end: int
    num_chunks: int
    etags: set[str] = field(default_factory=set)
    last_modified: int | None = None
    """Seconds since 1970; the oldest that a reference has."""


@dataclass(slots=True)
class Source:
    """What all references say about one file."""

    manifests: int = 0
    """A bit for each that refers to it: with many versions, sets would need much more."""
    end: int = 0
    etags: set[str] = field(default_factory=set)
    last_modified: int | None = None
    num_chunks: int = 0


@dataclass(slots=True)
class Sources:
    containers: Containers
    found: dict[str, Source] = field(default_factory=dict)
    """By location."""
    manifests: list[ManifestId] = field(default_factory=list)
    """By the numbers of their bits."""

    def add(self, manifest_id: ManifestId, uses: Iterable[SourceUse]) -> None:
        bit = 1 << len(self.manifests)
        self.manifests.append(manifest_id)
        for use in uses:
            source = self.found.setdefault(use.location, Source())
            source.manifests |= bit
            source.end = max(source.end, use.end)
            source.num_chunks += use.num_chunks
            source.etags |= use.etags
            if use.last_modified is not None:
                source.last_modified = min(
                    source.last_modified or use.last_modified, use.last_modified
                )

    def users(self, manifests: int, metadata: Metadata) -> set[SnapshotId]:
        """The snapshots that lead to one of the manifests."""
        return {
            snapshot_id
            for number, manifest_id in enumerate(self.manifests)
            if manifests >> number & 1
            for snapshot_id in metadata.users[manifest_id]
        }


def find_sources(manifest: Manifest, containers: Containers) -> list[SourceUse]:
    """What a manifest says about files with virtual chunks; a file may occur more than once."""
    found: list[SourceUse] = []
    for array in manifest.arrays:
        try:
            numbered = number_locations(manifest, array.refs)
        except FormatError:
            continue  # the check of the manifest reports it
        if numbered.locations:
            found += _find_array_sources(array.refs, numbered, containers)
    return found


def _find_array_sources(
    refs: ChunkRefs, numbered: NumberedLocations, containers: Containers
) -> list[SourceUse]:
    rows, numbers = numbered.rows, numbered.numbers
    size = len(numbered.locations)
    ends = np.zeros(size, np.uint64)
    np.maximum.at(ends, numbers, refs.offset[rows] + refs.length[rows])
    counts = np.bincount(numbers, minlength=size).tolist()
    sources = [
        SourceUse(containers.resolve(location), end, count)
        for location, end, count in zip(numbered.locations, ends.tolist(), counts, strict=True)
    ]
    if refs.checksum_last_modified is not None:
        times = refs.checksum_last_modified[rows].astype(np.int64)
        oldest = np.full(size, np.iinfo(np.int64).max)
        np.minimum.at(oldest, numbers[times > 0], times[times > 0])
        for source, time in zip(sources, oldest.tolist(), strict=True):
            if time < np.iinfo(np.int64).max:
                source.last_modified = time
    if refs.checksum_etag is not None:
        etags = refs.checksum_etag
        changes = np.ones(len(rows), np.bool_)
        changes[1:] = numbers[1:] != numbers[:-1]
        changes[1:] |= ~same_spans(etags, rows[1:], etags, rows[:-1])
        for row in np.flatnonzero(changes & (etags.start[rows] > 0)).tolist():
            sources[int(numbers[row])].etags.add(etags[int(rows[row])].decode(errors="replace"))
    return sources


@dataclass(slots=True)
class Trust:
    """Which sources are contacted: the locations come from whoever wrote the repository.

    Those that a container covers, except on local disk, and those that the user allows.
    """

    containers: Containers
    allowed: tuple[str, ...]
    """URLs of directories or files."""
    num_uncovered: int = 0
    """Left alone, since no container covers them."""
    num_local: int = 0
    """Left alone, since they are files of this machine."""

    def admit(self, location: str) -> bool:
        """Whether it is contacted; counts those that are not."""
        if not location.startswith(RELATIVE) and self._is_allowed(location):
            return True
        if not self.containers.find(location)[1]:
            self.num_uncovered += 1
            return False
        if _is_local(split_location(location)[0]):
            self.num_local += 1
            return False
        return True

    def _is_allowed(self, location: str) -> bool:
        decoded = unquote(location)
        return any(
            decoded == unquote(prefix) or decoded.startswith(unquote(prefix).rstrip("/") + "/")
            for prefix in self.allowed
        )

    def notes(self) -> Iterator[Hint]:
        for count, reason, source in (
            (self.num_uncovered, "no container covers", "URL"),
            (self.num_local, "the local disk is not trusted for", "file:///DIRECTORY"),
        ):
            if count:
                were, them = ("source was", "it") if count == 1 else ("sources were", "them")
                skipped = f"{count:,} virtual {were} not looked at, since {reason} {them}"
                yield Remedy("allow-source", {"skipped": skipped, "source": source, "them": them})


@lru_cache(USERS_REMEMBERED)
def _is_local(root: str) -> bool:
    try:
        return split_scheme(root)[0] == "file"
    except UsageError:
        return False  # no storage that is known


def check_virtual(
    metadata: Metadata,
    sources: Sources,
    open_storage: OpenStorage,
    trust: Trust,
    report: Report,
    progress: Progress,
    notes: list[Hint],
) -> int:
    """How many sources were looked at, one request each; `notes` gets what could not be."""
    roots: dict[str, Storage | IcectlError] = {}
    located = [one for one in sources.found if trust.admit(one)]
    notes += trust.notes()
    for root in {split_location(location)[0] for location in located}:
        try:
            roots[root] = open_storage(root)
        except IcectlError as error:
            roots[root] = error

    def look(location: str) -> tuple[str, ObjectInfo | IcectlError]:
        if has_userinfo(location):
            # The path may be a part of the password.
            return location, UsageError("the location holds a user name or a password")
        root, path = split_location(location)
        storage = roots[root]
        if isinstance(storage, IcectlError):
            return location, storage
        try:
            return location, storage.info(path)
        except IcectlError as error:
            return location, error

    @lru_cache(USERS_REMEMBERED)
    def users(manifests: int) -> set[SnapshotId]:
        return sources.users(manifests, metadata)

    uncovered: dict[str, int] = {}
    for location, source in sources.found.items():
        prefix, configured = sources.containers.find(location)
        if not configured:
            uncovered[prefix] = uncovered.get(prefix, 0) | source.manifests
    looked = without_etag = 0
    with progress.phase("looking at virtual sources", len(located), "files") as counter:
        for location, found in map_on_threads(look, located, workers=READERS, ahead=4 * READERS):
            counter.advance()
            source = sources.found[location]
            for rule, detail in _judge(source, found):
                where = f"{detail} ({source.num_chunks} references)"
                problem = Problem(rule, redact_location(location), where)
                report.add(problem, users(source.manifests))
            without_etag += (
                isinstance(found, ObjectInfo) and found.etag is None and bool(source.etags)
            )
            looked += not isinstance(found, IcectlError) or isinstance(found, ObjectNotFoundError)
    for prefix, manifests in uncovered.items():
        relative = prefix.startswith(RELATIVE)
        detail = f"no container {'has the name in' if relative else 'covers'} {prefix}"
        report.add(Problem(rules.SOURCE_CONTAINER, prefix, detail), users(manifests))
    if without_etag:
        files = (
            "1 virtual source was"
            if without_etag == 1
            else f"{without_etag:,} virtual sources were"
        )
        notes.append(f"{files} not compared with the stored etag, since the storage tells none")
    return looked


def _judge(source: Source, found: ObjectInfo | IcectlError) -> Iterator[tuple[Rule, str]]:
    if isinstance(found, ObjectNotFoundError):
        yield rules.SOURCE_MISSING, "there is no such file"
        return
    if isinstance(found, IcectlError):
        yield rules.SOURCE_UNCHECKED, found.message
        return
    if found.size is not None and found.size < source.end:
        yield rules.SOURCE_SHORT, f"it has {found.size} bytes, references need {source.end}"
    if found.etag is not None and source.etags:
        others = {etag for etag in source.etags if _bare(etag) != _bare(found.etag)}
        if others:
            yield rules.SOURCE_CHANGED, f"its etag is {found.etag}, references say {min(others)}"
    if source.last_modified is not None and found.created_at is not None:
        seconds = found.created_at // 1_000_000
        if seconds > source.last_modified:
            yield (
                rules.SOURCE_CHANGED,
                f"it was modified {seconds - source.last_modified} s after the stored time",
            )


def _bare(etag: str) -> str:
    return etag.removeprefix("W/").strip('"')
