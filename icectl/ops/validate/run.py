"""The whole run, level by level, on the state that was read first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from icectl.checks.rules import Level, Severity
from icectl.errors import Hint, IcectlError
from icectl.ops.validate.refs import check_ancestry, check_ops_log, check_refs, read_history
from icectl.ops.validate.report import CheckedCounts, Report, ValidateResult, build_result
from icectl.pipeline.engine import ChooseEngine
from icectl.pipeline.local_engine import local_engine
from icectl.pipeline.progress import Progress
from icectl.repository.backups import describe_backups
from icectl.repository.history import History
from icectl.repository.open import open_repository
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.pipeline.sampling import Sample

logger = logging.getLogger(__name__)

LOCAL = "local"


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    level: Level = Level.METADATA
    refs: tuple[str, ...] = ()
    """Look only at what these lead to; empty: at everything."""
    fail_on: Severity = "error"
    max_findings: int = 1000
    known: frozenset[tuple[str, str, str | None]] = frozenset()
    """The findings that a baseline excuses."""
    decode: bool = False
    sample: Sample | None = None
    """At level data: read a part of the chunks only."""
    now: int = 0
    """Decides which part."""
    open_source: Callable[[str], Storage] | None = None
    """Opens the storage of virtual chunks; None leaves them alone."""
    allowed_sources: tuple[str, ...] = ()
    """Sources that are contacted though no container covers them, or on local disk."""
    choose_engine: ChooseEngine = local_engine
    state: str = REPO_PATH
    """The object with the state that is checked: `repo`, or a backup of it."""


def validate(
    storage: Storage, options: ValidateOptions, progress: Progress | None = None
) -> tuple[ValidateResult, Report]:
    """What was found, and the report with the files that are missing."""
    report = Report(options.max_findings, options.known)
    repository = check_refs(storage, report, options.state)
    history, checked, engine = None, CheckedCounts(), LOCAL
    notes: list[Hint] = []
    if repository is None:
        notes.append("nothing behind the refs was looked at, since they cannot be read")
        if (backups := describe_backups(storage)) is not None:
            notes.append(backups)
    else:
        background = ThreadPoolExecutor(1, "icectl-ops-log")
        ops_log = background.submit(_check_ops_log, repository, report)
        background.shutdown(wait=False)
        history = read_history(repository, options.refs)
        report.extend(check_ancestry(repository, history))
        if options.level >= Level.METADATA or options.open_source is not None:
            checked, engine = _check_files(
                repository, history, options, report, notes, progress or Progress()
            )
        ops_log.result()
        if options.state == REPO_PATH:
            _forget_what_went(repository, report)
    result = build_result(
        report,
        history,
        level=options.level,
        engine=engine,
        fail_on=options.fail_on,
        checked=checked,
        notes=tuple(notes),
    )
    return result, report


def _check_ops_log(repository: Repository, report: Report) -> None:
    if repository.info is not None:
        check_ops_log(repository.storage, repository.info, report)


def _check_files(
    repository: Repository,
    history: History,
    options: ValidateOptions,
    report: Report,
    notes: list[Hint],
    progress: Progress,
) -> tuple[CheckedCounts, str]:
    """How many files were looked at, and by which engine."""
    from icectl.ops.validate.metadata import check_metadata

    decode = options.level >= Level.DATA and options.decode
    is_deep = options.level >= Level.MANIFESTS or options.open_source is not None
    metadata = check_metadata(repository, history, report, progress, decode=decode, is_deep=is_deep)
    checked = CheckedCounts(metadata.num_snapshots, metadata.num_logs)
    if not is_deep:
        return checked, LOCAL
    from icectl.ops.validate.chunks import add_coordinates
    from icectl.ops.validate.deep_levels import DeepCheck, check_deep_levels

    num_chunk_refs = sum(claim.num_chunk_refs for claim in metadata.claims.values())
    # Repositories of early generations are small, and reading their manifests needs the history.
    choose = options.choose_engine if repository.is_writable else local_engine
    engine = choose(num_chunk_refs)
    logger.info("engine: %s, for %s chunk references", engine.name, f"{num_chunk_refs:,}")
    check = DeepCheck(
        repository,
        history,
        metadata,
        options.level,
        decode,
        options.sample,
        options.now,
        options.open_source,
        options.allowed_sources,
        notes,
    )
    deeper = check_deep_levels(engine, check, report, progress)
    add_coordinates(repository, metadata, report, progress)
    checked = replace(
        deeper, snapshots=checked.snapshots, transaction_logs=checked.transaction_logs
    )
    return checked, engine.name


def _forget_what_went(repository: Repository, report: Report) -> None:
    """Somebody's gc may have deleted snapshots of our state meanwhile: that is no damage."""
    if not any(snapshots for _, snapshots in report.problems):
        return
    try:
        newest = open_repository(repository.storage)
    except IcectlError:
        return
    if newest.info is not None and newest.info == repository.info:
        return
    there = read_history(newest, ()).parents
    report.remove(lambda snapshots: bool(snapshots) and there.keys().isdisjoint(snapshots))
