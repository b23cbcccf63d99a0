"""Find repositories below a location, by listing directories level by level, and name them.

A repository is recognized by the names in its root, and nothing below it is listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from icectl.errors import FormatError, ObjectNotFoundError, Remedy, StorageError, UnsupportedError
from icectl.format.envelope import HEADER_SIZE, decode_header
from icectl.pipeline.progress import Progress
from icectl.repository.layout import DRAFT, ROOT_DIRECTORIES, STANDARD
from icectl.repository.ops_log import BACKUPS, REPO_PATH
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage
from icectl.storage.paths import join_path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LISTINGS_IN_FLIGHT = 32
_DRAFT_NAMES = {DRAFT.refs, DRAFT.snapshots, DRAFT.manifests, DRAFT.chunks, DRAFT.attributes}
_ONLY_OF_REPOSITORIES = {STANDARD.snapshots, BACKUPS}
"""Where one of them is, a damaged repo file is that of a repository."""
_MAY_HAVE_REPO = {*_ONLY_OF_REPOSITORIES, STANDARD.refs}
"""Every repository with a repo file has one of them; other directories need no request for it."""


@dataclass(frozen=True, slots=True)
class FoundRepository:
    path: str
    """Relative to the location that was searched; empty for that location itself."""
    spec_version: int | None
    """None if it is a draft of the specification, or the repo file is missing or damaged."""


@dataclass(frozen=True, slots=True)
class SkippedDirectory:
    path: str
    error: StorageError


@dataclass(frozen=True, slots=True)
class Discovery:
    repositories: tuple[FoundRepository, ...]
    """By path."""
    skipped: tuple[SkippedDirectory, ...]
    """Directories that could not be listed."""


@dataclass(frozen=True, slots=True)
class NamedRepository:
    location: str
    name: str
    """One of the known names; for a new repository, a suggestion."""
    spec_version: int | None
    known: bool
    """Whether it had the name before."""
    added: bool = False


@dataclass(frozen=True, slots=True)
class _Visited:
    path: str
    found: FoundRepository | SkippedDirectory | None
    below: tuple[str, ...] = ()


def find_repositories(storage: Storage, depth: int, progress: Progress | None = None) -> Discovery:
    """All repositories at most `depth` levels below the root of the storage."""
    found: list[FoundRepository] = []
    skipped: list[SkippedDirectory] = []
    with (progress or Progress()).phase("looking for repositories", None, "directories") as counter:
        level = [""]
        for _ in range(depth + 1):
            below: list[str] = []
            for visited in _visit_all(storage, level):
                counter.advance()
                if isinstance(visited.found, FoundRepository):
                    found.append(visited.found)
                elif visited.found is not None:
                    skipped.append(visited.found)
                else:
                    below += visited.below
            if not below:
                break
            level = below
    return Discovery(
        tuple(sorted(found, key=lambda one: one.path)),
        tuple(sorted(skipped, key=lambda one: one.path)),
    )


def name_repositories(
    storage: Storage,
    discovery: Discovery,
    known: Mapping[tuple[str, str], str],
    taken: Iterable[str],
) -> list[NamedRepository]:
    """Each repository with its name in `known`, by its identity, or with a new name."""
    used = {*taken}
    named = []
    for one in discovery.repositories:
        location = locate(storage, one.path)
        old = known.get((location, storage.server))
        name = suggest_name(location, used) if old is None else old
        used.add(name)
        named.append(NamedRepository(location, name, one.spec_version, old is not None))
    return named


def locate(storage: Storage, path: str) -> str:
    """The location of a directory below the root of the storage."""
    return f"{storage.location.rstrip('/')}/{path}" if path else storage.location


def identify(storage: Storage) -> tuple[str, str]:
    """The place and the server, which are the same for all names of a repository."""
    location = storage.location
    return location if "://" in location else str(Path(location).resolve()), storage.server


def suggest_name(location: str, taken: Set[str]) -> str:
    """Return a valid name that is not taken: the last part of the location, or its last parts."""
    parts = location.rpartition("://")[2].split("/")
    clean = [re.sub(r"[^A-Za-z0-9._-]+", "-", part) for part in parts if part]
    names = ["-".join(clean[-many:]) for many in range(1, len(clean) + 1)]
    valid = [name for one in names if NAME.fullmatch(name := one.strip("-._"))] or ["repository"]
    numbered = (f"{valid[0]}-{number}" for number in count(2))
    return next(name for name in chain(valid, numbered) if name not in taken)


def _visit_all(storage: Storage, paths: list[str]) -> Iterator[_Visited]:
    if paths == [""] or not storage.is_object_store:
        yield from (_visit(storage, path) for path in paths)
        return
    workers = min(LISTINGS_IN_FLIGHT, len(paths) or 1)
    yield from map_on_threads(
        lambda path: _visit(storage, path), paths, workers=workers, ahead=2 * workers
    )


def _visit(storage: Storage, path: str) -> _Visited:
    """`StorageError` only if the root itself cannot be listed."""
    try:
        names = {*storage.list_directories(path)}
        found = _recognize(storage, path, names)
    except StorageError as error:
        if not path:
            raise
        if isinstance(error.hint, Remedy) and error.hint.name == "follow-links":
            return _Visited(path, None)  # links are not followed
        return _Visited(path, SkippedDirectory(path, error))
    return _Visited(path, found, tuple(sorted(join_path(path, name) for name in names)))


def _recognize(storage: Storage, path: str, names: set[str]) -> FoundRepository | None:
    if names & _MAY_HAVE_REPO and (header := _read_header(storage, path)) is not None:
        spec_version = _read_spec_version(header)
        # Other programs have a directory refs/ as well, and may have a file of this name.
        if spec_version is not None or names & _ONLY_OF_REPOSITORIES:
            return FoundRepository(path, spec_version)
    for marks in ROOT_DIRECTORIES:
        if names.issuperset(marks):
            is_draft = DRAFT.refs in marks
            if not is_draft:
                return FoundRepository(path, 1 if STANDARD.refs in marks else None)
            # Single letters alone could be anything, such as an index.
            if names <= _DRAFT_NAMES:
                return FoundRepository(path, None)
    return None


def _read_header(storage: Storage, path: str) -> bytes | None:
    """The header of the repo file: empty if the file is shorter, None without a file."""
    repo = join_path(path, REPO_PATH)
    try:
        return storage.read_range(repo, 0, HEADER_SIZE)
    except ObjectNotFoundError:
        return None
    except StorageError:
        size = storage.info(repo).size
        if size is None or size >= HEADER_SIZE:
            raise
        return b""


def _read_spec_version(header: bytes) -> int | None:
    try:
        decoded = decode_header(header)
    except (FormatError, UnsupportedError):
        return None
    return None if decoded is None else decoded[0].spec_version
