"""Carrying out an expiration: one atomic update in V2, edited snapshot files in V1."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from operator import ne

from icectl.errors import (
    ConflictError,
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefNotFoundError,
    Remedy,
    StorageError,
)
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.model.ids import SnapshotId
from icectl.model.repo import ExpirationRanUpdate, RepoInfo
from icectl.ops.expire.merged_logs import merge_transaction_logs
from icectl.ops.expire.plan import ExpirationPlan, History, plan_expiration
from icectl.ops.expire.policy import Policy
from icectl.repository import v1
from icectl.repository.edits import Edited
from icectl.repository.mutations import is_v1
from icectl.repository.open import open_repository, repository_at
from icectl.repository.reparent import drop_snapshots
from icectl.repository.repository import Repository
from icectl.repository.update import check_online, update_repo
from icectl.storage.contract import Storage, Version

logger = logging.getLogger(__name__)

TIPS_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class Expiration:
    """A plan and the state of the repository that it was made for."""

    history: History
    plan: ExpirationPlan


@dataclass(frozen=True, slots=True)
class SnapshotEdit:
    """A V1 snapshot file with another parent, to replace the version it was made of."""

    path: str
    parent_id: SnapshotId
    data: bytes
    version: Version


def plan_for(repository: Repository, policy: Policy) -> Expiration:
    """The plan for the state that the repository was opened at; legacy generations refuse.

    `FormatError` when a tip that stays cannot be read: what is released may be all that is left
    of the data.
    """
    is_v1(repository)
    if repository.info is not None:
        check_online(repository.info.status)
    try:
        snapshots = {snapshot.id: snapshot for snapshot in repository.all_snapshots()}
    except ObjectNotFoundError as error:
        raise FormatError("the file of this snapshot is missing", path=error.path) from None
    history = History(
        repository.spec_version, snapshots, dict(repository.branches()), dict(repository.tags())
    )
    plan = plan_expiration(history, policy)
    logger.info("plan: release %d of %d snapshots", len(plan.released), len(history.snapshots))
    if not plan.is_empty:
        _check_tips(repository, history, plan)
    return Expiration(history, plan)


def _check_tips(repository: Repository, history: History, plan: ExpirationPlan) -> None:
    names: dict[str, list[str]] = defaultdict(list)
    for kind, refs, deleted in (
        ("branch", history.branches, plan.deleted_branches),
        ("tag", history.tags, plan.deleted_tags),
    ):
        for name, tip in sorted(refs.items()):
            if name not in deleted:
                names[repository.layout.snapshot(tip)].append(f"the {kind} {name}")
    for path, data in repository.storage.read_many(names, concurrency=TIPS_IN_FLIGHT):
        try:
            if isinstance(data, ObjectNotFoundError):
                raise FormatError("the file is missing")
            if isinstance(data, StorageError):
                raise data
            if repository.layout.snapshot(decode_snapshot(data).id) != path:
                raise FormatError("the file is of another snapshot")
        except FormatError as error:
            owner = names[path][0]
            raise FormatError(
                f"{owner} cannot be read: {error.reason}, so nothing is released",
                path=path,
                hint=Remedy("restore-or-move-ref"),
            ) from None


def execute_expiration(repository: Repository, policy: Policy, planned: Expiration) -> Expiration:
    """Carry out the plan; when the repository moved since, it is planned again on the new state."""
    if is_v1(repository):
        return _execute_v1(repository.storage, policy, planned)
    done = planned

    def change(info: RepoInfo) -> Edited:
        nonlocal done
        if info != repository.info:
            done = plan_for(repository_at(repository.storage, info), policy)
        return expire_repo(info, policy, done.plan), ExpirationRanUpdate()

    update_repo(repository.storage, change)
    return done


def expire_repo(info: RepoInfo, policy: Policy, plan: ExpirationPlan) -> RepoInfo:
    """The repo info file after the plan."""
    remaining = replace(
        info,
        branches=tuple(ref for ref in info.branches if ref.name not in plan.deleted_branches),
        tags=tuple(ref for ref in info.tags if ref.name not in plan.deleted_tags),
        deleted_tags=tuple(sorted({*info.deleted_tags, *plan.deleted_tags}, key=str.encode)),
    )
    return drop_snapshots(remaining, plan.released, to_root=policy.is_official)


def _execute_v1(storage: Storage, policy: Policy, planned: Expiration) -> Expiration:
    """Logs, edits, refs: an interrupted run leaves a history that a second one finishes."""
    storage.ensure_conditional_writes()
    current = open_repository(storage)
    done = plan_for(current, policy)
    if done.plan == planned.plan:
        done = planned
    # All is encoded before the first write, so that what cannot be written stops the run here.
    edits = [
        _edit(storage, current.layout.snapshot(snapshot_id), parent_id)
        for snapshot_id, parent_id in done.plan.parents.items()
    ]
    if not policy.is_official:  # the official expiration leaves the logs as they are
        _merge_logs(current, done)
    for edit in edits:
        _join(storage, edit)
    plan = replace(
        done.plan,
        deleted_tags=_delete_refs(
            done.plan.deleted_tags, lambda name: v1.delete_tag(storage, name)
        ),
        deleted_branches=_delete_refs(
            done.plan.deleted_branches,
            lambda name: v1.delete_branch(storage, name, expect=done.history.branches[name]),
        ),
    )
    return replace(done, plan=plan)


def _merge_logs(repository: Repository, expiration: Expiration) -> None:
    """Give each edited snapshot the logs of the ancestors that it will skip."""
    merged: list[tuple[str, bytes, Version]] = []
    for snapshot_id, parent_id in expiration.plan.parents.items():
        path = f"{repository.layout.transactions}/{snapshot_id}"
        try:
            own = repository.storage.read_versioned(path)
        except ObjectNotFoundError:
            continue  # without it, a diff compares the content anyway
        newest_first = (one.id for one in expiration.history.ancestry(snapshot_id))
        ids = [*takewhile(partial(ne, parent_id), newest_first)]
        try:
            logs = [repository.read_transaction_log(one) for one in reversed(ids)]
        except (StorageError, FormatError) as error:
            error.hint = Remedy("expire-without-logs")
            raise
        merged.append((path, encode_transaction_log(merge_transaction_logs(logs)), own.version))
    for path, data, version in merged:
        try:
            repository.storage.put_if_match(path, data, version)
        except PreconditionFailedError:
            if repository.storage.read(path) != data:
                raise _changed_by_another(path) from None


def _edit(storage: Storage, path: str, parent_id: SnapshotId) -> SnapshotEdit:
    found = storage.read_versioned(path)
    edited = replace(decode_snapshot(found.data), parent_id=parent_id)
    return SnapshotEdit(path, parent_id, encode_snapshot(edited), found.version)


def _join(storage: Storage, edit: SnapshotEdit) -> None:
    try:
        storage.put_if_match(edit.path, edit.data, edit.version)
    except PreconditionFailedError:
        # Only another expiration edits snapshots; what it wrote is as good, unless it differs.
        if decode_snapshot(storage.read(edit.path)).parent_id != edit.parent_id:
            raise _changed_by_another(edit.path) from None


def _changed_by_another(path: str) -> ConflictError:
    return ConflictError(
        f"{path} was changed by another expiration", hint="run the expiration again"
    )


def _delete_refs(names: tuple[str, ...], delete: Callable[[str], object]) -> tuple[str, ...]:
    """Those that were deleted: one that moved or went meanwhile is no longer expired."""
    deleted = []
    for name in names:
        with suppress(RefNotFoundError, ConflictError):
            delete(name)
            deleted.append(name)
    return tuple(deleted)
