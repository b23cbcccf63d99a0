"""Maintain many repositories: on threads, each with its lock, its progress and its report."""

from __future__ import annotations

import shlex
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from icectl.cli.context import CommandContext
from icectl.cli.failures import InterruptionError, describe_failure
from icectl.cli.maintenance_policy import MAX_DELETE, OLDER_THAN, MaintenanceTable
from icectl.cli.terminal import log_subject
from icectl.errors import IcectlError, Remedy
from icectl.model.redaction import redact_location
from icectl.ops.maintain import MaintenanceResult, RepositoryMaintenance, maintain, report_result
from icectl.ops.maintenance_lock import lock_name, maintenance_lock
from icectl.ops.metrics import RepositoryMetrics, measure_metrics
from icectl.pipeline.progress import Counter, OutOfTimeError, Progress
from icectl.render.gc import render_notes
from icectl.repository.open import open_repository

STOPPING_SECONDS = 1.0
"""After Ctrl-C, work that ends in this time reports what it did."""
STALLED_SECONDS = 10.0
"""After the time limit, work that ends in this time reports what it did."""
CONTINUES = "the repository is consistent; the next run continues"


@dataclass(slots=True)
class _Work:
    """The maintenance of one repository."""

    table: MaintenanceTable
    location: str
    progress: Progress
    result: MaintenanceResult
    """Filled in as the work goes on."""

    @property
    def name(self) -> str:
        return self.table.repository


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """One run over the chosen repositories."""

    context: CommandContext
    tables: Sequence[MaintenanceTable]
    jobs: int
    max_seconds: float | None
    wait_seconds: float
    measures: bool
    measured: dict[str, RepositoryMetrics] = field(default_factory=dict)
    """By name, for those that could be read after the run."""
    _serial: defaultdict[str, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )
    """One place may have two names in the config file; these wait for each other."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _noted: set[str] = field(default_factory=set)

    def run(
        self, *, dry_run: bool, show: Callable[[RepositoryMaintenance], None]
    ) -> list[RepositoryMaintenance]:
        """Maintain all and call `show` as each is done; Ctrl-C and the time limit stop the work.

        Threads that do not stop, because a server does not answer, end with the process, which is
        safe at any time.
        """
        deadline = None if self.max_seconds is None else time.monotonic() + self.max_seconds
        works = [self._begin(table, dry_run, deadline) for table in self.tables]
        pool = ThreadPoolExecutor(self.jobs, "icectl-maintain")
        futures = {pool.submit(self._maintain, work): work for work in works}
        done: dict[str, RepositoryMaintenance] = {}

        def finish(work: _Work, reported: RepositoryMaintenance) -> None:
            done[work.name] = reported
            show(reported)

        try:
            limit = None if self.max_seconds is None else self.max_seconds + STALLED_SECONDS
            for future in as_completed(futures, limit):
                finish(futures[future], future.result())
        except (KeyboardInterrupt, TimeoutError) as stop:
            if isinstance(stop, KeyboardInterrupt):
                self._stopping.set()
            for work in works:
                work.progress.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            wait(futures, STOPPING_SECONDS)
            for future, work in futures.items():
                if work.name not in done:
                    was_begun = not future.cancelled()
                    is_over = was_begun and future.done()
                    finish(work, future.result() if is_over else self._abandon(work, was_begun))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return [done[work.name] for work in works]

    def _begin(self, table: MaintenanceTable, dry_run: bool, deadline: float | None) -> _Work:
        # The location in the config file, for a storage that cannot be opened.
        location = redact_location(table.config.repositories[table.repository].url)
        progress = Progress(partial(self._start_phase, table.repository), deadline)
        return _Work(table, location, progress, MaintenanceResult(dry_run))

    def _abandon(self, work: _Work, was_begun: bool) -> RepositoryMaintenance:
        """Report what was done until now; the thread may still be at work."""
        failure: IcectlError
        if self._stopping.is_set():
            message = "interrupted" if was_begun else "interrupted before it was begun"
            failure = InterruptionError(message, hint=CONTINUES)
        else:
            when = "and the storage does not answer" if was_begun else "before it was begun"
            failure = OutOfTimeError(
                f"the time limit expired {when}", hint=Remedy("continue-later")
            )
        result = replace(work.result, failure=failure, seconds=dict(work.result.seconds))
        return self._report(replace(work, result=result))

    def _maintain(self, work: _Work) -> RepositoryMaintenance:
        """Maintain one repository, on a thread of the pool."""
        name, table, result = work.name, work.table, work.result
        log_subject.set(name)
        context = self.context.for_repository(name)
        try:
            storage = context.open_storage()
            work.location = storage.location
            lock: AbstractContextManager[None] = nullcontext()
            if not result.dry_run:
                warn = partial(self._warn, name)
                lock = maintenance_lock(
                    storage, context.environ, work.progress, warn, self.wait_seconds
                )
            with self._serial[lock_name(storage)], lock:
                maintain(
                    storage,
                    lambda now: table.policy_at(now, context.now()),
                    work.progress,
                    result,
                )
                if self.measures and not result.dry_run and result.is_readable:
                    with suppress(IcectlError):
                        self.measured[name] = measure_metrics(open_repository(storage))
        except Exception as error:
            result.failure = error
        if self._stopping.is_set() and result.is_out_of_time:
            result.failure = InterruptionError("interrupted", hint=CONTINUES)
        self._warn_of_result(name, result)
        return self._report(work)

    def _start_phase(
        self, name: str, label: str, total: int | None, unit: str
    ) -> AbstractContextManager[Counter]:
        """Show the phase with the name of the repository; after Ctrl-C, nothing new begins."""
        if self._stopping.is_set():
            raise InterruptionError("interrupted")
        return self.context.display.phase(f"{name}: {label}", total, unit)

    def _report(self, work: _Work) -> RepositoryMaintenance:
        """Word the failure and the notes for this repository."""
        table, result = work.table, work.result
        context = self.context.for_repository(table.repository)
        error = None
        if result.failure is not None:
            hint = getattr(result.failure, "hint", None)
            if isinstance(hint, Remedy) and hint.name == "show-plan-without-limit":
                call = f"icectl gc --older-than {shlex.quote(table.values[OLDER_THAN])} --dry-run"
                result.failure.hint = (  # type: ignore[attr-defined]
                    f"nothing was deleted; show the plan with `{call}`; if it is right, raise "
                    f"{MAX_DELETE} in {table.config.path}"
                )
            error = describe_failure(result.failure, context)
        if result.validate is not None:
            notes = tuple(map(context.describe, result.validate.notes))
            result.validate = replace(result.validate, notes=notes)
        return report_result(work.name, work.location, result, error)

    def _warn_of_result(self, name: str, result: MaintenanceResult) -> None:
        notes = [f"{key} {glob} does not match any name" for key, glob in result.idle_globs]
        notes += [
            f"the branch {branch} is kept: the ops log does not show when it was created"
            for branch in result.branches_of_unknown_age
        ]
        for note in (f"{name}: {text}" for text in notes):
            if note not in self._noted:  # when the plan was made
                self._noted.add(note)
                with suppress(OSError):
                    self.context.note(note)
        for note in render_notes(result.gc) if result.gc is not None else ():
            self._warn(name, note)

    def _warn(self, name: str, message: str) -> None:
        """A closed stderr must not stop the maintenance."""
        with suppress(OSError):
            self.context.warn(f"{name}: {message}")
