"""The engine of a Spark cluster: executors scan, list, compare and delete.

The driver receives notes, sums, counts and problems; it never holds the set of chunks. Unreferenced
objects stay in a DataFrame that the executors keep. If an executor is lost, its part is computed
again: every file that it reads is checked again, and in the meantime the listing can only have
lost objects that were deleted or gained objects that are too young to be deleted.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import functions as sql

from icectl.pipeline.comparison import MISSING
from icectl.pipeline.engine import (
    KEYS,
    REFERENCES,
    Columns,
    Comparison,
    Listed,
    Mismatches,
    Scan,
    TableFiles,
    Work,
)
from icectl.pipeline.id_columns import EMPTY, IdSet
from icectl.pipeline.listings import Listings
from icectl.pipeline.objects import GarbageSet, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.units import split
from icectl.spark import executors
from icectl.spark.buckets import Buckets
from icectl.spark.columns import OBJECT_COLUMNS, RowSchema, batch_ids, from_signed, is_flipped
from icectl.spark.garbage import SparkGarbage, id_frame
from icectl.spark.jobs import Source, map_groups, map_in_arrow, run_job
from icectl.spark.table_files import spark_schema, write_frame
from icectl.storage.contract import ListingShard, Storage
from icectl.storage.sharded_listing import plan_shards_of

UNIT_ITEMS = 256
OBJECTS_PER_SHARD = 50_000
MOST_SHARDS = 1024
MOST_TASKS = 1024
MISMATCHES_PER_TASK = 16_384
MOST_FOREIGN = 10_000
"""Foreign names that are reported: the driver must not hold a directory of them."""
_SMALLEST = -(2**63)
_REDUCTIONS: dict[str, Any] = {"min": sql.min, "max": sql.max, "or": sql.bit_or}


_HALF = 2**32
_HALVES = ("high_sum", "low_sum")


def _half_sums(values: Any) -> tuple[Any, Any]:
    """The sums of both halves of unsigned numbers, whose own sum may exceed 64 bits."""
    halves = sql.shiftrightunsigned(values, 32), values.bitwiseAND(sql.lit(_HALF - 1))
    return sql.sum(halves[0]), sql.sum(halves[1])


class SparkEngine:
    name = "spark"

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._persisted: list[Any] = []

    def map(self, work: Work, progress: Progress) -> Iterator[Any]:
        if work.items:
            yield from self.scan(replace(work, tables={}), progress).notes()

    def scan(self, work: Work, progress: Progress, *, is_reused: bool = False) -> SparkScan:
        schema = RowSchema(work.tables, work.has_notes)
        units = split(work.items, work.weigh, most_items=UNIT_ITEMS)
        source = Source(
            self._spark,
            (unit.items for unit in units),
            partial(executors.run_work, replace(work, items=()), schema),
            schema.sql,
        )
        if is_reused:
            source.frame = self._persist(source.frame)
        return SparkScan(self._spark, work, schema, source, progress, is_reused)

    def list_objects(
        self, storage: Storage, kind: ObjectKind, listings: Listings, num_expected: int
    ) -> Listed:
        listings.abandon(kind)  # the executors list
        count = max(storage.listing_shards(), min(num_expected // OBJECTS_PER_SHARD, MOST_SHARDS))
        return SparkListed(storage, kind, plan_shards_of(storage, kind.directory, count))

    def compare(
        self,
        references: Scan,
        listed: Listed,
        progress: Progress,
        *,
        cutoff: int | None = None,
        exact_sizes: bool = False,
    ) -> Comparison:
        assert isinstance(references, SparkScan) and isinstance(listed, SparkListed)
        schema = references.schema
        buckets = Buckets.for_references(references.num_expected, schema.tables[REFERENCES])
        shards = Source(
            self._spark,
            listed.shards,
            partial(executors.list_shards, listed.storage, listed.kind, buckets),
            buckets.sql,
        )
        needed = references.pack(buckets)
        types = dict.fromkeys((*OBJECT_COLUMNS, "foreign", *schema.values), "bigint")
        types = {"what": "int"} | types | {"foreign": "string"}

        def compare(rows: Any) -> Any:
            return executors.compare(
                listed.storage, listed.kind, schema, buckets, cutoff, exact_sizes, rows
            )

        outcome = self._persist(
            map_groups(
                shards.frame.union(needed.frame),
                "bucket",
                compare,
                ", ".join(f"`{name}` {type_}" for name, type_ in types.items()),
            )
        )
        totals = (sql.count("*"), sql.coalesce(sql.sum("size"), sql.lit(0)))
        counts = run_job(
            self._spark,
            progress,
            f"comparing references and {listed.kind.directory} on Spark",
            lambda: {
                what: (count, size)
                for what, count, size in outcome.groupBy("what").agg(*totals).collect()
            },
            (needed, shards),
        )
        return SparkComparison(
            self._spark, listed.kind, references.schema, outcome, counts, progress
        )

    def exclude(self, objects: GarbageSet, references: Scan, progress: Progress) -> GarbageSet:
        assert isinstance(objects, SparkGarbage) and isinstance(references, SparkScan)
        rest = objects.frame.join(references.rows(REFERENCES), list(KEYS), "left_anti")
        return SparkGarbage.counted(
            self._spark,
            objects.kind,
            self._persist(rest.select(*objects.frame.columns)),
            progress,
            "excluding objects that are needed now",
            (references.source,),
        )

    def write_table(self, files: TableFiles, progress: Progress) -> int | None:
        source = Source(
            self._spark,
            files.parts,
            partial(executors.read_parts, files.read),
            spark_schema(files.schema),
        )

        def write() -> None:
            write_frame(source.frame, files)

        # Once: a second attempt would find the directory of the first one.
        run_job(self._spark, progress, f"{files.label} on Spark", write, (source,), attempts=1)
        return None

    def release(self) -> None:
        while self._persisted:
            self._persisted.pop().unpersist()

    def _persist(self, frame: Any) -> Any:
        self._persisted.append(frame.persist())
        return self._persisted[-1]


@dataclass(frozen=True, slots=True)
class SparkListed:
    storage: Storage
    kind: ObjectKind
    shards: Sequence[ListingShard]


@dataclass(frozen=True, slots=True, eq=False)
class SparkScan:
    spark: Any
    work: Work
    schema: RowSchema
    source: Source
    progress: Progress
    is_reused: bool
    """Whether the rows are kept, so that they are not read again."""

    @property
    def num_expected(self) -> int:
        return sum(self.work.weigh(item)[1] for item in self.work.items)

    def pack(self, buckets: Buckets) -> Source:
        """The table `REFERENCES` in buckets."""
        if not self.is_reused:
            work = replace(self.work, items=())
            pack = partial(executors.pack_references, work, buckets)
            return self.source.with_function(pack, buckets.sql)
        packed = copy(self.source)
        pack = partial(executors.pack_rows, self.schema, buckets)
        packed.frame = map_in_arrow(self.rows(REFERENCES), pack, buckets.sql)
        return packed

    def rows(self, table: str) -> Any:
        """The rows of a table; a key may occur once for each unit of work."""
        frame = self.source.frame
        if "table" in self.schema.labels:
            frame = frame.where(sql.col("table") == table)
        elif "note" in self.schema.labels:
            frame = frame.where(sql.col("note").isNull())
        return frame.select(*KEYS, *self.work.tables[table])

    def distinct(self, table: str) -> Any:
        return self._reduce(self.rows(table), list(KEYS), list(self.work.tables[table]))

    def _reduce(self, frame: Any, keys: list[str], names: list[str]) -> Any:
        columns = self.schema.values
        alone = [name for name in names if columns[name].reduce != "any"]
        together = [name for name in names if columns[name].reduce == "any"]
        found = [_REDUCTIONS[columns[name].reduce](name).alias(name) for name in alone]
        if len(together) == 1:
            found.append(sql.max(together[0]).alias(together[0]))
        elif together:
            found.append(sql.min(sql.struct(*together)).alias("any"))
        if not found:
            return frame.select(*keys).distinct()
        reduced = frame.groupBy(*keys).agg(*found)
        if len(together) > 1:
            places = [sql.col(f"any.{name}").alias(name) for name in together]
            reduced = reduced.select(*keys, *alone, *places)
        return reduced

    def notes(self) -> list[Any]:
        def collect() -> list[Any]:
            frame = self.source.frame
            rows = frame.where(sql.col("note").isNotNull()).select("note")
            return [pickle.loads(row.note) for row in rows.collect()]  # noqa: S301 -- ours

        notes: list[Any] = self._run(self.work.label, collect)
        return notes

    def totals(self, sum_of: str, by: Sequence[str]) -> tuple[list[Any], dict[str, Columns]]:
        labels, names = self.schema.labels, list(self.schema.values)
        once = self._reduce(self.source.frame, [*labels, *KEYS], names)
        groups = once.groupBy(*labels, *by).agg(*_half_sums(sql.col(sum_of)), sql.count("*"))
        groups = groups.toDF(*labels, *by, *_HALVES, "count")
        # A new DataFrame for each attempt: one that failed stays so.
        found = self._run(self.work.label, lambda: groups.select("*").toArrow())
        tables: dict[str, Columns] = {}
        for table in self.work.tables:
            rows = found
            if "table" in labels:
                rows = found.filter([one == table for one in found.column("table").to_pylist()])
            tables[table] = self.schema.read(table, rows, by)
            tables[table]["count"] = rows.column("count").to_numpy()
            if sum_of in self.work.tables[table]:
                high, low = (rows.column(name).to_numpy().astype(object) for name in _HALVES)
                tables[table][sum_of] = high * _HALF + low
        notes: list[Any] = []
        if "note" in labels:
            data = found.column("note").drop_null().to_pylist()
            notes = [pickle.loads(one) for one in data]  # noqa: S301 -- ours
        return notes, tables

    def total(self, table: str, column: str) -> int:
        values = sql.col(column)
        if is_flipped(self.schema.values[column]):
            values = values.bitwiseXOR(sql.lit(_SMALLEST))
        totals = [sql.coalesce(one, sql.lit(0)) for one in _half_sums(values)]
        rows = self._run("adding up sizes", lambda: self.distinct(table).agg(*totals).collect())
        high, low = rows[0]
        return int(high) * _HALF + int(low)

    def map_rows(
        self,
        label: str,
        table: str,
        function: Callable[[Columns], Iterable[tuple[int, Any]]],
        rows_per_task: int,
    ) -> Iterator[Any]:
        tasks = max(1, min(self.num_expected // rows_per_task, MOST_TASKS))
        mapped = partial(executors.map_rows, self.schema, table, function)

        def collect() -> list[Any]:
            rows = self.distinct(table).repartition(tasks)
            found = map_in_arrow(rows, mapped, executors.NOTE_SQL).collect()
            return [pickle.loads(row.note) for row in found]  # noqa: S301 -- ours

        yield from self._run(label, collect)

    def _run(self, label: str, action: Callable[[], Any]) -> Any:
        return run_job(self.spark, self.progress, f"{label} on Spark", action, (self.source,))


@dataclass(frozen=True, slots=True, eq=False)
class SparkComparison:
    spark: Any
    kind: ObjectKind
    schema: RowSchema
    outcome: Any
    counts: dict[int, tuple[int, int]]
    """The number and the bytes of each kind of row."""
    progress: Progress

    @property
    def num_listed(self) -> int:
        return self.counts.get(executors.NUM_LISTED, (0, 0))[1]

    @property
    def num_matched(self) -> int:
        return self.counts.get(executors.NUM_MATCHED, (0, 0))[1]

    @property
    def num_foreign(self) -> int:
        return self.counts.get(executors.FOREIGN_NAME, (0, 0))[0]

    @property
    def foreign(self) -> tuple[str, ...]:
        if not self.num_foreign:
            return ()
        names = self._rows(executors.FOREIGN_NAME).select("foreign")
        rows = self._run(lambda: names.orderBy("foreign").limit(MOST_FOREIGN).collect())
        return tuple(row.foreign for row in rows)

    @property
    def unreferenced(self) -> SparkGarbage:
        count, size = self.counts.get(executors.UNREFERENCED, (0, 0))
        frame = self._rows(executors.UNREFERENCED).select(*KEYS, "size", "created_at")
        return SparkGarbage(self.spark, self.kind, frame, count, size, self.progress)

    def mismatches(self, known: IdSet | None = None, limit: int | None = None) -> Mismatches:
        wrong = self._rows(executors.ABSENT, executors.WRONG_SIZE)
        if known is not None and len(known):
            wrong = wrong.join(id_frame(self.spark, known), list(KEYS), "left_anti")
        is_absent = sql.col("what") == executors.ABSENT
        values = list(self.schema.values)
        if self.counts.keys().isdisjoint((executors.ABSENT, executors.WRONG_SIZE)):
            none = np.empty(0, np.int64)
            columns = {
                name: from_signed(none, column) for name, column in self.schema.values.items()
            }
            return Mismatches(EMPTY, none, columns, 0)
        rows = wrong.select(*KEYS, "size", *values, is_absent.alias("is_absent"))
        rows = rows.orderBy(~sql.col("is_absent"), *KEYS)
        table, num_missing = self._run(
            lambda: (
                (rows if limit is None else rows.limit(limit)).toArrow(),
                wrong.where(is_absent).count(),
            )
        )
        is_missing = np.array(table.column("is_absent").to_pylist(), np.bool_)
        size = table.column("size").fill_null(MISSING).to_numpy().copy()
        size[is_missing] = MISSING
        return Mismatches(batch_ids(table), size, self.schema.read(REFERENCES, table), num_missing)

    def map_mismatches(
        self,
        function: Callable[[Columns], Iterable[Any]],
        label: str = "",
        tasks: int | None = None,
    ) -> Iterator[Any]:
        kinds = (executors.ABSENT, executors.WRONG_SIZE)
        count = sum(self.counts.get(kind, (0, 0))[0] for kind in kinds)
        if not count:
            return
        mapped = partial(executors.map_mismatches, self.schema, function)

        def collect() -> list[Any]:
            rows = self._rows(*kinds).select(*KEYS, "size", *self.schema.values)
            # By id, so that a task that is repeated finds its own objects again.
            rows = rows.repartition(tasks or -(-count // MISMATCHES_PER_TASK), *KEYS)
            return map_in_arrow(rows, mapped, executors.NOTE_SQL).collect()  # type: ignore[no-any-return]

        found = run_job(self.spark, self.progress, f"{label} on Spark" if label else "", collect)
        yield from (pickle.loads(row.note) for row in found)  # noqa: S301 -- ours

    def _rows(self, *kinds: int) -> Any:
        return self.outcome.where(sql.col("what").isin(*kinds))

    def _run(self, action: Callable[[], Any]) -> Any:
        return run_job(self.spark, self.progress, "reading the comparison", action)
