"""The state of the source that the target is to have: the selected refs and their history. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from icectl.errors import RefNotFoundError, Remedy
from icectl.format.values import encode_flexbuffers
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    Availability,
    NewDetachedSnapshotUpdate,
    RepoInfo,
    Update,
    sorted_refs,
)
from icectl.ops.expire.policy import matches
from icectl.repository.config import decode_config
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.history import State, state_of
from icectl.repository.open import repository_at
from icectl.repository.reparent import drop_snapshots
from icectl.repository.repository import Repository
from icectl.repository.synthetic_log import synthetic_log
from icectl.repository.transitions import created_snapshot

STORAGE_SETTINGS = "storage"
"""The section of the configuration that describes the storage, not the repository.

Created on local disk, it turns conditional writes off; on an object store that loses commits.
"""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is copied; without any of these, everything."""

    branches: tuple[str, ...] = ()
    """Globs."""
    tags: tuple[str, ...] = ()
    shallow: int | None = None
    """The number of snapshots of each ref, from its tip on."""
    since: int | None = None
    """Only snapshots flushed at this time or later, and the tips."""
    paths: tuple[str, ...] = ()
    """Only these nodes of the tips, and no history."""

    @property
    def selects_refs(self) -> bool:
        return bool(self.branches or self.tags)

    @property
    def cuts_history(self) -> bool:
        return self.shallow is not None or self.since is not None

    @property
    def is_whole(self) -> bool:
        return not (self.selects_refs or self.cuts_history or self.paths)

    def has_branch(self, name: str) -> bool:
        return not self.selects_refs or matches(name, self.branches)

    def has_tag(self, name: str) -> bool:
        return not self.selects_refs or matches(name, self.tags)


def select_state(
    repository: Repository, selection: Selection, *, with_detached: bool
) -> Repository:
    """The repository in the state that the target is to have; in spec version 1, with all history.

    `with_detached`: a whole copy also has the snapshots that no ref leads to.
    """
    repository.check_writable()
    branches = {n: id_ for n, id_ in repository.branches().items() if selection.has_branch(n)}
    tags = {n: id_ for n, id_ in repository.tags().items() if selection.has_tag(n)}
    if selection.selects_refs and not (branches or tags):
        raise RefNotFoundError("no branch or tag matches the selection", hint=Remedy("list-refs"))
    if repository.info is None:
        branches = _with_main(branches, tags, lambda tip: [*repository.ancestry(tip)][-1].id)
        return replace(repository, branch_tips=branches, tag_targets=tags)
    state = state_of(repository.info)
    branches = _with_main(branches, tags, lambda tip: [*state.ancestry(tip)][-1])
    info = replace(repository.info, branches=sorted_refs(branches), tags=sorted_refs(tags))
    if not (selection.is_whole and with_detached):
        info = _without(info, state.parents.keys() - state_of(info).reachable)
    if selection.cuts_history:
        info = _without(info, find_cut(state_of(info), selection))
    info = replace(
        info,
        config=without_storage_settings(info.config),
        status=replace(
            info.status, availability=int(Availability.ONLINE), limited_availability_reason=None
        ),
        repo_before_updates=None,
    )
    info = replace(info, latest_updates=_log(info, selection))
    return repository_at(repository.storage, info)


def _with_main(
    branches: dict[str, SnapshotId],
    tags: Mapping[str, SnapshotId],
    root_of: Callable[[SnapshotId], SnapshotId],
) -> dict[str, SnapshotId]:
    """Every repository has a main; one that is not selected is at the first snapshot."""
    if DEFAULT_BRANCH in branches:
        return branches
    tip = next(iter((*branches.values(), *tags.values())))
    return {**branches, DEFAULT_BRANCH: root_of(tip)}


def find_cut(state: State, selection: Selection) -> Collection[SnapshotId]:
    tips = {*state.branches.values(), *state.tags.values()}
    roots = {id_ for id_, parent in state.parents.items() if parent is None}
    if selection.shallow is not None:
        kept = {id_ for tip in tips for id_ in islice(state.ancestry(tip), selection.shallow)}
    else:
        since = selection.since or 0
        kept = {id_ for id_, time in state.flushed_at.items() if time >= since}
    return state.parents.keys() - kept - tips - roots


def _without(info: RepoInfo, dropped: Collection[SnapshotId]) -> RepoInfo:
    """As an expiration does it: a kept snapshot continues at the root, with all pruned logs."""
    return drop_snapshots(info, frozenset(dropped), to_root=True)


def _log(info: RepoInfo, selection: Selection) -> tuple[Update, ...]:
    """The ops log of the source without its backups; or one that the history suggests.

    A snapshot that no ref of the target reaches was never on a branch there.
    """
    state = state_of(info)
    if not selection.is_whole:
        return synthetic_log(info.snapshots, state.branches, state.tags, {})
    return tuple(
        Update(
            NewDetachedSnapshotUpdate(made)
            if (made := created_snapshot(update)) is not None and made not in state.reachable
            else update.update_type,
            update.updated_at,
        )
        for update in info.latest_updates
    )


def without_storage_settings(config: bytes | None) -> bytes | None:
    stored = decode_config(config)
    if STORAGE_SETTINGS not in stored:
        return config
    del stored[STORAGE_SETTINGS]
    return encode_flexbuffers(stored)
