"""The whole run, level by level, on the state that was read first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from icectl.errors import IcectlError
from icectl.ops.gc.watch import Watch
from icectl.ops.validate.history import History, read_history
from icectl.ops.validate.problem import Report
from icectl.ops.validate.refs import check_refs
from icectl.ops.validate.result import CheckedCounts, ValidateResult, build_result
from icectl.ops.validate.rule import Level, Severity
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.model.manifest import Manifest
    from icectl.ops.validate.sampling import Sample


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


def validate(
    storage: Storage, options: ValidateOptions, watch: Watch | None = None
) -> tuple[ValidateResult, list[str]]:
    """What was found, and the objects that are missing."""
    report = Report(options.max_findings, options.known)
    repository = check_refs(storage, report)
    history, checked = None, CheckedCounts()
    notes: list[str] = []
    if repository is None:
        notes.append("nothing behind the refs was looked at, since they cannot be read")
    else:
        history = read_history(repository, options.refs)
        if options.level >= Level.METADATA or options.open_source is not None:
            checked = _check_files(repository, history, options, report, notes, watch or Watch())
        _forget_what_went(repository, report)
    result = build_result(
        report,
        history,
        level=options.level,
        fail_on=options.fail_on,
        checked=checked,
        notes=tuple(notes),
    )
    return result, report.missing


def _check_files(
    repository: Repository,
    history: History,
    options: ValidateOptions,
    report: Report,
    notes: list[str],
    watch: Watch,
) -> CheckedCounts:
    from icectl.ops.validate.metadata import check_metadata

    metadata = check_metadata(repository, history, report, watch)
    checked = CheckedCounts(metadata.num_snapshots, metadata.num_logs)
    if options.level < Level.MANIFESTS and options.open_source is None:
        return checked
    from icectl.ops.validate.chunks import NeededChunks, check_chunks
    from icectl.ops.validate.manifests import check_manifests
    from icectl.ops.validate.virtual import Sources, check_virtual

    needed, sources = NeededChunks(repository, metadata), Sources()

    def visit(manifest: Manifest) -> None:
        if options.level >= Level.CHUNKS:
            needed.add(manifest)
        if options.open_source is not None:
            sources.add(manifest)

    manifests = check_manifests(repository, metadata, report, watch, visit)
    checked = replace(
        checked, manifests=manifests.num_manifests, chunk_refs=manifests.num_chunk_refs
    )
    if options.level >= Level.CHUNKS:
        if needed.has_long_ids:
            notes.append("the chunk files of this early generation were not looked for")
        else:
            count = check_chunks(repository, history, needed, report, watch)
            checked = replace(checked, chunks=count)
    if options.level >= Level.DATA:
        from icectl.ops.validate.data import check_data

        count = check_data(
            repository.storage,
            needed,
            options.sample,
            options.now,
            report,
            watch,
            decode=options.decode,
        )
        checked = replace(checked, chunks_read=count)
    if options.open_source is not None:
        count = check_virtual(repository, metadata, sources, options.open_source, report, watch)
        checked = replace(checked, virtual_sources=count)
    return checked


def _forget_what_went(repository: Repository, report: Report) -> None:
    """Somebody's gc may have deleted snapshots of our state meanwhile: that is no damage."""
    if not any(snapshots for _, snapshots in report.problems):
        return
    try:
        newest = open_repository(repository.storage)
    except IcectlError:
        return
    if newest.info is None or newest.info == repository.info:
        return
    there = {info.id for info in newest.info.snapshots}
    report.remove(lambda snapshots: bool(snapshots) and there.isdisjoint(snapshots))
