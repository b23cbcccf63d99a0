"""The whole run, level by level, on the state that was read first."""

from __future__ import annotations

from dataclasses import dataclass

from icectl.errors import IcectlError
from icectl.ops.gc.watch import Watch
from icectl.ops.validate.history import read_history
from icectl.ops.validate.problem import Report
from icectl.ops.validate.refs import check_refs
from icectl.ops.validate.result import CheckedCounts, ValidateResult, build_result
from icectl.ops.validate.rule import Level, Severity
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    level: Level = Level.METADATA
    refs: tuple[str, ...] = ()
    """Look only at what these lead to; empty: at everything."""
    fail_on: Severity = "error"
    max_findings: int = 1000
    known: frozenset[tuple[str, str, str | None]] = frozenset()


def validate(
    storage: Storage, options: ValidateOptions, watch: Watch | None = None
) -> tuple[ValidateResult, list[str]]:
    """What was found, and the objects that are missing."""
    watch = watch or Watch()
    report = Report(options.max_findings, options.known)
    repository = check_refs(storage, report)
    history, checked = None, CheckedCounts()
    notes: list[str] = []
    if repository is None:
        notes.append("nothing behind the repo file was looked at, since it cannot be read")
    else:
        history = read_history(repository, options.refs)
        if options.level >= Level.METADATA:
            from icectl.ops.validate.metadata import check_metadata

            metadata = check_metadata(repository, history, report, watch)
            checked = CheckedCounts(metadata.num_snapshots, metadata.num_logs)
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
