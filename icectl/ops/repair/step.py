"""The steps of a repair, and the helpers that write files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from icectl.checks.problem import Problem
from icectl.errors import ConflictError, ObjectNotFoundError, PreconditionFailedError
from icectl.model.ids import SnapshotId, encode_base32
from icectl.model.repo import RepoInfo
from icectl.repository.backups import YEAR_3000_MILLISECONDS
from icectl.repository.edits import Edited
from icectl.repository.open import repository_at
from icectl.repository.ops_log import BACKUPS, REPO_PATH
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage, VersionedBytes

SHOWN = 10
"""The number of losses of one kind that a step lists one by one."""

Key = tuple[str, str]
"""The code and the object of a finding."""


@dataclass(frozen=True, slots=True)
class LostArray:
    """Chunks of one array that become fill value."""

    path: str
    num_chunks: int
    chunks: tuple[tuple[int, ...], ...]
    """The coordinates of the first ones."""


@dataclass(frozen=True, slots=True)
class Step:
    """One repair."""

    action: str
    """A stable name."""
    object: str
    summary: str
    """An imperative."""
    apply: Callable[[Storage], None]
    loses: tuple[str, ...] = ()
    mends: frozenset[Key] = frozenset()
    """The findings that are gone after the step."""
    by_name: bool = False
    """Whether the step is executed only if it was asked for by name: it loses data."""
    arrays: tuple[LostArray, ...] = ()
    simulate: Callable[[Repository], Repository] = lambda repository: repository
    """The state after the step."""


def repo_step(
    action: str,
    summary: str,
    edit: Callable[[RepoInfo], Edited],
    *,
    object_: str = REPO_PATH,
    loses: tuple[str, ...] = (),
    mends: Iterable[Key] = (),
    by_name: bool = False,
    whatever_status: bool = False,
    accept_older: bool = False,
) -> Step:
    """A step that is one change of `repo`."""

    def apply(storage: Storage) -> None:
        update_repo(storage, edit, whatever_status=whatever_status, accept_older=accept_older)

    def simulate(repository: Repository) -> Repository:
        assert repository.info is not None
        return repository_at(repository.storage, edit(repository.info)[0])

    return Step(
        action, object_, summary, apply, loses, frozenset(mends), by_name, simulate=simulate
    )


def key_of(problem: Problem) -> Key:
    return problem.rule.code, problem.object


def snapshot_of(object_: str) -> SnapshotId:
    """The id in the path of a snapshot or a transaction log."""
    return SnapshotId.parse(object_.rpartition("/")[2])


def list_some(texts: Iterable[str], what: str) -> tuple[str, ...]:
    """The first texts, and how many more there are."""
    found = list(texts)
    rest = len(found) - SHOWN
    return (*found[:SHOWN], *([f"{rest:,} more {what}"] if rest > 0 else []))


def aside_name(path: str, now: int) -> str:
    """Where a damaged file is copied to: a name in `overwritten/` that no backup has."""
    left = YEAR_3000_MILLISECONDS - now // 1000
    return f"{BACKUPS}/damaged-{path.replace('/', '-')}.{left}.{encode_base32(os.urandom(12))}"


def read_if_there(storage: Storage, path: str) -> VersionedBytes | None:
    try:
        return storage.read_versioned(path)
    except ObjectNotFoundError:
        return None


def put_derived(
    storage: Storage, path: str, data: bytes, is_sound: Callable[[bytes], bool]
) -> None:
    """Write a file whose content could be derived, unless a sound one is there by now.

    A damaged one is copied aside first.
    """
    storage.ensure_conditional_writes()
    found = read_if_there(storage, path)
    if found is not None and is_sound(found.data):
        return
    try:
        if found is None:
            storage.ensure_conditional_creates()
            storage.put_if_absent(path, data)
        else:
            storage.put_if_absent(aside_name(path, found.read_at), found.data)
            storage.put_if_match(path, data, found.version)
    except PreconditionFailedError:
        raise changed_meanwhile(path) from None


def changed_meanwhile(path: str) -> ConflictError:
    return ConflictError(
        f"{path} was changed by somebody else during the repair",
        hint="it was left as it is; run the repair again",
    )
