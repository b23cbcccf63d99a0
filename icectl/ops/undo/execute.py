"""Execute an undo or a restore: one conditional write."""

from __future__ import annotations

from dataclasses import dataclass

from icectl.errors import ConflictError, RefusedError, Remedy
from icectl.model.ids import SnapshotId
from icectl.model.repo import GCRanUpdate, RepoInfo
from icectl.ops.ops_log import ListedOperation, ReportedChanges, report_changes
from icectl.ops.undo.needed import find_needed
from icectl.ops.undo.plan import UndoOptions, UndoPlan
from icectl.pipeline.progress import Progress
from icectl.repository.edits import Edited
from icectl.repository.ops_log import OpsLogBeyondReach, walk_updates
from icectl.repository.repository import Repository
from icectl.repository.state_changes import diff_states, updates_of
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class UndoResult:
    dry_run: bool
    operation: ListedOperation
    changes: ReportedChanges
    left_out_snapshots: tuple[SnapshotId, ...]
    """Unreachable ones that are not listed again, since their objects are gone."""
    burnt_tags: tuple[str, ...]
    """Names of deleted tags, which can never be used again."""
    missing: tuple[str, ...]


def build_result(plan: UndoPlan, *, dry_run: bool, missing: tuple[str, ...]) -> UndoResult:
    left_out = () if plan.needed.missing else tuple(sorted(plan.needed.incomplete))
    changes = report_changes(plan.changes)
    return UndoResult(dry_run, plan.operation, changes, left_out, plan.burnt_tags, missing)


def missing_error(plan: UndoPlan) -> RefusedError:
    missing = plan.needed.missing
    more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
    return RefusedError(
        f"what the earlier state needs is gone, so nothing was changed: {missing[0]}{more}",
        hint=Remedy("restore-lost")
        if plan.collection is None
        else Remedy("restore-collected", {"by": f"@{plan.collection}"}),
    )


def execute_undo(
    repository: Repository, plan: UndoPlan, options: UndoOptions, progress: Progress
) -> UndoResult:
    """Write the planned change; `ConflictError` if it is another one on the newest state.

    The result lists what went missing while it was written.
    """
    if plan.needed.missing:
        raise missing_error(plan)

    def change(info: RepoInfo) -> Edited:
        after = plan.build(info)
        if diff_states(info, after) != plan.changes:
            raise ConflictError(
                "the repository changed since the plan was made, and nothing was changed",
                hint="look at the new plan, and confirm that",
            )
        if plan.needed.num_snapshots and _was_collected(repository.storage, plan.before, info):
            raise ConflictError(
                "a garbage collection ran since the plan was made, and nothing was changed",
                hint="look at the new plan once the collection is done",
            )
        return after, updates_of(info, after)

    update_repo(
        repository.storage,
        change,
        found=repository.found,
        whatever_status=options.while_read_only or plan.sets_only_status,
    )
    missing: tuple[str, ...] = ()
    if plan.needed.num_snapshots:
        # A collection that began before the write does not know what came back.
        missing = find_needed(repository.storage, plan.before, plan.after, progress).missing
    return build_result(plan, dry_run=False, missing=missing)


def _was_collected(storage: Storage, before: RepoInfo, now: RepoInfo) -> bool:
    """Whether a collection ran since; also if the log was cut since, as only collections do it."""
    for update in walk_updates(storage, now):
        if isinstance(update, OpsLogBeyondReach):
            return True
        if update.updated_at <= before.latest_updates[0].updated_at:
            return False
        if isinstance(update.update_type, GCRanUpdate):
            return True
    return True
