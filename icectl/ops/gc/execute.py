"""Execute a plan: first drop the unreachable snapshots from `repo`, then delete files.

The update of `repo` is conditional. If others changed it since the plan was made, their additions
are protected; if they built on something that was to be deleted, a `VoidPlanError` asks for a new
plan. Interrupting is safe at any point: the next run deletes the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from icectl.checks.manifest import ManifestClaim
from icectl.errors import ConflictError, IcectlError
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.node_columns import SnapshotColumns
from icectl.model.repo import GCRanUpdate, RepoInfo
from icectl.ops.gc.backups import BackupPlan, truncated
from icectl.ops.gc.plan import GcPlan, protect_snapshots, snapshot_ids, without
from icectl.ops.gc.reachability import read_snapshots
from icectl.pipeline.deletion import DeletedBatch, DeleteFailure, delete_in_batches
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.references import check_root_v1, merge_claims
from icectl.repository.edits import Edited
from icectl.repository.history import read_ancestors
from icectl.repository.open import open_repository
from icectl.repository.reparent import drop_snapshots
from icectl.repository.update import update_repo


class VoidPlanError(ConflictError):
    """Others now use objects that were to be deleted."""


class InterruptedGcError(IcectlError):
    """Ctrl-C while objects were being deleted."""

    kind = "interrupted"
    exit_code = 130

    def __init__(self, num_deleted: int) -> None:
        super().__init__(
            f"interrupted after at least {num_deleted:,} objects were deleted",
            hint="the repository is consistent; run the same command again to delete the rest",
        )
        self.facts = {"objects_deleted": num_deleted}


@dataclass(slots=True)
class Deleted:
    """The objects deleted so far."""

    count: dict[ObjectKind, int] = field(default_factory=lambda: dict.fromkeys(ObjectKind, 0))
    bytes: int = 0
    backups: int = 0
    backup_bytes: int = 0
    failures: list[DeleteFailure] = field(default_factory=list)
    is_complete: bool = True
    """Whether every planned deletion was tried."""
    skipped_phases: list[str] = field(default_factory=list)
    """Kinds that were skipped because objects of an earlier phase could not be deleted."""

    @property
    def num_objects(self) -> int:
        return sum(self.count.values()) + self.backups


def execute_gc(
    plan: GcPlan, only: Iterable[ObjectKind], backups: BackupPlan | None, progress: Progress
) -> Deleted:
    """Delete the objects of the plan.

    Referring objects are deleted before the objects they refer to: a snapshot whose file cannot
    be deleted could still be used, so its log, manifests and chunks must stay. After a phase
    with failures the later ones are skipped, and the next run begins with what is left.

    Nothing was deleted after a `VoidPlanError`, nor after a `ConflictError`: others were
    faster at each attempt to change `repo`.
    """
    progress.check_time()
    plan = _release(plan, backups, progress)
    deleted = Deleted()
    try:
        _delete_phases(plan, frozenset(only), backups, deleted, progress)
    except KeyboardInterrupt:
        raise InterruptedGcError(deleted.num_objects) from None
    return deleted


def _delete_phases(
    plan: GcPlan,
    chosen: Set[ObjectKind],
    backups: BackupPlan | None,
    deleted: Deleted,
    progress: Progress,
) -> None:
    storage = plan.repository.storage
    for kind, garbage in plan.garbage.items():
        if kind not in chosen or _is_skipped(kind.plural, len(garbage), deleted):
            continue
        for batch in _phase(
            kind.directory, len(garbage), garbage.delete(storage, progress), deleted, progress
        ):
            deleted.count[kind] += batch.count
            deleted.bytes += batch.bytes
    if backups is not None and not _is_skipped("backups", len(backups.garbage), deleted):
        items = ((info.path, info.size or 0) for info in backups.garbage)
        batches = delete_in_batches(storage, items, progress)
        for batch in _phase("backups", len(backups.garbage), batches, deleted, progress):
            deleted.backups += batch.count
            deleted.backup_bytes += batch.bytes


def _is_skipped(phase: str, total: int, deleted: Deleted) -> bool:
    skipped = bool(deleted.failures) or not deleted.is_complete
    if skipped and total:
        deleted.skipped_phases.append(phase)
        deleted.is_complete = False
    return skipped


def _phase(
    what: str, total: int, batches: Iterable[DeletedBatch], deleted: Deleted, progress: Progress
) -> Iterator[DeletedBatch]:
    with progress.phase(f"deleting {what}", total, "objects") as counter:
        for batch in batches:
            yield batch
            deleted.failures += batch.failures
            deleted.is_complete &= batch.is_complete
            if batch.is_interrupted:
                raise KeyboardInterrupt
            counter.advance(batch.count + len(batch.failures))


def _release(plan: GcPlan, backups: BackupPlan | None, progress: Progress) -> GcPlan:
    """Drop the snapshots from the repository; the plan without objects that others now need."""
    if not plan.repository.lists_snapshots:
        return _protect_v1(plan, progress)

    def change(info: RepoInfo) -> Edited:
        progress.check_time()  # each time: a race with busy writers may take long
        try:
            return _edit(info, plan, backups), GCRanUpdate()
        except ConflictError as error:
            raise VoidPlanError(error.message) from None

    abandoned = frozenset(plan.abandoned_backups)
    after = update_repo(plan.repository.storage, change, abandoned=abandoned).after
    new = {snapshot.id for snapshot in after.snapshots} - plan.kept_snapshots
    return protect_snapshots(plan, after, new, progress)


def _edit(info: RepoInfo, plan: GcPlan, backups: BackupPlan | None) -> RepoInfo:
    dropped = plan.dropped_snapshots
    for snapshot in info.snapshots:
        is_new = snapshot.id not in plan.kept_snapshots and snapshot.id not in dropped
        if is_new and snapshot.parent_id in dropped:
            raise ConflictError(
                f"{snapshot.id} was committed on {snapshot.parent_id}, which was to be dropped"
            )
    edited = drop_snapshots(info, dropped)
    if backups is not None and backups.oldest_update_at is not None:
        edited = truncated(edited, backups.oldest_update_at)
    return edited


def _protect_v1(plan: GcPlan, progress: Progress) -> GcPlan:
    repository = open_repository(plan.repository.storage)
    garbage = snapshot_ids(plan.garbage[ObjectKind.SNAPSHOT])

    def read(ids: Set[SnapshotId]) -> Iterator[SnapshotColumns]:
        if ids & garbage:
            raise VoidPlanError(f"a ref now leads to the snapshot {min(ids & garbage)}")
        return read_snapshots(repository.storage, ids, progress)

    claims: dict[ManifestId, ManifestClaim] = {}
    new: set[SnapshotId] = set()
    tips = (*repository.branches().values(), *repository.tags().values())
    for snapshot in read_ancestors(tips, read, plan.kept_snapshots):
        merge_claims(claims, snapshot.all_manifest_files, snapshot.id)
        check_root_v1(snapshot)
        new.add(snapshot.id)
    return without(plan, new, new, claims, progress)
