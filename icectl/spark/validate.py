"""The Spark engine of `validate`: manifests, chunk files and data are looked at in the cluster.

The driver has what the metadata level found, and gets problems and counts; it never holds the
set of chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import functions as sql

from icectl.checks.listing import wrong_chunk_size
from icectl.checks.manifest import ManifestClaim
from icectl.checks.problem import Problem
from icectl.checks.rules import RULES, Level
from icectl.model.ids import ManifestId
from icectl.ops.gc.local_engine import in_groups
from icectl.ops.validate.chunks import (
    SHOWN_NAMES,
    check_other_orphans,
    report_foreign,
    report_orphans,
)
from icectl.ops.validate.data import spoiled_by
from icectl.ops.validate.engine import Depths, LocalEngine
from icectl.ops.validate.findings import Report
from icectl.ops.validate.manifests import manifests_of
from icectl.ops.validate.metadata import ChangedArrays, Metadata
from icectl.ops.validate.result import CheckedCounts
from icectl.ops.validate.sampling import Sample
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.spark import validate_executors as executors
from icectl.spark.gc_columns import KEYS, to_ids
from icectl.spark.gc_engine import GROUP_BYTES, GROUP_MANIFESTS, list_chunks
from icectl.spark.gc_jobs import Source, map_in_arrow, run_job
from icectl.spark.tasks import files_only, spread_tasks

CommitTask = tuple[int, ChangedArrays, dict[ManifestId, ManifestClaim]]
COMMITS_PER_TASK = 64
CHUNK_READS_PER_TASK = 1000
MOST_TASKS = 1024


class SparkValidateEngine:
    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self.name = "spark"

    def check(self, depths: Depths, report: Report, progress: Progress) -> CheckedCounts:
        if not depths.repository.is_writable:
            # Early generations are small, and their chunk files are not looked for.
            self.name = LocalEngine.name
            return LocalEngine().check(depths, report, progress)
        return _Run(self._spark, depths, report, progress).check()


class _Run:
    def __init__(self, spark: Any, depths: Depths, report: Report, progress: Progress) -> None:
        self._spark = spark
        self._depths = depths
        self._report = report
        self._progress = progress
        self._files = files_only(depths.repository)
        self._storage = depths.repository.storage
        self._manifests = list(depths.metadata.claims)
        self._arrays = list(depths.metadata.arrays)

    def check(self) -> CheckedCounts:
        checked = self._check_manifests()
        self._check_logged()
        if self._depths.level < Level.CHUNKS:
            return checked
        needed = Source(
            self._manifest_tasks(),
            partial(
                executors.find_needed,
                self._files,
                {node_id: place for place, node_id in enumerate(self._arrays)},
            ),
            executors.NEEDED_SQL,
        )
        # Of several references to a file, one in the manifest with the smallest number.
        one = sql.min(sql.struct("manifest", "array", "offset", "length")).alias("one")
        once = needed.frame.groupBy(*KEYS).agg(sql.max("end").alias("end"), one)
        checked = replace(checked, chunks=self._check_chunks(needed, once))
        if self._depths.level >= Level.DATA:
            checked = replace(checked, chunks_read=self._check_data(needed, once))
        return checked

    def _manifest_tasks(self) -> Any:
        metadata = self._depths.metadata
        numbers = {manifest_id: number for number, manifest_id in enumerate(self._manifests)}
        groups = in_groups(metadata.claims.values(), GROUP_BYTES, GROUP_MANIFESTS)
        return spread_tasks(
            self._spark,
            (
                [(numbers[one.id], one, metadata.uses.get(one.id, set())) for one in group]
                for group in groups
            ),
        )

    def _check_manifests(self) -> CheckedCounts:
        source = Source(
            self._manifest_tasks(),
            partial(executors.check_manifests, self._files),
            executors.PROBLEM_SQL,
        )
        rows = self._collect("checking manifests on Spark", source.frame, source)
        counts = [row["count"] for row in rows if row.code is None]
        for row in rows:
            if row.code is not None:
                self._report.add(_problem(row), self._users(row.owner))
        return CheckedCounts(manifests=len(counts), chunk_refs=sum(counts))

    def _check_logged(self) -> None:
        metadata = self._depths.metadata
        if not metadata.changes:
            return
        source = Source(
            spread_tasks(self._spark, _in_groups(metadata)),
            partial(executors.check_logged, self._files),
            executors.PROBLEM_SQL,
        )
        label = "comparing commits with their logs on Spark"
        for row in self._collect(label, source.frame, source):
            self._report.add(_problem(row), (metadata.changes[row.owner].snapshot_id,))

    def _check_chunks(self, needed: Source, once: Any) -> int:
        expected = sum(claim.num_chunk_refs for claim in self._depths.metadata.claims.values())
        listed = list_chunks(self._spark, self._storage, expected)
        joined = listed.frame.withColumn("is_listed", sql.lit(True)).join(
            once.select(*KEYS, "end", "one.array"), KEYS, "full_outer"
        )
        what = (
            sql.when(sql.col("foreign").isNotNull(), executors.FOREIGN)
            .when(sql.col("end").isNotNull(), executors.NEEDED)
            .when(sql.col("high").isNotNull(), executors.ORPHAN)
        )
        rows = joined.select(
            what.alias("what"), *KEYS, "size", "end", "array", "foreign", "is_listed"
        ).where(sql.col("what").isNotNull())
        outcome = map_in_arrow(
            rows, partial(executors.compare, self._storage), executors.OUTCOME_SQL
        ).persist()
        try:
            groups = outcome.groupBy("what").agg(sql.count("*"), sql.sum("size"))
            label = "comparing references and chunks on Spark"
            counted = self._collect(label, groups, needed, listed)
            found = {what: (count, size) for what, count, size in counted}
            if executors.BAD in found:
                self._tell_bad(needed, outcome)
            if self._depths.history.whole:
                self._tell_orphans(outcome, {what: count for what, (count, _) in found.items()})
        finally:
            outcome.unpersist()
        return int(found.get(executors.CHECKED, (0, 0))[1])

    def _tell_bad(self, needed: Source, outcome: Any) -> None:
        bad = outcome.where(sql.col("what") == executors.BAD).orderBy(*KEYS)
        rows = self._collect("reading what is missing", bad)
        ids = self._spark.createDataFrame(executors.bad_ids(rows))
        users = needed.frame.join(sql.broadcast(ids), KEYS, "left_semi")
        users = users.select(*KEYS, "manifest").distinct()
        manifests: dict[tuple[int, int], list[int]] = {}
        label = "finding the versions that need them"
        for high, low, manifest in self._collect(label, users, needed):
            manifests.setdefault((high, low), []).append(manifest)
        names = _ids(rows).to_names()
        ends = executors.unturned(np.array([row.end for row in rows], np.int64)).tolist()
        for row, name, end in zip(rows, names, ends, strict=True):
            node = None
            if row.array >= 0:
                node = self._depths.metadata.arrays[self._arrays[row.array]].path
            path = ObjectKind.CHUNK.path(name)
            problem = wrong_chunk_size(path, None if row.size < 0 else row.size, end, node)
            if row.size < 0:
                self._report.missing.append(problem.object)
            numbers = sorted(manifests[row.high, row.low])
            snapshots = {one for number in numbers for one in self._users(number)}
            self._report.add(problem, snapshots)

    def _tell_orphans(self, outcome: Any, counts: dict[str, int]) -> None:
        def first(what: str, *order: str) -> Any:
            rows = outcome.where(sql.col("what") == what).orderBy(*order).limit(SHOWN_NAMES)
            return self._collect("reading names", rows)

        kind = ObjectKind.CHUNK
        if executors.ORPHAN in counts:
            ids = _ids(first(executors.ORPHAN, *KEYS))
            report_orphans(kind, counts[executors.ORPHAN], ids, self._report)
        if executors.FOREIGN in counts:
            names = [row.foreign for row in first(executors.FOREIGN, "foreign")]
            report_foreign(kind, counts[executors.FOREIGN], names, self._report)
        check_other_orphans(
            self._depths.repository, self._depths.metadata, self._report, self._progress
        )

    def _check_data(self, needed: Source, once: Any) -> int:
        depths = self._depths
        chunks = once.select(*KEYS, "one.manifest", "one.array", "one.offset", "one.length")
        sample = depths.sample
        if sample is not None and sample.share is None:
            total = chunks.agg(sql.coalesce(sql.sum("length"), sql.lit(0)))
            ((size,),) = self._collect("adding up sizes on Spark", total, needed)
            sample = Sample(share=sample.share_of(size))
        expected = sum(claim.num_chunk_refs for claim in depths.metadata.claims.values())
        tasks = max(1, min(expected // CHUNK_READS_PER_TASK, MOST_TASKS))
        arrays = [*map(depths.metadata.decodable, self._arrays)] if depths.decode else None
        read = map_in_arrow(
            chunks.repartition(tasks),
            partial(executors.read_data, self._storage, arrays, sample, depths.now),
            executors.PROBLEM_SQL,
        )
        rows = self._collect("reading chunks on Spark", read, needed)
        for row in rows:
            if row.code is not None:
                problem = _problem(row)
                self._report.add(problem, spoiled_by(problem, self._users(row.owner)))
        return sum(row["count"] for row in rows if row.code is None)

    def _users(self, manifest: int) -> Any:
        return self._depths.metadata.users[self._manifests[manifest]]

    def _collect(self, label: str, frame: Any, *sources: Source) -> list[Any]:
        # A new DataFrame for each attempt: one that failed stays so.
        found: list[Any] = run_job(
            self._spark, self._progress, label, lambda: frame.select("*").collect(), sources
        )
        return found


def _in_groups(metadata: Metadata) -> Iterator[list[CommitTask]]:
    """Commits whose manifests together are worth a task."""
    group: list[CommitTask] = []
    size = 0
    for number, changed in enumerate(metadata.changes):
        claims = {
            manifest_id: metadata.claims[manifest_id]
            for manifest_id in manifests_of(changed.arrays)
            if manifest_id in metadata.claims
        }
        group.append((number, changed, claims))
        size += sum(claim.size_bytes for claim in claims.values())
        if size > GROUP_BYTES or len(group) == COMMITS_PER_TASK:
            yield group
            group, size = [], 0
    if group:
        yield group


def _problem(row: Any) -> Problem:
    return Problem(RULES[row.code], row.object, row.detail, row.path)


def _ids(rows: Iterable[Any]) -> Any:
    rows = list(rows)
    high = np.array([row.high for row in rows], np.int64)
    low = np.array([row.low for row in rows], np.int64)
    return to_ids(high, low)
