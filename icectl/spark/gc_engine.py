"""The engine of a Spark cluster: marking, listing, joining and deleting happen there.

The driver reads `repo`, the snapshots and the listings of everything but chunks; it never
holds the set of chunks. Garbage stays in a DataFrame that is kept on the executors. A lost
executor's part is computed again: every file that it reads is checked again then, and the
listing can only have lost what is deleted or won what is too young.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sql

from icectl.checks.manifest import ManifestClaim
from icectl.ops.gc.engine import Sweep, SweptChunks
from icectl.ops.gc.local_engine import in_groups
from icectl.pipeline.comparison import MISSING_CHUNK, missing_error, short_error
from icectl.pipeline.id_columns import IdSet, decode_names, union
from icectl.pipeline.listings import Listings
from icectl.pipeline.objects import GarbageSet, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.spark import gc_executors as executors
from icectl.spark.failures import told_in_words
from icectl.spark.gc_columns import KEYS, to_ids, to_table
from icectl.spark.gc_garbage import SparkGarbage
from icectl.spark.gc_jobs import Source, map_in_arrow, run_job, spread
from icectl.storage.contract import Storage
from icectl.storage.sharded_listing import plan_shards_of

GROUP_BYTES = 8 * 2**20
"""Of manifests in one task: about half a million references, half a second of work."""
GROUP_MANIFESTS = 256
OBJECTS_PER_SHARD = 50_000
MOST_SHARDS = 1024
MOST_FOREIGN = 10_000
"""Foreign names that are told: the driver must not hold a directory of them."""

CHUNK = ObjectKind.CHUNK


class SparkEngine:
    name = "spark"

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._persisted: list[Any] = []

    def sweep_chunks(self, sweep: Sweep, listings: Listings, progress: Progress) -> SweptChunks:
        with told_in_words():
            return self._sweep_chunks(sweep, progress)

    def _sweep_chunks(self, sweep: Sweep, progress: Progress) -> SweptChunks:
        self._forget()
        marks = self._mark(sweep.storage, sweep.claims, with_ends=sweep.with_ends)
        expected = sum(claim.num_chunk_refs for claim in sweep.claims)
        listed = list_chunks(self._spark, sweep.storage, expected)
        outcome = self._persist(self._compare(sweep, marks, listed))
        counts = run_job(
            self._spark,
            progress,
            "comparing references and chunks on Spark",
            lambda: {what: (count, size) for what, count, size in _count(outcome).collect()},
            (marks, listed),
        )
        if executors.MISSING in counts or executors.SHORT in counts:
            self._check_problems(outcome, sweep.known_missing, progress)
        foreign: tuple[str, ...] = ()
        if executors.FOREIGN in counts:
            rows = outcome.where(sql.col("what") == executors.FOREIGN).limit(MOST_FOREIGN)
            foreign = run_job(
                self._spark,
                progress,
                "reading foreign names",
                lambda: tuple(sorted(row[0] for row in rows.select("foreign").collect())),
            )
        garbage = outcome.where(sql.col("what") == executors.GARBAGE_ROW).select(
            *KEYS, "size", "created_at"
        )
        count, size = counts.get(executors.GARBAGE_ROW, (0, 0))
        _, num_listed = counts.get(executors.LISTED, (0, 0))
        return SweptChunks(
            SparkGarbage(self._spark, CHUNK, garbage, count, size, progress), num_listed, foreign
        )

    def spare_chunks(
        self,
        garbage: GarbageSet,
        storage: Storage,
        claims: Collection[ManifestClaim],
        progress: Progress,
    ) -> GarbageSet:
        if not claims:
            return garbage
        assert isinstance(garbage, SparkGarbage)
        marks = self._mark(storage, claims, with_ends=False)
        rest = self._persist(garbage.frame.join(marks.frame, KEYS, "left_anti"))
        return SparkGarbage.counted(
            self._spark, CHUNK, rest, progress, "sparing what others committed", (marks,)
        )

    def _persist(self, frame: Any) -> Any:
        self._persisted.append(frame.persist())
        return self._persisted[-1]

    def _forget(self) -> None:
        """Drop what an earlier plan of this run kept."""
        while self._persisted:
            self._persisted.pop().unpersist()

    def _mark(
        self, storage: Storage, claims: Collection[ManifestClaim], *, with_ends: bool
    ) -> Source:
        groups = in_groups(claims, GROUP_BYTES, GROUP_MANIFESTS)
        rows = [{"claims": [asdict(claim) for claim in group]} for group in groups]
        return Source(
            spread(self._spark, pa.Table.from_pylist(rows, executors.CLAIMS)),
            partial(executors.mark, storage, with_ends),
            executors.MARKS_SQL,
        )

    def _compare(self, sweep: Sweep, marks: Source, listed: Source) -> Any:
        """What is not simply needed and there: garbage, problems, names, counts."""
        # A chunk of several groups of manifests is met several times: no row of it is garbage.
        found = listed.frame.withColumn("is_listed", sql.lit(True))
        joined = found.join(marks.frame, KEYS, "full_outer")
        is_id = sql.col("high").isNotNull()
        what = (
            sql.when(sql.col("foreign").isNotNull(), executors.FOREIGN)
            .when(~is_id, executors.LISTED)
            .when(sql.col("is_listed").isNull(), executors.MISSING)
            .when(sql.col("end").isNull(), executors.CANDIDATE)
            .when(sql.col("size") < sql.col("end"), executors.SHORT)
        )
        rows = joined.select(
            what.alias("what"),
            *KEYS,
            sql.when(is_id, sql.col("size")).otherwise(sql.col("num_listed")).alias("size"),
            "created_at",
            "end",
            "foreign",
        ).where(sql.col("what").isNotNull())
        return map_in_arrow(
            rows,
            partial(executors.examine, sweep.storage, CHUNK, sweep.cutoff),
            executors.OUTCOME_SQL,
        )

    def _check_problems(
        self, outcome: Any, known_missing: Collection[str], progress: Progress
    ) -> None:
        problems = outcome.where(sql.col("what").isin(executors.MISSING, executors.SHORT))
        known = _chunk_ids(known_missing)
        if len(known):
            problems = problems.join(
                self._spark.createDataFrame(to_table(known)), KEYS, "left_anti"
            )
        is_missing = sql.col("what") == executors.MISSING
        first, num_missing = run_job(
            self._spark,
            progress,
            "looking at what is missing",
            lambda: (
                problems.orderBy("what", *KEYS).limit(1).toArrow(),
                problems.where(is_missing).select(*KEYS).distinct().count(),
            ),
        )
        for row in first.to_pylist():
            columns = [first.column(name).to_numpy() for name in KEYS]
            path = CHUNK.path(to_ids(*columns).to_names()[0])
            if row["what"] == executors.MISSING:
                raise missing_error(path, num_missing, MISSING_CHUNK)
            raise short_error(path, row["size"], row["end"])


def list_chunks(spark: Any, storage: Storage, num_expected: int) -> Source:
    """What lies in `chunks/`, listed in as many parts as pays."""
    count = max(storage.listing_shards(), min(num_expected // OBJECTS_PER_SHARD, MOST_SHARDS))
    shards = plan_shards_of(storage, CHUNK.directory, count)
    rows = [{"after": shard.after, "through": shard.through} for shard in shards]
    return Source(
        spread(spark, pa.Table.from_pylist(rows, executors.SHARDS)),
        partial(executors.list_shards, storage, CHUNK),
        executors.LISTED_SQL,
    )


def _count(outcome: Any) -> Any:
    return outcome.groupBy("what").agg(sql.count("*"), sql.coalesce(sql.sum("size"), sql.lit(0)))


def _chunk_ids(paths: Collection[str]) -> IdSet:
    directory = f"{CHUNK.directory}/"
    names = [path.removeprefix(directory) for path in paths if path.startswith(directory)]
    return union([decode_names(names)[0]])
