"""Status, metadata and feature flags: settings that only a repo info file (V2) has room for.

Each change is decided on the newest state, whatever state of the repository was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from icectl.errors import Remedy, UnsupportedError
from icectl.format.envelope import Generation
from icectl.format.values import encode_metadata
from icectl.model.repo import Availability, RepoInfo, RepoStatus
from icectl.repository import edits
from icectl.repository.clock import read_write_time, write_time
from icectl.repository.edits import Edited
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo


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
    found = repository.found
    now = (
        read_write_time(repository.storage)
        if found is None
        else write_time(found.bytes.read_at, found.local_time)
    )
    update = update_repo(
        repository.storage,
        lambda info: edits.set_status(info, availability, reason, now, again=accept_older_repo),
        found=found,
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


def _update(repository: Repository, change: Callable[[RepoInfo], Edited]) -> None:
    update_repo(repository.storage, change, found=repository.found)


def _check_v2(repository: Repository, what: str) -> None:
    repository.check_writable()
    if repository.generation is Generation.V1:
        raise UnsupportedError(
            f"a repository of spec version 1 has no place for {what}",
            hint=Remedy("upgrade"),
        )
