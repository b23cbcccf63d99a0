"""The functions that run on executors, for `mapInArrow`.

Each executor runs the local engine on its own unit of work. A failure is raised, never returned
in a row beside the others: Spark may compute any part again, and ids that are missing from a part
that failed the second time would make live chunks look like garbage. `report_failure` runs the
same function again to learn what failed.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import IcectlError
from icectl.pipeline.comparison import MISSING, has_wrong_size, read_sizes
from icectl.pipeline.deletion import delete_in_batches
from icectl.pipeline.engine import KEYS, REFERENCES, Columns, Work
from icectl.pipeline.listings import Listing, read_candidates, read_listing_parts
from icectl.pipeline.local_engine import LocalEngine
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.spark.columns import (
    OBJECT_COLUMNS,
    RowSchema,
    batch_ids,
    column_of,
    id_columns_of,
)
from icectl.storage.contract import Storage

Batches = Iterable[Any]
"""Arrow record batches, which have no types here."""

LISTED_SQL = (
    "high bigint, low bigint, size bigint, created_at bigint, foreign string, num_listed bigint"
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
FAILURE_SQL = "path string, message string, error binary"
NOTE_SQL = "note binary"

FOREIGN_NAME, NUM_LISTED, NUM_MATCHED = "foreign", "listed", "checked"
UNREFERENCED, MATCHED, ABSENT, WRONG_SIZE = "unreferenced", "matched", "absent", "wrong size"
"""The kinds of rows of a comparison."""


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
        ids = batch_ids(batch)
        columns: Columns = {"high": ids.high, "low": ids.low}
        columns |= schema.read(table, batch)
        notes = [pickle.dumps(note) for _, note in function(columns)]
        yield pa.RecordBatch.from_pydict({"note": pa.array(notes, pa.binary())})


def read_parts(read: Callable[[Any], Iterator[Any]], batches: Batches) -> Iterator[Any]:
    """The record batches of the parts of a table."""
    for part in read_values(batches):
        yield from read(part)


def list_shards(storage: Storage, kind: ObjectKind, batches: Batches) -> Iterator[Any]:
    for shard in read_values(batches):
        for part in read_listing_parts(storage, kind, shard):
            columns: dict[str, Any] = {**id_columns_of(part.ids)}
            columns |= {"size": part.size, "created_at": part.created_at}
            yield _listed_batch(columns, len(part))
            yield _listed_batch({"num_listed": [len(part)]}, 1)
            if part.foreign:
                yield _listed_batch({"foreign": part.foreign}, len(part.foreign))


def _listed_batch(columns: dict[str, Any], count: int) -> Any:
    types = dict.fromkeys((*OBJECT_COLUMNS, "foreign", "num_listed"), pa.int64())
    types["foreign"] = pa.string()
    return pa.RecordBatch.from_pydict(
        {
            name: pa.nulls(count, type_)
            if columns.get(name) is None
            else pa.array(columns[name], type_)
            for name, type_ in types.items()
        }
    )


def compare(
    storage: Storage,
    kind: ObjectKind,
    schema: RowSchema,
    cutoff: int | None,
    batches: Batches,
) -> Iterator[Any]:
    """Joined rows without what is as it should be.

    Matched rows become those of the wrong size, and a count; unreferenced ones are left out if
    they are younger than the cutoff. Other rows pass.
    """
    for batch in batches:
        what = batch.column("what")
        is_matched = pc.equal(what, MATCHED)
        is_unreferenced = pc.equal(what, UNREFERENCED)
        if cutoff is None:
            is_unreferenced = pa.nulls(batch.num_rows, pa.bool_()).fill_null(False)
        yield batch.filter(pc.invert(pc.or_(is_matched, is_unreferenced)))
        matched, unreferenced = batch.filter(is_matched), batch.filter(is_unreferenced)
        if unreferenced.num_rows and cutoff is not None:
            yield _old_objects(storage, kind, cutoff, unreferenced)
        if matched.num_rows:
            yield from _check_sizes(storage, kind, schema, matched)


def _old_objects(storage: Storage, kind: ObjectKind, cutoff: int, rows: Any) -> Any:
    size, created_at = (
        None if rows.column(name).null_count else column_of(rows, name)
        for name in ("size", "created_at")
    )
    listing = Listing(kind, batch_ids(rows), size, created_at, ())
    found = read_candidates(storage, listing, np.arange(rows.num_rows), Progress())
    garbage = found.created_before(cutoff)
    columns: dict[str, Any] = {**id_columns_of(garbage.ids)}
    columns |= {"size": garbage.size, "created_at": garbage.created_at}
    return _outcome(rows.schema, UNREFERENCED, len(garbage), columns)


def _check_sizes(storage: Storage, kind: ObjectKind, schema: RowSchema, rows: Any) -> Iterator[Any]:
    size = rows.column("size").fill_null(MISSING).to_numpy(zero_copy_only=False).copy()
    # Local disk lists names only.
    unknown = np.flatnonzero(rows.column("size").is_null().to_numpy(zero_copy_only=False))
    size[unknown] = read_sizes(storage, kind, batch_ids(rows)[unknown], Progress())
    end = schema.read(REFERENCES, rows, ["end"])["end"]
    is_wrong = (size != MISSING) & has_wrong_size(size, end, exact=True)
    for what, chosen in ((ABSENT, size == MISSING), (WRONG_SIZE, is_wrong)):
        bad = rows.filter(pa.array(chosen))
        columns = {name: bad.column(name) for name in (*KEYS, *schema.values)}
        columns["size"] = pa.array(size[chosen])
        yield _outcome(rows.schema, what, bad.num_rows, columns)
    matched = pa.array([int((size != MISSING).sum())])
    yield _outcome(rows.schema, NUM_MATCHED, 1, {"size": matched})


def _outcome(schema: Any, what: str, count: int, columns: dict[str, Any]) -> Any:
    columns = {"what": pa.repeat(pa.scalar(what), count), **columns}
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in schema
    ]
    # With the schema, which says that some columns have no nulls: all batches need the same one.
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
