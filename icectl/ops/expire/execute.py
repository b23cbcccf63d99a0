"""Execute an expiration: one atomic update in V2, edited snapshot files in V1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from icectl.format.envelope import Generation
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.model.ids import NodeId, SnapshotId
from icectl.model.repo import ExpirationRanUpdate, RepoInfo
from icectl.model.transaction_log import ArrayUpdatedChunks, TransactionLog
from icectl.ops.expire.plan import Expiration, ExpirationPlan, plan_for
from icectl.ops.expire.policy import Policy
from icectl.pipeline.coordinates import CoordinateSet
from icectl.pipeline.progress import Progress
from icectl.repository.edits import Edited
from icectl.repository.open import open_repository, repository_at
from icectl.repository.reparent import drop_snapshots
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage, Version


@dataclass(frozen=True, slots=True)
class SnapshotEdit:
    """A V1 snapshot file with another parent, to replace the version it was made of."""

    path: str
    parent_id: SnapshotId
    data: bytes
    version: Version


def execute_expiration(
    repository: Repository,
    policy: Policy,
    planned: Expiration,
    progress: Progress | None = None,
) -> Expiration:
    """Execute the plan; if the repository changed since, plan again on the new state."""
    repository.check_writable()
    progress = progress or Progress()
    if repository.generation is Generation.V1:
        return _execute_v1(repository.storage, policy, planned, progress)
    done = planned

    def change(info: RepoInfo) -> Edited:
        nonlocal done
        if info != repository.info:
            progress.check_time()
            done = plan_for(repository_at(repository.storage, info), policy, progress)
        return expire_repo(info, policy, done.plan), ExpirationRanUpdate()

    update_repo(repository.storage, change, found=repository.found)
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


def _execute_v1(
    storage: Storage, policy: Policy, planned: Expiration, progress: Progress
) -> Expiration:
    """Logs, edits, refs: an interrupted run leaves a history that a second one finishes."""
    storage.ensure_conditional_writes()
    current = open_repository(storage)
    done = plan_for(current, policy, progress)
    if done.plan == planned.plan:
        done = planned
    # Everything is encoded before the first write, so that a failure to encode stops the run here.
    parents = done.plan.parents
    edits = [
        _edit(storage, current.layout.snapshot(snapshot_id), parent_id)
        for snapshot_id, parent_id in progress.count(
            parents.items(), "reading snapshots to edit", len(parents)
        )
    ]
    if not policy.is_official:  # the official expiration leaves the logs as they are
        _merge_logs(current, done, progress)
    for edit in progress.count(edits, "writing snapshots", len(edits)):
        _join(storage, edit)
    plan = replace(
        done.plan,
        deleted_tags=_delete_refs(done.plan.deleted_tags, current.refs.delete_tag),
        deleted_branches=_delete_refs(
            done.plan.deleted_branches,
            lambda name: current.refs.delete_branch(name, expect=done.history.branches[name]),
        ),
    )
    return replace(done, plan=plan)


def _merge_logs(repository: Repository, expiration: Expiration, progress: Progress) -> None:
    """Give each edited snapshot the logs of the ancestors that it will skip.

    A V1 snapshot cannot name the logs of released ancestors, so the log of the snapshot that
    continues further up takes in theirs: diffs across the gap stay right, also those of the
    official package.
    """
    merged: list[tuple[str, bytes, Version]] = []
    parents = expiration.plan.parents
    read = progress.count(parents.items(), "merging transaction logs", len(parents))
    for snapshot_id, parent_id in read:
        path = f"{repository.layout.transactions}/{snapshot_id}"
        try:
            own = repository.storage.read_versioned(path)
        except ObjectNotFoundError:
            continue  # without it, a diff compares the content anyway
        newest_first = expiration.history.ancestry(snapshot_id)
        ids = [*takewhile(partial(ne, parent_id), newest_first)]
        try:
            logs = [repository.read_transaction_log(one) for one in reversed(ids)]
        except (StorageError, FormatError) as error:
            error.hint = Remedy("expire-without-logs")
            raise
        merged.append((path, encode_transaction_log(_merged_log(logs)), own.version))
    for path, data, version in progress.count(merged, "writing transaction logs", len(merged)):
        try:
            repository.storage.put_if_match(path, data, version)
        except PreconditionFailedError:
            if repository.storage.read(path) != data:
                raise _changed_by_another(path) from None


def _merged_log(logs: Sequence[TransactionLog]) -> TransactionLog:
    """The last log with the changes of all, oldest first. Merging again changes nothing."""
    created = _union(logs, ("new_groups", "new_arrays"))
    deleted = _union(logs, ("deleted_groups", "deleted_arrays"))
    # A node that existed before and is deleted in the end keeps its updates in between, as in the
    # official package; one that exists in no remaining snapshot is left out.
    passing = created & deleted
    chunks: dict[NodeId, CoordinateSet] = {}
    for log in logs:
        for array in log.updated_chunks:
            if array.node_id in passing:
                continue
            if not chunks.setdefault(array.node_id, CoordinateSet()).add(array.chunks):
                raise FormatError(
                    f"the transaction logs give chunks of the node {array.node_id} "
                    "different numbers of dimensions"
                )

    def merged(name: str, without: set[NodeId]) -> tuple[NodeId, ...]:
        return tuple(sorted(_union(logs, (name,)) - without))

    return replace(
        logs[-1],
        new_groups=merged("new_groups", deleted),
        new_arrays=merged("new_arrays", deleted),
        deleted_groups=merged("deleted_groups", created),
        deleted_arrays=merged("deleted_arrays", created),
        updated_groups=merged("updated_groups", passing),
        updated_arrays=merged("updated_arrays", passing),
        updated_chunks=tuple(
            ArrayUpdatedChunks(node_id, chunks[node_id].rows()) for node_id in sorted(chunks)
        ),
        unknown_fields=tuple(field for log in logs for field in log.unknown_fields),
    )


def _union(logs: Iterable[TransactionLog], names: Iterable[str]) -> set[NodeId]:
    return {node_id for log in logs for name in names for node_id in getattr(log, name)}


def _edit(storage: Storage, path: str, parent_id: SnapshotId) -> SnapshotEdit:
    found = storage.read_versioned(path)
    edited = replace(decode_snapshot(found.data), parent_id=parent_id)
    return SnapshotEdit(path, parent_id, encode_snapshot(edited), found.version)


def _join(storage: Storage, edit: SnapshotEdit) -> None:
    try:
        storage.put_if_match(edit.path, edit.data, edit.version)
    except PreconditionFailedError:
        # Only another expiration edits snapshots; its edit is as good as ours, unless it differs.
        if decode_snapshot(storage.read(edit.path)).parent_id != edit.parent_id:
            raise _changed_by_another(edit.path) from None


def _changed_by_another(path: str) -> ConflictError:
    return ConflictError(
        f"{path} was changed by another expiration", hint="run the expiration again"
    )


def _delete_refs(names: tuple[str, ...], delete: Callable[[str], object]) -> tuple[str, ...]:
    """Those that were deleted: one that has moved or was deleted meanwhile is no longer expired."""
    deleted = []
    for name in names:
        with suppress(RefNotFoundError, ConflictError):
            delete(name)
            deleted.append(name)
    return tuple(deleted)
