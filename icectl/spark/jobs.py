"""Run Spark jobs: with a deadline, and with the errors that the local engine would raise."""

from __future__ import annotations

import pickle
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from copy import copy
from functools import partial
from typing import Any, Self, TypeVar

import pyarrow as pa

from icectl.errors import IcectlError
from icectl.pipeline.progress import Counter, Progress
from icectl.spark.executors import FAILURE_SQL, report_failure
from icectl.spark.failures import translate_failures

Result = TypeVar("Result")
SECONDS_BETWEEN_LOOKS = 0.25
ATTEMPTS = 3


def map_in_arrow(frame: Any, function: Callable[[Any], Any], schema: str) -> Any:
    with warnings.catch_warnings():
        # About a version of pandas, which these functions do not use.
        warnings.simplefilter("ignore", FutureWarning)
        return frame.mapInArrow(function, schema)


class Source:
    """A function that executors apply to values, one value for each task."""

    def __init__(
        self, spark: Any, values: Iterable[Any], function: Callable[[Any], Any], schema: str
    ) -> None:
        self._values = _spread(spark, values)
        self._function = function
        self.frame = map_in_arrow(self._values, function, schema)

    def with_function(self, function: Callable[[Any], Any], schema: str) -> Source:
        """Another function of the same values."""
        other = copy(self)
        other._function, other.frame = function, map_in_arrow(self._values, function, schema)
        return other

    def find_failure(self) -> IcectlError | None:
        """Apply the function again to each value, and return the first error of icectl."""
        failures = map_in_arrow(self._values, partial(report_failure, self._function), FAILURE_SQL)
        found = failures.orderBy("path", "message").limit(1).collect()
        if not found:
            return None
        error: IcectlError = pickle.loads(found[0].error)  # noqa: S301 -- from our executors
        return error


def map_groups(frame: Any, key: str, function: Callable[[Any], Any], schema: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return frame.groupBy(key).applyInArrow(function, schema)


def _spread(spark: Any, values: Iterable[Any]) -> Any:
    """A DataFrame with a pickled value in each partition; `executors.read_values` reads it."""
    rows = [pickle.dumps(value) for value in values]
    frame = spark.createDataFrame(pa.table({"value": pa.array(rows, pa.binary())})).coalesce(1)
    # From one partition they are dealt out in turn.
    return frame.repartition(len(rows)) if len(rows) > 1 else frame


def run_job(
    spark: Any,
    progress: Progress,
    label: str,
    action: Callable[[], Result],
    sources: Sequence[Source] = (),
    *,
    attempts: int = ATTEMPTS,
) -> Result:
    """The result of `action`; the error of a function of the `sources` is raised as it is.

    The action may be called again, and must build its DataFrame itself: one that failed stays so.
    """
    phase = progress.phase(label, None, "tasks")
    with translate_failures(), phase as counter, _Job(spark, progress, counter) as job:
        for attempt in range(1, attempts + 1):
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
                if attempt == attempts:
                    raise
    raise AssertionError("unreachable")


def iterate_rows(spark: Any, progress: Progress, frame: Any) -> Iterator[Any]:
    """All rows, a partition at a time."""
    with translate_failures(), _Job(spark, progress) as job:
        rows = job.run(lambda: iter(frame.toLocalIterator()))
        while (row := job.run(lambda: next(rows, None))) is not None:
            yield row


class _Job:
    """Runs actions on a thread, with a tag by which Ctrl-C and the deadline cancel them."""

    def __init__(self, spark: Any, progress: Progress, counter: Counter | None = None) -> None:
        self._spark = spark
        self._progress = progress
        self._counter = counter
        self._tasks: dict[int, tuple[int, int]] = {}
        """The tasks of each stage: how many are done, and all."""
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

    def _count_tasks(self) -> None:
        if self._counter is None or self._is_remote:
            return
        before = sum(done for done, _ in self._tasks.values())
        tracker = self._spark.sparkContext.statusTracker()
        for number in {*self._tasks, *tracker.getActiveStageIds()}:
            stage = tracker.getStageInfo(number)
            if stage is not None:
                self._tasks[number] = (stage.numCompletedTasks, stage.numTasks)
        self._counter.expect(sum(total for _, total in self._tasks.values()))
        self._counter.advance(sum(done for done, _ in self._tasks.values()) - before)

    def run(self, action: Callable[[], Result]) -> Result:
        """The result of the action; `OutOfTimeError`, after cancelling it, at the deadline."""
        future = self._pool.submit(action)
        try:
            while True:
                try:
                    return future.result(SECONDS_BETWEEN_LOOKS)
                except TimeoutError:
                    if future.done():
                        raise
                    self._progress.check_time()
                    self._count_tasks()
        finally:
            # Again and again: Spark cancels what runs, and the action may not have got there yet.
            while not future.done():
                self._cancel()
                wait([future], SECONDS_BETWEEN_LOOKS)
