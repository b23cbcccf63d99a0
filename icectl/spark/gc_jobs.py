"""Running jobs of Spark: with an end, and with failures told as the local engine tells them."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Self, TypeVar

from icectl.errors import FormatError, IcectlError, Remedy, StorageError
from icectl.pipeline.progress import Progress
from icectl.spark.failures import told_in_words
from icectl.spark.gc_executors import FAILURE_SQL, report_failure

Result = TypeVar("Result")
SECONDS_BETWEEN_LOOKS = 0.25
ATTEMPTS = 3


def map_in_arrow(frame: Any, function: Callable[[Any], Any], schema: str) -> Any:
    with warnings.catch_warnings():
        # About a version of pandas, which these functions do not use.
        warnings.simplefilter("ignore", FutureWarning)
        return frame.mapInArrow(function, schema)


class Source:
    """Rows that say what to do, one on each task, and the function that does it."""

    def __init__(self, rows: Any, function: Callable[[Any], Any], schema: str) -> None:
        self._rows = rows
        self._function = function
        self.frame = map_in_arrow(rows, function, schema)

    def find_failure(self) -> IcectlError | None:
        failures = map_in_arrow(self._rows, partial(report_failure, self._function), FAILURE_SQL)
        found = failures.orderBy("path", "message").limit(1).collect()
        return _failure(*found[0]) if found else None


def _failure(
    damaged: bool,
    message: str,
    path: str | None,
    offset: int | None,
    text: str | None,
    facts: Mapping[str, str] | None,
) -> IcectlError:
    hint = text if text is None or facts is None else Remedy(text, facts)
    if damaged:
        return FormatError(message, offset=offset, path=path, hint=hint)
    return StorageError(message, hint=hint)


def spread(spark: Any, table: Any) -> Any:
    """The rows of an Arrow table, each in a partition of its own."""
    frame = spark.createDataFrame(table).coalesce(1)
    # From one partition they are dealt out in turn.
    return frame.repartition(table.num_rows) if table.num_rows > 1 else frame


def run_job(
    spark: Any,
    progress: Progress,
    label: str,
    action: Callable[[], Result],
    sources: Sequence[Source] = (),
) -> Result:
    """The result of `action`; what failed in one of the `sources` is raised as its own error.

    It may be called again, and must build its DataFrame itself: one that failed stays so.
    """
    with told_in_words(), progress.phase(label), _Job(spark, progress) as job:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return job.run(action)
            except IcectlError:
                raise
            except Exception:
                for source in sources:
                    failure = job.run(source.find_failure)
                    if failure is not None:
                        raise failure from None
                # Spark gives up on a job when executors were lost and the part that it computes
                # again is another one by now: files were deleted, or writers added some.
                if attempt == ATTEMPTS:
                    raise
    raise AssertionError("unreachable")


def iterate_rows(spark: Any, progress: Progress, frame: Any) -> Iterator[Any]:
    """All rows, a partition at a time."""
    with told_in_words(), _Job(spark, progress) as job:
        rows = job.run(lambda: iter(frame.toLocalIterator()))
        while (row := job.run(lambda: next(rows, None))) is not None:
            yield row


class _Job:
    """Actions on a thread of their own, with a tag by which they are cancelled in time."""

    def __init__(self, spark: Any, progress: Progress) -> None:
        self._spark = spark
        self._progress = progress
        self._tag = f"icectl-{secrets.token_hex(8)}"
        self._pool = ThreadPoolExecutor(1, "icectl-spark")

    def __enter__(self) -> Self:
        add = self._spark.addTag if self._is_remote else self._spark.sparkContext.addJobTag
        self._pool.submit(add, self._tag).result()
        return self

    def __exit__(self, *failure: object) -> None:
        self._pool.shutdown()

    @property
    def _is_remote(self) -> bool:
        """A client of Spark Connect has no context; tags of any other session reach no job."""
        return not hasattr(self._spark, "sparkContext")

    def _cancel(self) -> None:
        if self._is_remote:
            self._spark.interruptTag(self._tag)
        else:
            self._spark.sparkContext.cancelJobsWithTag(self._tag)

    def run(self, action: Callable[[], Result]) -> Result:
        """`OutOfTimeError` when the time is over; the action is cancelled then."""
        future = self._pool.submit(action)
        try:
            while True:
                try:
                    return future.result(SECONDS_BETWEEN_LOOKS)
                except TimeoutError:
                    if future.done():
                        raise
                    self._progress.check_time()
        finally:
            # Again and again: Spark cancels what runs, and the action may not have got there yet.
            while not future.done():
                self._cancel()
                wait([future], SECONDS_BETWEEN_LOOKS)
