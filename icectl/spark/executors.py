"""The functions that run on executors, for `mapInArrow`.

Each executor runs the local engine on its own unit of work. A failure is raised, never returned
in a row beside the others: Spark may compute any part again, and ids that are missing from a part
that failed the second time would make live chunks look like garbage. `report_failure` runs the
same function again to learn what failed.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import IcectlError
from icectl.pipeline.comparison import MISSING, compare_columns
from icectl.pipeline.deletion import delete_in_batches
from icectl.pipeline.engine import REFERENCES, Columns, Work
from icectl.pipeline.id_columns import join
from icectl.pipeline.listings import Listing, read_listing_parts
from icectl.pipeline.local_engine import LocalEngine
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.spark.buckets import LISTED, Buckets
from icectl.spark.columns import OBJECT_COLUMNS, RowSchema, batch_ids, id_columns_of, to_signed
from icectl.storage.bounded import in_batches
from icectl.storage.contract import Storage

Batches = Iterable[Any]
"""Arrow record batches, which have no types here."""

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
FAILURE_SQL = "path string, message string, error binary"
NOTE_SQL = "note binary"

FOREIGN_NAME, NUM_LISTED, NUM_MATCHED, UNREFERENCED, ABSENT, WRONG_SIZE = range(6)
"""The kinds of rows of a comparison."""
BATCHES_AT_ONCE = 50
"""Batches of rows that are packed together; each has at most 10,000 by default."""
LISTING_PARTS = 32
"""Parts of a listing that are packed together; each has about a page of names."""


def read_values(batches: Batches) -> Iterator[Any]:
    """The values of a `Source`."""
    for batch in batches:
        for data in batch.column("value").to_pylist():
            yield pickle.loads(data)  # noqa: S301 -- written by our own driver


def run_work(work: Work, schema: RowSchema, batches: Batches) -> Iterator[Any]:
    """The rows and notes of units of work."""
    for items in read_values(batches):
        scan = LocalEngine().scan(replace(work, items=items), Progress())
        if notes := scan.notes():
            yield schema.note_batch([pickle.dumps(note) for note in notes])
        for table in work.tables:
            yield schema.batch(table, scan.columns(table))


def map_rows(
    schema: RowSchema,
    table: str,
    function: Callable[[Columns], Iterable[tuple[int, Any]]],
    batches: Batches,
) -> Iterator[Any]:
    """The pickled notes of a function of rows."""
    for batch in batches:
        yield _note_batch(note for _, note in function(_columns_of(schema, table, batch)))


def map_mismatches(
    schema: RowSchema, function: Callable[[Columns], Iterable[Any]], batches: Batches
) -> Iterator[Any]:
    """The pickled notes of a function of references that are missing or have the wrong size."""
    for batch in batches:
        columns = _columns_of(schema, REFERENCES, batch)
        columns["size"] = batch.column("size").to_numpy()
        yield _note_batch(function(columns))


def _columns_of(schema: RowSchema, table: str, batch: Any) -> Columns:
    ids = batch_ids(batch)
    return {"high": ids.high, "low": ids.low, **schema.read(table, batch)}


def _note_batch(notes: Iterable[Any]) -> Any:
    return pa.RecordBatch.from_pydict(
        {"note": pa.array([pickle.dumps(note) for note in notes], pa.binary())}
    )


def read_parts(read: Callable[[Any], Iterator[Any]], batches: Batches) -> Iterator[Any]:
    """The record batches of the parts of a table."""
    for part in read_values(batches):
        yield from read(part)


def pack_references(work: Work, buckets: Buckets, batches: Batches) -> Iterator[Any]:
    """The references of units of work, in buckets."""
    for items in read_values(batches):
        scan = LocalEngine().scan(replace(work, items=items), Progress())
        yield from buckets.pack(scan.columns(REFERENCES), is_listed=False)


def pack_rows(schema: RowSchema, buckets: Buckets, batches: Batches) -> Iterator[Any]:
    """References that are rows of a DataFrame, in buckets."""
    for some in in_batches(batches, BATCHES_AT_ONCE):
        rows = pa.Table.from_batches(some)
        ids = batch_ids(rows)
        columns: Columns = {"high": ids.high, "low": ids.low, **schema.read(REFERENCES, rows)}
        yield from buckets.pack(columns, is_listed=False)


def list_shards(
    storage: Storage, kind: ObjectKind, buckets: Buckets, batches: Batches
) -> Iterator[Any]:
    """The listed objects, in buckets, and foreign names."""
    for shard in read_values(batches):
        for parts in in_batches(read_listing_parts(storage, kind, shard), LISTING_PARTS):
            yield from buckets.pack(_listed_columns(parts), is_listed=True)
            yield buckets.pack_foreign([path for part in parts for path in part.foreign])


def _listed_columns(parts: Sequence[Listing]) -> Columns:
    ids = join([part.ids for part in parts])
    columns: Columns = {"high": ids.high, "low": ids.low}
    for name in LISTED:
        found = [getattr(part, name) for part in parts]
        if all(one is not None for one in found):
            columns[name] = np.concatenate(found)
    return columns


def compare(
    storage: Storage,
    kind: ObjectKind,
    schema: RowSchema,
    buckets: Buckets,
    cutoff: int | None,
    exact_sizes: bool,
    rows: Any,
) -> Any:
    """The outcome for one bucket, by the comparison of the local engine."""
    is_listed = rows.column("is_listed")
    listed, referenced = rows.filter(is_listed), rows.filter(pc.invert(is_listed))
    ids, columns = buckets.references(referenced)
    comparison = compare_columns(
        storage,
        ids,
        columns,
        buckets.listing(kind, listed),
        Progress(),
        cutoff=cutoff,
        exact_sizes=exact_sizes,
    )
    garbage, wrong = comparison.unreferenced, comparison.mismatches()
    foreign = listed.column("foreign").drop_null()
    names = [*OBJECT_COLUMNS, "foreign", *schema.values]
    is_absent = wrong.size == MISSING
    return pa.concat_tables(
        [
            _outcome(names, NUM_LISTED, 1, {"size": [comparison.num_listed]}),
            _outcome(names, NUM_MATCHED, 1, {"size": [comparison.num_matched]}),
            _outcome(names, FOREIGN_NAME, len(foreign), {"foreign": foreign}),
            _outcome(
                names,
                UNREFERENCED,
                len(garbage),
                id_columns_of(garbage.ids)
                | {"size": garbage.size, "created_at": garbage.created_at},
            ),
            _outcome(
                names,
                np.where(is_absent, ABSENT, WRONG_SIZE),
                len(wrong),
                id_columns_of(wrong.ids)
                | {"size": wrong.size}
                | {
                    name: to_signed(wrong.columns[name], column)
                    for name, column in schema.tables[REFERENCES].items()
                },
            ),
        ]
    )


def _outcome(names: Sequence[str], what: Any, count: int, columns: Mapping[str, Any]) -> Any:
    types = dict.fromkeys(names, pa.int64()) | {"foreign": pa.string()}
    found = {
        name: pa.array(columns[name], type_) if name in columns else pa.nulls(count, type_)
        for name, type_ in types.items()
    }
    return pa.table({"what": pa.array(np.broadcast_to(what, count), pa.int32()), **found})


def delete(
    storage: Storage, kind: ObjectKind, ends_at: float | None, batches: Batches
) -> Iterator[Any]:
    """Delete the objects and report how many, and what failed. Repeating it is harmless."""
    deadline = None if ends_at is None else time.monotonic() + ends_at - time.time()

    def items() -> Iterator[tuple[str, int]]:
        for batch in batches:
            names = map(kind.path, batch_ids(batch).to_names())
            yield from zip(names, batch.column("size").to_pylist(), strict=True)

    rest = items()
    for done in delete_in_batches(storage, rest, Progress(None, deadline)):
        yield pa.RecordBatch.from_pylist([asdict(done)], DELETED)
    for _ in rest:
        pass  # Spark requires that all rows are read


def pack(batches: Batches) -> Iterator[Any]:
    """Each batch of objects as one row: a driver reads few rows much faster than many."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict(
            {name: [batch.column(name).to_numpy().tobytes()] for name in OBJECT_COLUMNS}
        )


def report_failure(function: Callable[[Batches], Iterator[Any]], batches: Batches) -> Iterator[Any]:
    """The error that `function` raises for each row, and nothing of its result."""
    for batch in batches:
        for row in range(batch.num_rows):
            try:
                for _ in function([batch.slice(row, 1)]):
                    pass
            except IcectlError as error:
                path = getattr(error, "path", None)
                yield pa.RecordBatch.from_pydict(
                    {
                        "path": pa.array([path], pa.string()),
                        "message": pa.array([error.message], pa.string()),
                        "error": pa.array([pickle.dumps(error)], pa.binary()),
                    }
                )
