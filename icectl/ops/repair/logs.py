"""Missing and damaged transaction logs, rebuilt from the snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from icectl.checks.transaction_log import check_log
from icectl.errors import FormatError, StorageError, UnsupportedError
from icectl.format.transaction_log import encode_transaction_log
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.model.transaction_log import TransactionLog
from icectl.ops.repair.derive_log import (
    derive_log,
    empty_log,
    explains,
    manifests_needed,
    merge_logs,
)
from icectl.ops.repair.step import Key, Step, key_of, put_derived
from icectl.ops.repair.survey import Survey
from icectl.pipeline.objects import ObjectKind
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage


@dataclass(slots=True)
class _Evidence:
    """The commits that a lost log must explain."""

    commits: list[tuple[SnapshotId, SnapshotId, tuple[SnapshotId, ...]]] = field(
        default_factory=list
    )
    """Parent, child, and the logs between them that are not lost."""
    spec_version: int = 2

    def derive(self, repository: Repository, log_id: SnapshotId) -> TransactionLog:
        logs = [
            derive_log(
                repository,
                log_id,
                repository.read_snapshot(parent),
                repository.read_snapshot(child),
                [repository.read_transaction_log(one) for one in known],
            )
            for parent, child, known in self.commits
        ]
        return merge_logs(logs) if logs else empty_log(log_id, self.spec_version)


def plan_logs(repository: Repository, survey: Survey) -> Iterator[Step]:
    """One step for each lost log; `repository` is the state after the steps before."""
    keys: defaultdict[str, set[Key]] = defaultdict(set)
    for problem, _ in survey.problems:
        keys[problem.object].add(key_of(problem))
    for log_id, evidence in _collect(repository, survey).items():
        path = ObjectKind.TRANSACTION_LOG.path(log_id)
        yield Step(
            "rebuild_transaction_log",
            path,
            "write it again from the snapshots before and after the commit",
            lambda storage, log_id=log_id, evidence=evidence: _write(  # type: ignore[misc]
                storage, log_id, evidence
            ),
            mends=frozenset(keys[path]),
        )


def _collect(repository: Repository, survey: Survey) -> dict[SnapshotId, _Evidence]:
    found: defaultdict[SnapshotId, _Evidence] = defaultdict(_Evidence)
    impossible: set[SnapshotId] = set()
    for info in _snapshots(repository, survey):
        logs = (*(info.pruned_ancestor_tx_logs or ()), info.id)
        lost = [one for one in logs if one in survey.lost_logs]
        if not lost:
            continue
        for one in lost:
            found[one].spec_version = repository.spec_version
        if not _can_derive(repository, survey, info):
            impossible.update(lost)
            continue
        if info.parent_id is None:
            continue  # the first snapshot changed nothing
        # All that the other logs do not explain goes to the newest lost one.
        known = tuple(one for one in logs if one not in survey.lost_logs)
        found[lost[-1]].commits.append((info.parent_id, info.id, known))
    return {log_id: one for log_id, one in sorted(found.items()) if log_id not in impossible}


def _snapshots(repository: Repository, survey: Survey) -> Iterator[SnapshotInfo]:
    if repository.lists_snapshots:
        yield from repository.all_snapshots()
        return
    for snapshot_id in survey.history.parents:
        if snapshot_id not in survey.unreadable:
            yield repository.snapshot_info(snapshot_id)


def _can_derive(repository: Repository, survey: Survey, info: SnapshotInfo) -> bool:
    try:
        if info.id in survey.planned and info.parent_id is not None:
            files = repository.read_snapshot(info.parent_id).all_manifest_files
            return survey.lost_manifests.isdisjoint(file.id for file in files)
        after = repository.read_snapshot(info.id)
        if info.parent_id is None:
            return not after.nodes  # else its parent was lost
        before = repository.read_snapshot(info.parent_id)
    except (FormatError, UnsupportedError, StorageError):
        return False
    return survey.lost_manifests.isdisjoint(manifests_needed(before, after))


def _write(storage: Storage, log_id: SnapshotId, evidence: _Evidence) -> None:
    log = evidence.derive(open_repository(storage), log_id)

    def is_sound(data: bytes) -> bool:
        found, problems = check_log(data, log_id)
        return found is not None and not problems and explains(found, log)

    put_derived(
        storage,
        ObjectKind.TRANSACTION_LOG.path(log_id),
        encode_transaction_log(log),
        is_sound,
    )
