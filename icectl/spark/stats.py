"""The Spark engine of `stats`: manifests are summed up, and chunk objects told apart, in the
cluster. The driver gets sums by array, mask and version, and a row for each manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sql

from icectl.checks.manifest import ManifestClaim
from icectl.model.ids import ManifestId, NodeId
from icectl.model.redaction import redact_location
from icectl.ops.gc.local_engine import in_groups
from icectl.ops.stats.engine import Wanted, mask_names, mask_words, read_sums
from icectl.ops.stats.gathering import Column, Columns, Gathered
from icectl.ops.stats.manifest_sums import ArraySums
from icectl.ops.stats.result import ContainerStats
from icectl.ops.stats.usage import ManifestUse, Usage
from icectl.pipeline.progress import Progress
from icectl.repository.containers import Containers
from icectl.repository.repository import Repository
from icectl.spark.gc_engine import GROUP_BYTES, GROUP_MANIFESTS
from icectl.spark.gc_jobs import Source, run_job
from icectl.spark.tasks import files_only, read_tasks, spread_tasks

KEY = ["what", "first_key", "second_key", "text"]
NATIVE, VIRTUAL, OBJECT, INLINE, MANIFEST = "native", "virtual", "object", "inline", "manifest"
"""Chunk objects; files of virtual chunks; inline chunks of an array in a manifest; manifests."""
_REDUCTIONS: dict[Any, Any] = {np.minimum: sql.min, np.maximum: sql.max, np.bitwise_or: sql.bit_or}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What every executor needs to know."""

    repository: Repository
    places: dict[NodeId, int]
    num_arrays: int
    wanted: Wanted
    containers: Containers


class SparkStatsEngine:
    name = "spark"

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def gather(
        self,
        repository: Repository,
        usage: Usage,
        wanted: Wanted,
        containers: Containers,
        progress: Progress,
    ) -> Gathered:
        claims = [
            ManifestClaim(manifest_id, use.size_bytes, use.num_chunk_refs)
            for manifest_id, use in usage.manifests.items()
        ]
        tasks = (
            [(claim.id, usage.manifests[claim.id]) for claim in group]
            for group in in_groups(claims, GROUP_BYTES, GROUP_MANIFESTS)
        )
        plan = _Plan(files_only(repository), usage.places, usage.num_arrays, wanted, containers)
        names = list(wanted.reductions)
        columns = ", ".join(f"{name} bigint" for name in ("length", "count", *names))
        rows = Source(
            spread_tasks(self._spark, tasks),
            partial(sum_manifests, plan),
            "what string, first_key bigint, second_key bigint, text string, container string, "
            + columns,
        )
        once = rows.frame.groupBy(*KEY).agg(
            *(sql.max(name).alias(name) for name in ("container", "length", "count")),
            *(_REDUCTIONS[how](name).alias(name) for name, how in wanted.reductions.items()),
        )
        # The manifest that a row is about; of chunks nothing but these sums leaves the cluster.
        owner = sql.when(sql.col("what").isin(INLINE, MANIFEST), sql.col("first_key"))
        groups = once.groupBy("what", owner.alias("owner"), "container", *names).agg(
            sql.sum("length").alias("length"), sql.sum("count").alias("count")
        )
        found = run_job(
            self._spark,
            progress,
            "summing up manifests on Spark",
            # A new DataFrame for each attempt: one that failed stays so.
            lambda: groups.select("*").toArrow(),
            (rows,),
        )
        return _gathered(found, usage, wanted)


def sum_manifests(plan: _Plan, batches: Iterable[Any]) -> Iterator[Any]:
    for group in read_tasks(batches):
        for manifest_id, use in group:
            yield from _sum_manifest(plan, manifest_id, use)


def _sum_manifest(plan: _Plan, manifest_id: ManifestId, use: ManifestUse) -> Iterator[Any]:
    sums = read_sums(plan.repository, manifest_id)
    yield _batch(plan, use, 0, MANIFEST, [use.number], length=[sum(sums.bytes())])
    for number, array in enumerate(sums.arrays):
        yield from _sum_array(plan, use, number, array)


def _sum_array(plan: _Plan, use: ManifestUse, number: int, array: ArraySums) -> Iterator[Any]:
    place = plan.places.get(array.node_id, plan.num_arrays)
    batch = partial(_batch, plan, use, place)
    if array.num_inline:
        yield batch(
            INLINE, [use.number], [number], length=[array.inlined_bytes], count=[array.num_inline]
        )
    if len(array.native_length):
        yield batch(
            NATIVE, _signed(array.chunk_high), _signed(array.chunk_low), length=array.native_length
        )
    if array.locations:
        texts = pa.table(
            {
                "text": [plan.containers.resolve(location) for location in array.locations],
                "container": [_container(plan, location) for location in array.locations],
            }
        )
        # A file is a row of its own, which says nothing about the array.
        yield _batch(plan, use, 0, OBJECT, np.zeros(len(texts), np.int64), texts=texts)
        yield batch(
            VIRTUAL,
            _signed(array.virtual_offset),
            _signed(array.virtual_length),
            texts=texts.take(pa.array(array.location)),
            length=array.virtual_length,
        )


def _container(plan: _Plan, location: str) -> str:
    """The prefix of its container, behind a digit that says whether it is configured."""
    prefix, is_configured = plan.containers.find(location)
    return f"{int(is_configured)}{prefix}"


def _batch(
    plan: _Plan,
    use: ManifestUse,
    place: int,
    what: str,
    first_key: Any,
    second_key: Any = None,
    texts: Any = None,
    length: Any = None,
    count: Any = None,
) -> Any:
    rows = len(first_key)

    def repeated(value: int) -> Column:
        return np.full(rows, value, np.int64)

    words = np.array(mask_words(use.mask, plan.wanted.num_masks), np.uint64).view(np.int64)
    values = {"array": place, "first": use.first, "last": use.last}
    values |= dict(zip(mask_names(plan.wanted.num_masks), words.tolist(), strict=True))
    return pa.RecordBatch.from_pydict(
        {
            "what": pa.repeat(pa.scalar(what, pa.string()), rows),
            "first_key": pa.array(first_key, pa.int64()),
            "second_key": repeated(0) if second_key is None else pa.array(second_key, pa.int64()),
            **{
                name: pa.nulls(rows, pa.string())
                if texts is None
                else texts.column(name).combine_chunks()
                for name in ("text", "container")
            },
            "length": repeated(0) if length is None else pa.array(length).cast(pa.int64()),
            "count": repeated(1) if count is None else pa.array(count, pa.int64()),
        }
        | {name: repeated(values[name]) for name in plan.wanted.reductions}
    )


def _signed(values: Column) -> Column:
    return values.astype(np.uint64).view(np.int64)


def _gathered(found: Any, usage: Usage, wanted: Wanted) -> Gathered:
    what = np.array(found.column("what").to_pylist(), object)
    names = ("length", "count", *wanted.reductions)
    columns: Columns = {name: found.column(name).to_numpy() for name in names}
    for name in mask_names(wanted.num_masks):
        columns[name] = columns[name].view(np.uint64)

    def part(kind: str) -> Columns:
        return {name: column[what == kind] for name, column in columns.items()}

    owner = found.column("owner").fill_null(-1).to_numpy()
    inline = np.zeros((usage.num_arrays + 1, 2), np.int64)
    inline_of = np.zeros((len(usage.manifests), 2), np.int64)
    bytes_of = np.zeros(len(usage.manifests), np.int64)
    of_inline = part(INLINE)
    pairs = np.stack([of_inline["count"], of_inline["length"]], axis=1)
    np.add.at(inline, of_inline["array"], pairs)
    np.add.at(inline_of, owner[what == INLINE], pairs)
    bytes_of[owner[what == MANIFEST]] = part(MANIFEST)["length"]
    return Gathered(
        part(NATIVE), part(VIRTUAL), _containers(found.to_pylist()), inline, inline_of, bytes_of
    )


def _containers(rows: list[dict[str, Any]]) -> tuple[ContainerStats, ...]:
    sums: dict[tuple[str, bool], list[int]] = {}
    for row in rows:
        if row["container"] is None:
            continue
        key = row["container"][1:], row["container"][0] == "1"
        found = sums.setdefault(key, [0, 0, 0])
        if row["what"] == OBJECT:
            found[2] += row["count"]
        else:
            found[0] += row["length"]
            found[1] += row["count"]
    return tuple(
        ContainerStats(redact_location(prefix), configured, *found)
        for (prefix, configured), found in sorted(sums.items())
    )
