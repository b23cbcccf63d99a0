"""The whole run: open, plan, confirm, execute; and again from the start if others interfere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from icectl.errors import ConflictError, FormatError, StorageError
from icectl.ops.gc.backups import BackupPlan, plan_backups
from icectl.ops.gc.execute import Deleted, VoidPlanError, execute_gc
from icectl.ops.gc.plan import GcPlan, plan_gc, protect_usable
from icectl.ops.gc.safeguards import (
    MaxDelete,
    check_backups_cutoff,
    check_max_delete,
    check_repository,
)
from icectl.ops.gc.saved_plan import SavedPlan
from icectl.pipeline.engine import ChooseEngine
from icectl.pipeline.local_engine import local_engine
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.open import has_changed, open_repository
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

MAX_RESTARTS = 20


@dataclass(frozen=True, slots=True)
class GcOptions:
    cutoff: int
    """Only objects created before it are deleted; microseconds by the storage's clock."""
    only: frozenset[ObjectKind] = field(default_factory=lambda: frozenset(ObjectKind))
    max_delete: MaxDelete | None = None
    known_missing: frozenset[str] = frozenset()
    saved: SavedPlan | None = None
    """Delete only objects that this plan names as well."""
    backups_older_than: int | None = None
    truncate_ops_log: bool = False
    abandon_history: tuple[str, ...] = ()
    """The newest backup of each lost timeline that is abandoned."""
    choose_engine: ChooseEngine = local_engine
    lists_chunks_early: bool = True
    """Begin to list chunks before the engine is known; in vain if it lists them itself."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    plan: GcPlan
    backups: BackupPlan | None
    num_spared: int = 0
    """Objects that the saved plan names and that are now in use or already deleted."""


def plan_run(
    storage: Storage,
    options: GcOptions,
    progress: Progress | None = None,
    found: Repository | None = None,
) -> PlannedRun:
    """The plan for the newest state; made again if the state changed meanwhile.

    `found` is the state if the caller has just read it.
    """
    progress = progress or Progress()
    if options.backups_older_than is not None:
        check_backups_cutoff(storage, options.backups_older_than, options.cutoff)
    earlier = ""
    for _ in range(MAX_RESTARTS):
        repository, found = found or open_repository(storage), None
        check_repository(repository)
        try:
            return _plan(repository, options, progress)
        except (FormatError, StorageError) as error:
            # Another gc may have deleted objects that only the older state needed; an object that
            # the newer state lacks as well is lost.
            if error.message == earlier or not has_changed(repository):
                raise
            earlier = error.message
    raise ConflictError(
        "the repository was changed by others during each attempt to plan",
        hint="nothing was deleted; try again when fewer writers are at work",
    )


def collect_garbage(
    storage: Storage,
    options: GcOptions,
    approve: Callable[[PlannedRun], None],
    progress: Progress | None = None,
    found: Repository | None = None,
) -> tuple[PlannedRun, Deleted]:
    """Plan, and execute unless `approve` raises; again if others use objects that were to go."""
    progress = progress or Progress()
    for _ in range(MAX_RESTARTS):
        run, found = plan_run(storage, options, progress, found), None
        approve(run)
        try:
            return run, execute_gc(run.plan, options.only, run.backups, progress)
        except VoidPlanError:
            continue
    raise ConflictError(
        f"others used what was to be deleted {MAX_RESTARTS} times in a row",
        hint="nothing was deleted; try again when fewer writers are at work",
    )


def _plan(repository: Repository, options: GcOptions, progress: Progress) -> PlannedRun:
    plan = plan_gc(
        repository,
        options.cutoff,
        known_missing=options.known_missing,
        abandon_history=options.abandon_history,
        choose_engine=options.choose_engine,
        lists_chunks_early=options.lists_chunks_early,
        progress=progress,
    )
    num_spared = 0
    if options.saved is not None:
        plan = options.saved.restrict(plan, progress)
        num_spared = options.saved.num_objects - plan.num_objects
    if not repository.lists_snapshots and ObjectKind.SNAPSHOT not in options.only:
        plan = protect_usable(plan, frozenset(), progress)
    backups = None
    if options.backups_older_than is not None or plan.abandoned_backups:
        backups = plan_backups(
            repository.storage,
            repository.info,
            options.backups_older_than,
            truncate_ops_log=options.truncate_ops_log,
            abandoned=plan.abandoned_backups,
        )
    check_max_delete(plan, options.only, backups, options.max_delete)
    return PlannedRun(plan, backups, num_spared)
