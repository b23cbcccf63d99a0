"""Open a repository of any generation.

V2 is one read of `repo`. Before V2 there are ref files, and the payload of the snapshot that they
lead to shows the generation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icectl.errors import (
    FormatError,
    Hint,
    IcectlError,
    ObjectNotFoundError,
    Remedy,
    RepositoryNotFoundError,
    StorageError,
)
from icectl.format.envelope import Generation, decode_envelope
from icectl.format.repo import decode_repo
from icectl.model.ids import SnapshotId, find_by_prefix
from icectl.model.repo import RepoInfo
from icectl.repository.backups import describe_backups
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.layout import DRAFT, STANDARD, Layout
from icectl.repository.ops_log import BACKUPS, REPO_PATH, read_repo_file
from icectl.repository.ref_files import REF_FILE, read_ref_names, read_refs
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.repository.update import FoundRepo

logger = logging.getLogger(__name__)

_REMAINS = {BACKUPS, STANDARD.snapshots}
"""Directories that only a repository has."""


def open_repository(
    storage: Storage,
    *,
    for_update: bool = False,
    with_clock: bool = False,
    ignore_cut_uploads: bool = False,
) -> Repository:
    """The newest state of the repository; `RepositoryNotFoundError` if there is none.

    `for_update` saves the caller's change to `repo` the request that reads it again, `with_clock`
    the time that a following `read_clock` of an object store takes. With `ignore_cut_uploads`, an
    empty ref file, or an empty `repo` without backups, counts as missing: some servers, such as
    seaweedfs, store an empty object when a client is killed during an upload.
    """
    found = None
    try:
        if for_update:
            from icectl.repository.update import FoundRepo

            found = FoundRepo(storage)
            data = found.bytes.data
        elif with_clock:
            data = storage.read_versioned(REPO_PATH).data
        else:
            data = storage.read(REPO_PATH)
    except ObjectNotFoundError:
        return _open_ref_files(storage, ignore_empty=ignore_cut_uploads)
    if ignore_cut_uploads and not data and BACKUPS not in storage.list_directories(""):
        raise _not_found(storage)
    try:
        repository = repository_at(storage, decode_repo(data), found, len(data))
    except FormatError as error:
        error.hint = error.hint or describe_backups(storage)
        raise error.at(REPO_PATH) from None
    return _logged(repository)


def has_changed(repository: Repository) -> bool:
    """Whether there is a newer state that can be read."""
    try:
        newest = open_repository(repository.storage)
    except IcectlError:
        return False
    return (newest.info, newest.branches(), newest.tags()) != (
        repository.info,
        repository.branches(),
        repository.tags(),
    )


@dataclass(frozen=True, slots=True)
class Names:
    """What a user may type for a version."""

    branches: Collection[str]
    tags: Collection[str]
    find_snapshots: Callable[[str], Iterable[SnapshotId]]
    """The ids that begin with a prefix; before V2 none, which would have to be listed."""


def read_names(storage: Storage) -> Names:
    """The names in the newest state; the rest of `repo` is not decoded."""
    try:
        file = read_repo_file(storage)
    except ObjectNotFoundError:
        repository = _open_ref_files(storage)
        return Names(repository.branches(), repository.tags(), lambda _prefix: ())
    return Names(
        file.branch_names,
        file.tag_names,
        lambda prefix: find_by_prefix(file.read_snapshot_ids(), prefix),
    )


def _logged(repository: Repository) -> Repository:
    logger.info(
        "repository: %s, spec version %d, branches: %d, tags: %d%s",
        repository.generation,
        repository.spec_version,
        len(repository.branch_tips),
        len(repository.tag_targets),
        "" if repository.info is None else f", snapshots: {len(repository.info.snapshots)}",
    )
    return repository


def repository_at(
    storage: Storage,
    info: RepoInfo,
    found: FoundRepo | None = None,
    repo_size_bytes: int | None = None,
) -> Repository:
    """The repository (V2) in the state of this repo info file, a backup's for example."""
    return Repository(
        storage=storage,
        generation=Generation.V2,
        layout=STANDARD,
        spec_version=info.spec_version,
        info=info,
        branch_tips={ref.name: ref.snapshot_id for ref in info.branches},
        tag_targets={ref.name: ref.snapshot_id for ref in info.tags},
        deleted_tag_names=info.deleted_tags,
        found=found,
        repo_size_bytes=repo_size_bytes,
    )


def _open_ref_files(storage: Storage, *, ignore_empty: bool = False) -> Repository:
    missing: set[str] = set()
    while True:
        for layout in (STANDARD, DRAFT):
            names = read_ref_names(storage, layout)
            if names.branches:
                break
        else:
            raise _not_found(storage)
        try:
            refs = read_refs(storage, names, ignore_empty=ignore_empty)
            break
        except ObjectNotFoundError as error:
            # Deleted since it was listed; unless it is listed once more.
            if error.path in missing:
                raise
            missing.add(error.path)
    if not refs.branches:
        raise _not_found(storage)
    branch = DEFAULT_BRANCH if DEFAULT_BRANCH in refs.branches else min(refs.branches)
    numbered = not names.branches[branch].endswith(f"/{REF_FILE}")
    return _logged(
        Repository(
            storage=storage,
            generation=_read_generation(storage, layout, refs.branches[branch], numbered),
            layout=layout,
            spec_version=1,
            info=None,
            branch_tips=refs.branches,
            tag_targets=refs.tags,
            deleted_tag_names=tuple(sorted(names.deleted_tags, key=str.encode)),
        )
    )


def _read_generation(
    storage: Storage, layout: Layout, tip: SnapshotId, numbered: bool
) -> Generation:
    try:
        return decode_envelope(storage.read(layout.snapshot(tip))).generation
    except (StorageError, FormatError):
        # The snapshot is missing or damaged; its refs can still be listed.
        return Generation.ALPHA_BINARY if numbered else Generation.V1


def _not_found(storage: Storage) -> RepositoryNotFoundError:
    location = storage.location
    message = f"there is no repository at {location}"
    hint: Hint | None
    try:
        there = set(storage.list_directories(""))
    except StorageError as error:
        return RepositoryNotFoundError(message, hint=error.message)
    if not there.isdisjoint(_REMAINS):
        hint = describe_backups(storage)
        if hint is not None:
            message += f": its file `{REPO_PATH}` is missing"
        else:
            message += f": it has {', '.join(sorted(there & _REMAINS))}, but neither "
            message += f"`{REPO_PATH}` nor refs"
            hint = Remedy("restore-or-finish-init", {"location": location})
        return RepositoryNotFoundError(message, hint=hint, has_remains=True)
    if there:
        hint = f"it has {', '.join(sorted(there)[:5])}; is the repository further down?"
    elif "//" in (place := location.partition("://")[2]):
        scheme = location.removesuffix(place)
        hint = f"its keys begin with /; write {scheme}{place.replace('//', '/')} for those without"
    elif storage.is_bucket_root:
        hint = Remedy("create-below", {"location": f"{location}/repository"})
    else:
        hint = Remedy("create-repository", {"location": location})
    return RepositoryNotFoundError(message, hint=hint)
