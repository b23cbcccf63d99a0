"""Objects to delete that the executors hold; the driver knows their number and bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as sql

from icectl.pipeline.deletion import DeletedBatch, DeleteFailure
from icectl.pipeline.engine import KEYS
from icectl.pipeline.id_columns import IdSet
from icectl.pipeline.objects import Garbage, ObjectKind
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.spark import executors
from icectl.spark.columns import (
    OBJECT_COLUMNS,
    PACKED_SQL,
    batch_ids,
    id_columns_of,
    to_garbage,
)
from icectl.spark.jobs import Source, iterate_rows, map_in_arrow, run_job
from icectl.storage.contract import Storage

DELETES_PER_TASK = 65_536
GRACE_SECONDS = 30


def id_frame(spark: Any, ids: IdSet) -> Any:
    return spark.createDataFrame(pa.table(id_columns_of(ids)))


@dataclass(frozen=True, slots=True, eq=False)
class SparkGarbage:
    """A set of garbage as a DataFrame of `high`, `low`, `size` and `created_at`."""

    spark: Any
    kind: ObjectKind
    frame: Any
    count: int
    bytes: int
    progress: Progress
    """The deadline of the jobs about it."""

    @classmethod
    def counted(
        cls,
        spark: Any,
        kind: ObjectKind,
        frame: Any,
        progress: Progress,
        label: str = "",
        sources: Sequence[Source] = (),
    ) -> SparkGarbage:
        total = (sql.count("*"), sql.coalesce(sql.sum("size"), sql.lit(0)))
        ((count, size),) = run_job(
            spark, progress, label, lambda: frame.agg(*total).collect(), sources
        )
        return cls(spark, kind, frame, count, size, progress)

    def __len__(self) -> int:
        return self.count

    def within(self, ids: IdSet) -> SparkGarbage:
        return self._joined(ids, "left_semi")

    def without(self, ids: IdSet) -> SparkGarbage:
        return self._joined(ids, "left_anti")

    def _joined(self, ids: IdSet, how: str) -> SparkGarbage:
        frame = self.frame.join(id_frame(self.spark, ids), list(KEYS), how)
        return self.counted(self.spark, self.kind, frame.persist(), self.progress)

    def parts(self) -> Iterator[Garbage]:
        packed = map_in_arrow(self.frame.orderBy(*KEYS), executors.pack, PACKED_SQL)
        for row in iterate_rows(self.spark, self.progress, packed):
            columns = {name: np.frombuffer(row[name], np.int64) for name in OBJECT_COLUMNS}
            yield to_garbage(self.kind, columns)

    def first(self, count: int) -> IdSet:
        rows = self.frame.select(*KEYS).orderBy(*KEYS).limit(count)
        return batch_ids(run_job(self.spark, self.progress, "", lambda: rows.toArrow()))

    def largest(self, count: int) -> Garbage:
        order = (sql.col("size").desc(), *KEYS)
        table = run_job(
            self.spark, self.progress, "", lambda: self.frame.orderBy(*order).limit(count).toArrow()
        )
        return to_garbage(
            self.kind, {name: table.column(name).to_numpy() for name in OBJECT_COLUMNS}
        )

    def count_ages(self, now: int, bounds: Sequence[int]) -> NDArray[np.int64]:
        age = sql.lit(now) - sql.col("created_at")
        group = reduce(
            lambda found, number: sql.when(age < bounds[number], number).otherwise(found),
            reversed(range(len(bounds))),
            sql.lit(len(bounds)),
        )
        totals = (sql.count("*"), sql.sum("size"))
        rows = run_job(
            self.spark, self.progress, "", lambda: self.frame.groupBy(group).agg(*totals).collect()
        )
        counts = np.zeros((len(bounds) + 1, 2), np.int64)
        for number, count, size in rows:
            counts[number] = count, size
        return counts

    def delete(self, storage: Storage, progress: Progress) -> Iterator[DeletedBatch]:
        """Delete on the executors; a task that is repeated deletes what is left."""
        if not self.count:
            return
        left = progress.seconds_left
        ends_at = None if left is None else time.time() + left
        # The executors look at the clock themselves, unless there are none any more.
        patience = None if left is None else time.monotonic() + left + GRACE_SECONDS
        tasks = -(-self.count // DELETES_PER_TASK)

        def delete() -> list[Any]:
            # By id, so that a task that is repeated finds its own objects again.
            objects = self.frame.repartition(tasks, *KEYS).sortWithinPartitions("created_at")
            function = partial(executors.delete, storage, self.kind, ends_at)
            rows: list[Any] = map_in_arrow(objects, function, executors.DELETED_SQL).collect()
            return rows

        try:
            rows = run_job(self.spark, Progress(None, patience), "", delete)
        except OutOfTimeError:
            yield DeletedBatch(is_complete=False)
            return
        failures = tuple(DeleteFailure(*failure) for row in rows for failure in row.failures)
        if all(row.is_complete for row in rows):
            # What a lost executor deleted was not there any more when its task was repeated.
            failed_bytes = sum(failure.size for failure in failures)
            yield DeletedBatch(self.count - len(failures), self.bytes - failed_bytes, failures)
        else:
            count, size = (sum(row[name] for row in rows) for name in ("count", "bytes"))
            yield DeletedBatch(count, size, failures, is_complete=False)
