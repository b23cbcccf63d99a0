"""The changes that a user can make to a repository, for every generation.

V2 goes through the update loop, V1 through its files; older generations are never changed.
The state that was opened is only the place to look: each change is decided on the newest one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from icectl.errors import UnsupportedError
from icectl.format.envelope import Generation
from icectl.format.values import encode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.repo import Availability, RepoInfo, RepoStatus
from icectl.repository import edits, v1
from icectl.repository.clock import read_write_time
from icectl.repository.edits import Edited
from icectl.repository.repository import Repository
from icectl.repository.update import RepoUpdate, update_repo


def create_branch(repository: Repository, name: str, snapshot_id: SnapshotId) -> None:
    if is_v1(repository):
        v1.create_branch(repository.storage, name, snapshot_id)
    else:
        _update(repository, lambda info: edits.create_branch(info, name, snapshot_id))


def reset_branch(
    repository: Repository, name: str, snapshot_id: SnapshotId, expect: SnapshotId | None = None
) -> SnapshotId:
    """Point the branch elsewhere; where it pointed before."""
    if is_v1(repository):
        return v1.reset_branch(repository.storage, name, snapshot_id, expect)
    update = _update(repository, lambda info: edits.reset_branch(info, name, snapshot_id, expect))
    return edits.find_ref(update.before.branches, name, "branch")


def delete_branch(
    repository: Repository, name: str, expect: SnapshotId | None = None
) -> SnapshotId:
    """Where the branch pointed."""
    if is_v1(repository):
        return v1.delete_branch(repository.storage, name, expect)
    update = _update(repository, lambda info: edits.delete_branch(info, name, expect))
    return edits.find_ref(update.before.branches, name, "branch")


def create_tag(repository: Repository, name: str, snapshot_id: SnapshotId) -> None:
    if is_v1(repository):
        v1.create_tag(repository.storage, name, snapshot_id)
    else:
        _update(repository, lambda info: edits.create_tag(info, name, snapshot_id))


def delete_tag(repository: Repository, name: str) -> SnapshotId:
    """Where the tag pointed."""
    if is_v1(repository):
        return v1.delete_tag(repository.storage, name)
    update = _update(repository, lambda info: edits.delete_tag(info, name))
    return edits.find_ref(update.before.tags, name, "tag")


def set_status(
    repository: Repository,
    availability: Availability,
    reason: str | None = None,
    *,
    accept_older_repo: bool = False,
) -> RepoStatus:
    """With `accept_older_repo` it is set again where it is the same: the change makes this
    state the newest."""
    _check_v2(repository, "a status")
    now = read_write_time(repository.storage)
    update = update_repo(
        repository.storage,
        lambda info: edits.set_status(info, availability, reason, now, again=accept_older_repo),
        whatever_status=True,
        accept_older=accept_older_repo,
    )
    return update.after.status


def set_metadata(repository: Repository, values: Mapping[str, object]) -> None:
    """Add the values (JSON), replacing those of the same name."""
    _check_v2(repository, "metadata")
    items = encode_metadata(values, 2)
    _update(repository, lambda info: edits.set_metadata(info, items))


def unset_metadata(repository: Repository, names: Collection[str]) -> None:
    _check_v2(repository, "metadata")
    _update(repository, lambda info: edits.unset_metadata(info, names))


def set_flag(repository: Repository, flag_id: int, value: bool | None) -> None:
    _check_v2(repository, "feature flags")
    _update(repository, lambda info: edits.set_flag(info, flag_id, value))


def _update(repository: Repository, change: Callable[[RepoInfo], Edited]) -> RepoUpdate:
    return update_repo(repository.storage, change)


def is_v1(repository: Repository) -> bool:
    """Which way a change goes; `UnsupportedError` for a generation that is never changed."""
    if not repository.is_writable:
        raise UnsupportedError(
            f"repositories of the generation {repository.generation} can only be read",
            hint="open and migrate it with the official package of its time to change it",
        )
    return repository.generation is Generation.V1


def _check_v2(repository: Repository, what: str) -> None:
    if is_v1(repository):
        raise UnsupportedError(
            f"a repository of spec version 1 has no place for {what}",
            hint="upgrade it with the official package's `icechunk.upgrade_icechunk_repository`",
        )
