"""`metrics`: the numbers of a repository that a monitoring system records.

By default they come from the repo file and one listing of its backups. What these do not show,
such as the number of snapshots before spec version 2, is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from icectl.errors import UnsupportedError
from icectl.model.repo import Availability, ExpirationRanUpdate, GCRanUpdate, Update, UpdateType
from icectl.ops.refs import list_branches
from icectl.ops.settings import read_status
from icectl.ops.stats.result import BackupStats
from icectl.ops.stats.run import StatsOptions, measure, measure_backups
from icectl.pipeline.engine import ChooseEngine
from icectl.pipeline.local_engine import local_engine
from icectl.pipeline.progress import Progress
from icectl.repository.repository import Repository

if TYPE_CHECKING:
    from icectl.ops.gc.report import KindSummary


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    garbage_cutoff: int | None = None
    """Also measure all objects, and which of them gc would delete with this cutoff."""
    choose_engine: ChooseEngine = local_engine


@dataclass(frozen=True, slots=True)
class BranchMetrics:
    name: str
    flushed_at: int | None
    """Of its newest commit; None if that is missing or damaged."""


@dataclass(frozen=True, slots=True)
class DeepMetrics:
    native_bytes: int
    """As in `stats`, like the next three."""
    virtual_bytes: int
    inlined_bytes: int
    num_chunks: int
    objects: tuple[KindSummary, ...]
    """All that the storage holds."""
    garbage: tuple[KindSummary, ...] | None
    """As in a dry run of gc; None if gc refuses the repository, such as one that is not online."""
    garbage_cutoff_at: int


@dataclass(frozen=True, slots=True)
class RepositoryMetrics:
    spec_version: int
    availability: Availability | int
    """A number if this version of icectl does not know it."""
    branches: tuple[BranchMetrics, ...]
    num_tags: int
    num_deleted_tags: int
    num_snapshots: int | None
    num_operations: int | None
    """In the repo file; older ones are in its backups."""
    last_operation_at: int | None
    last_gc_at: int | None
    """None if the operations in the repo file include none; the same holds for expiration."""
    last_expiration_at: int | None
    repo_size_bytes: int | None
    overwritten: BackupStats | None
    """None if the storage cannot be listed."""
    deep: DeepMetrics | None = None


@dataclass(frozen=True, slots=True)
class FindingMetrics:
    code: str
    severity: str
    count: int


@dataclass(frozen=True, slots=True)
class MaintenanceMetrics:
    """One run of `maintain` on one repository; None and empty: that step did not run."""

    exit_code: int
    last_run_at: int
    duration_seconds: Mapping[str, float] = field(default_factory=dict)
    """By step."""
    deleted_objects: Mapping[str, int] | None = None
    """By kind, with the names of `gc`."""
    deleted_bytes: int | None = None
    failed_objects: int | None = None
    findings: tuple[FindingMetrics, ...] = ()


def measure_metrics(
    repository: Repository,
    options: MetricsOptions = MetricsOptions(),
    progress: Progress | None = None,
) -> RepositoryMetrics:
    info = repository.info
    updates = () if info is None else info.latest_updates
    cutoff = options.garbage_cutoff
    return RepositoryMetrics(
        spec_version=repository.spec_version,
        availability=read_status(repository).availability,
        branches=tuple(
            BranchMetrics(branch.name, branch.flushed_at)
            for branch in list_branches(repository).branches
        ),
        num_tags=len(repository.tags()),
        num_deleted_tags=len(repository.deleted_tags()),
        num_snapshots=None if info is None else len(info.snapshots),
        num_operations=None if info is None else len(updates),
        last_operation_at=_newest(updates),
        last_gc_at=_newest(updates, GCRanUpdate),
        last_expiration_at=_newest(updates, ExpirationRanUpdate),
        repo_size_bytes=repository.repo_size_bytes,
        overwritten=_measure_backups(repository),
        deep=None
        if cutoff is None
        else _measure_deep(repository, options, cutoff, progress or Progress()),
    )


def _newest(updates: Iterable[Update], kind: type[UpdateType] | None = None) -> int | None:
    found = (one.updated_at for one in updates if kind is None or isinstance(one.update_type, kind))
    return next(found, None)


def _measure_backups(repository: Repository) -> BackupStats | None:
    try:
        return measure_backups(repository)
    except UnsupportedError:  # behind a web server
        return None


def _measure_deep(
    repository: Repository, options: MetricsOptions, cutoff: int, progress: Progress
) -> DeepMetrics:
    stats = measure(repository, StatsOptions(choose_engine=options.choose_engine), progress)
    return DeepMetrics(
        native_bytes=stats.native_bytes,
        virtual_bytes=stats.virtual_bytes,
        inlined_bytes=stats.inlined_bytes,
        num_chunks=stats.num_chunks,
        objects=tuple(_measure_objects(repository, progress)),
        garbage=_measure_garbage(repository, options, cutoff, progress),
        garbage_cutoff_at=cutoff,
    )


def _measure_objects(repository: Repository, progress: Progress) -> Iterable[KindSummary]:
    from icectl.ops.gc.report import KindSummary
    from icectl.pipeline.objects import ObjectKind
    from icectl.storage.sharded_listing import list_columns_sharded

    layout = repository.layout
    directories = {
        ObjectKind.SNAPSHOT: layout.snapshots,
        ObjectKind.TRANSACTION_LOG: layout.transactions,
        ObjectKind.MANIFEST: layout.manifests,
        ObjectKind.CHUNK: layout.chunks,
    }
    for kind, directory in directories.items():
        if directory is None:
            continue
        count = size = 0
        with progress.phase(f"listing {directory}", None, "objects") as counter:
            for part in list_columns_sharded(repository.storage, directory):
                progress.check_time()
                count, size = count + len(part.names), size + int(part.sizes.sum())
                counter.advance(len(part.names))
        yield KindSummary(kind.plural, count, size)


def _measure_garbage(
    repository: Repository, options: MetricsOptions, cutoff: int, progress: Progress
) -> tuple[KindSummary, ...] | None:
    if not repository.is_writable or read_status(repository).availability != Availability.ONLINE:
        return None
    from icectl.ops.gc.report import KindSummary
    from icectl.ops.gc.run import GcOptions, plan_run

    chosen = GcOptions(cutoff=cutoff, choose_engine=options.choose_engine)
    run = plan_run(repository.storage, chosen, progress, repository)
    return tuple(
        KindSummary(kind.plural, len(garbage), garbage.bytes)
        for kind, garbage in run.plan.garbage.items()
    )
