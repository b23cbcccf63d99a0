"""What the executors do for a garbage collection: functions for `mapInArrow`.

They call the same functions as the local engine. A failure is raised, never told in a row
beside the others: Spark may compute any part again, and ids that are missing from a part that
failed the second time would make live chunks look like garbage. `report_failure` runs the same
function a second time to learn what failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icectl.checks.manifest import ManifestClaim
from icectl.errors import FormatError, IcectlError, Remedy, StorageError
from icectl.model.ids import ManifestId
from icectl.ops.gc.local_engine import mark_manifests
from icectl.pipeline.deletion import delete_in_batches
from icectl.pipeline.id_columns import IdSet, find_repeats, join, union
from icectl.pipeline.listings import Listing, read_candidates, read_listing_parts
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.references import MarkedManifest
from icectl.spark.gc_columns import GARBAGE, batch_ids, to_columns
from icectl.storage.contract import ListingShard, Storage

Batches = Iterable[Any]
"""Arrow's record batches, which have no types here."""

_CLAIM = pa.struct(
    [("id", pa.binary()), ("size_bytes", pa.int64()), ("num_chunk_refs", pa.int64())]
)
CLAIMS = pa.schema([("claims", pa.list_(_CLAIM))])
SHARDS = pa.schema([("after", pa.string()), ("through", pa.string())])
MARKS_SQL = "high bigint, low bigint, end bigint"
LISTED_SQL = (
    "high bigint, low bigint, size bigint, created_at bigint, foreign string, num_listed bigint"
)
OUTCOME_SQL = (
    "what string, high bigint, low bigint, size bigint, created_at bigint, end bigint, "
    "foreign string"
)
DELETED_SQL = (
    "count bigint, bytes bigint, failures "
    "array<struct<object: string, error: string, size: bigint>>, is_complete boolean"
)
_DELETE_FAILURE = pa.struct([("object", pa.string()), ("error", pa.string()), ("size", pa.int64())])
DELETED = pa.schema(
    [
        ("count", pa.int64()),
        ("bytes", pa.int64()),
        ("failures", pa.list_(_DELETE_FAILURE)),
        ("is_complete", pa.bool_()),
    ]
)
FAILURE_SQL = (
    "damaged boolean, message string, path string, offset bigint, hint string, "
    "facts map<string, string>"
)
"""With `facts`, `hint` is the name of a remedy."""
CANDIDATE, GARBAGE_ROW = "candidate", "garbage"
MISSING, SHORT, FOREIGN, LISTED = "missing", "short", "foreign", "listed"


def mark(storage: Storage, with_ends: bool, batches: Batches) -> Iterator[Any]:
    """The chunks that groups of manifests need, and how long each must be at least."""
    for batch in batches:
        for group in batch.column("claims").to_pylist():
            claims = [
                ManifestClaim(ManifestId(row["id"]), row["size_bytes"], row["num_chunk_refs"])
                for row in group
            ]
            marked = mark_manifests(storage, claims, Progress(), with_ends=with_ends)
            ids, end = _distinct(marked)
            yield pa.RecordBatch.from_pydict({**to_columns(ids), "end": end})


def _distinct(marked: list[MarkedManifest]) -> tuple[IdSet, NDArray[np.int64]]:
    """Each chunk once, with the largest of its ends; 0 where nobody asked for ends.

    Manifests of one group often share most of their chunks.
    """
    ends = [manifest.end for manifest in marked if manifest.end is not None]
    ids = join([manifest.ids for manifest in marked])
    if not ends:
        ids = union([ids])
        return ids, np.zeros(len(ids), np.int64)
    end = np.minimum(np.concatenate(ends), np.uint64(2**63 - 1)).astype(np.int64)
    order = np.lexsort((end, ids.low, ids.high))
    ids = ids[order]
    last = np.append(~find_repeats(ids), True)[: len(ids)]
    return ids[last], end[order][last]


def list_shards(storage: Storage, kind: ObjectKind, batches: Batches) -> Iterator[Any]:
    """The objects of shards of a directory; behind each block, how many there were."""
    for batch in batches:
        for row in batch.to_pylist():
            shard = ListingShard(row["after"], row["through"])
            for part in read_listing_parts(storage, kind, shard):
                yield from _listed(part)


def _listed(part: Listing) -> Iterator[Any]:
    columns: dict[str, Any] = {**to_columns(part.ids)}
    columns["size"] = part.size
    columns["created_at"] = part.created_at
    yield _listed_batch(columns, len(part))
    yield _listed_batch({"num_listed": [len(part)]}, 1)
    if part.foreign:
        yield _listed_batch({"foreign": part.foreign}, len(part.foreign))


def _listed_batch(columns: dict[str, Any], length: int) -> Any:
    def column(name: str, type_: Any) -> Any:
        found = columns.get(name)
        return pa.nulls(length, type_) if found is None else pa.array(found, type_)

    names = ("high", "low", "size", "created_at")
    return pa.RecordBatch.from_pydict(
        {
            **{name: column(name, pa.int64()) for name in names},
            "foreign": column("foreign", pa.string()),
            "num_listed": column("num_listed", pa.int64()),
        }
    )


def examine(storage: Storage, kind: ObjectKind, cutoff: int, batches: Batches) -> Iterator[Any]:
    """Candidates that are old enough become garbage; other rows pass."""
    for batch in batches:
        is_candidate = pc.equal(batch.column("what"), CANDIDATE)
        yield batch.filter(pc.invert(is_candidate))
        candidates = batch.filter(is_candidate)
        ids = batch_ids(candidates)
        size, created_at = (
            None if column.null_count else column.to_numpy(zero_copy_only=False)
            for column in (candidates.column("size"), candidates.column("created_at"))
        )
        listing = Listing(kind, ids, size, created_at, ())
        found = read_candidates(storage, listing, np.arange(len(ids)), Progress())
        garbage = found.created_before(cutoff)
        yield pa.RecordBatch.from_pydict(
            {
                "what": pa.array([GARBAGE_ROW] * len(garbage), pa.string()),
                **to_columns(garbage.ids),
                "size": garbage.size,
                "created_at": garbage.created_at,
                "end": pa.nulls(len(garbage), pa.int64()),
                "foreign": pa.nulls(len(garbage), pa.string()),
            }
        )


def delete(
    storage: Storage, kind: ObjectKind, ends_at: float | None, batches: Batches
) -> Iterator[Any]:
    """Delete the objects; how many went, and what failed. Doing it twice does no harm."""
    deadline = None if ends_at is None else time.monotonic() + ends_at - time.time()

    def items() -> Iterator[tuple[str, int]]:
        for batch in batches:
            names = map(kind.path, batch_ids(batch).to_names())
            yield from zip(names, batch.column("size").to_pylist(), strict=True)

    rest = items()
    for done in delete_in_batches(storage, rest, Progress(None, deadline)):
        yield pa.RecordBatch.from_pylist([asdict(done)], DELETED)
    for _ in rest:
        pass  # Spark wants its rows to be taken


def pack(batches: Batches) -> Iterator[Any]:
    """Each batch of garbage as one row: a driver reads few rows much faster than many."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict(
            {name: [batch.column(name).to_numpy().tobytes()] for name in GARBAGE.names}
        )


def report_failure(function: Callable[[Batches], Iterator[Any]], batches: Batches) -> Iterator[Any]:
    """What fails when `function` works on each row, and nothing of what it finds."""
    for batch in batches:
        for row in range(batch.num_rows):
            try:
                for _ in function([batch.slice(row, 1)]):
                    pass
            except (FormatError, StorageError) as error:
                yield _failure_row(error)


def _failure_row(error: IcectlError) -> Any:
    damaged = isinstance(error, FormatError)
    remedy = error.hint if isinstance(error.hint, Remedy) else None
    hint = error.hint if remedy is None else remedy.name
    facts = None if remedy is None else list(remedy.facts.items())
    return pa.RecordBatch.from_pydict(
        {
            "damaged": [damaged],
            "message": [getattr(error, "reason", error.message)],
            "path": pa.array([getattr(error, "path", None)], pa.string()),
            "offset": pa.array([getattr(error, "offset", None)], pa.int64()),
            "hint": pa.array([hint], pa.string()),
            "facts": pa.array([facts], pa.map_(pa.string(), pa.string())),
        }
    )
