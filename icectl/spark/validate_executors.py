"""What the executors do for `validate`: functions for `mapInArrow`.

They call the same functions as the local engine. Whatever is wrong with a file is a row; only
a storage that fails is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.problem import UNREADABLE, Problem
from icectl.errors import FormatError, ObjectNotFoundError
from icectl.model.ids import ManifestId, NodeId
from icectl.model.manifest import Manifest
from icectl.ops.validate.chunks import native_columns
from icectl.ops.validate.data import chunk_ranges, read_chunks
from icectl.ops.validate.manifests import find_unlogged, read_and_check
from icectl.ops.validate.metadata import DecodableArray
from icectl.ops.validate.sampling import Sample
from icectl.pipeline.listings import Listing, read_candidates
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.repository import Repository
from icectl.spark.gc_columns import KEYS, batch_ids, to_columns, to_ids
from icectl.spark.tasks import read_tasks
from icectl.storage.contract import Storage

Batches = Iterable[Any]
PROBLEM = pa.schema(
    [
        ("owner", pa.int64()),
        ("count", pa.int64()),
        *((name, pa.string()) for name in ("code", "object", "detail", "path")),
    ]
)
PROBLEM_SQL = "owner bigint, count bigint, code string, object string, detail string, path string"
"""`owner` is the number of a manifest or of a commit; a row without a code counts."""
NEEDED_SQL = ", ".join(
    f"{name} bigint" for name in ("high", "low", "end", "manifest", "array", "offset", "length")
)
OUTCOME = pa.schema(
    [
        ("what", pa.string()),
        *((name, pa.int64()) for name in (*KEYS, "size", "end", "array")),
        ("foreign", pa.string()),
    ]
)
OUTCOME_SQL = (
    "what string, high bigint, low bigint, size bigint, end bigint, array bigint, foreign string"
)
NEEDED, BAD, ORPHAN, FOREIGN, CHECKED = "needed", "bad", "orphan", "foreign", "checked"
_TURN = np.uint64(1 << 63)


def turned(values: Any) -> Any:
    """Unsigned numbers as signed ones in the same order; `unturned` the other way round."""
    return (values.astype(np.uint64) ^ _TURN).view(np.int64)


def unturned(values: Any) -> Any:
    return values.view(np.uint64) ^ _TURN


def _problem_rows(owner: int, problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [
        {
            "owner": owner,
            "code": problem.rule.code,
            "object": problem.object,
            "detail": problem.detail,
            "path": problem.path,
        }
        for problem in problems
    ]


def check_manifests(repository: Repository, batches: Batches) -> Iterator[Any]:
    """The problems of manifests, and for each that can be read its number of references."""
    for group in read_tasks(batches):
        rows = []
        for number, claim, uses in group:
            manifest, problems = read_and_check(repository, claim, uses)
            rows += _problem_rows(number, problems)
            if manifest is not None:
                rows.append({"owner": number, "count": manifest.num_chunk_refs})
        yield pa.RecordBatch.from_pylist(rows, PROBLEM)


@dataclass(frozen=True, slots=True)
class _Manifests:
    repository: Repository

    def read_manifest(self, manifest_id: ManifestId) -> Manifest:
        manifest = read_or_none(self.repository, manifest_id)
        if manifest is None:
            raise FormatError("the manifest cannot be read")
        return manifest


def read_or_none(repository: Repository, manifest_id: ManifestId) -> Manifest | None:
    try:
        return repository.read_manifest(manifest_id)
    except (ObjectNotFoundError, *UNREADABLE):
        return None


def check_logged(repository: Repository, batches: Batches) -> Iterator[Any]:
    """Chunks that a commit changed and its logs do not name."""
    for group in read_tasks(batches):
        rows = []
        for number, changed, claims in group:
            problems = find_unlogged(repository, _Manifests(repository), changed, claims)
            rows += _problem_rows(number, problems)
        yield pa.RecordBatch.from_pylist(rows, PROBLEM)


def find_needed(
    repository: Repository, places: dict[NodeId, int], batches: Batches
) -> Iterator[Any]:
    """The native references of the manifests that can be read."""
    for group in read_tasks(batches):
        for number, claim, _ in group:
            manifest = read_or_none(repository, claim.id)
            for array in manifest.arrays if manifest is not None else ():
                columns = native_columns(array.refs)
                rows = len(columns["high"])
                place = places.get(array.node_id, -1)
                yield pa.RecordBatch.from_pydict(
                    {
                        "high": turned(columns["high"]),
                        "low": columns["low"].astype(np.int64),
                        "end": turned(columns["end"]),
                        "manifest": np.full(rows, number, np.int64),
                        "array": np.full(rows, place, np.int64),
                        "offset": columns["offset"].view(np.int64),
                        "length": columns["length"].view(np.int64),
                    }
                )


def compare(storage: Storage, batches: Batches) -> Iterator[Any]:
    """Needed chunks become those of another size than needed, and a count; others pass."""
    for batch in batches:
        is_needed = pc.equal(batch.column("what"), NEEDED)
        yield batch.filter(pc.invert(is_needed)).select(OUTCOME.names)
        yield from _compare(storage, batch.filter(is_needed))


def _compare(storage: Storage, needed: Any) -> Iterator[Any]:
    ids = batch_ids(needed)
    is_listed = needed.column("is_listed").is_valid().to_numpy(zero_copy_only=False)
    told = needed.column("size")
    size = told.fill_null(-1).to_numpy(zero_copy_only=False).copy()
    # Local disk tells names only.
    unknown = np.flatnonzero(is_listed & ~told.is_valid().to_numpy(zero_copy_only=False))
    if len(unknown):
        listing = Listing(ObjectKind.CHUNK, ids[unknown], None, None, ())
        found = read_candidates(storage, listing, np.arange(len(unknown)), Progress())
        there = dict(zip(_keys(found.ids), found.size.tolist(), strict=True))
        size[unknown] = [there.get(key, -1) for key in _keys(ids[unknown])]
    end = unturned(needed.column("end").to_numpy(zero_copy_only=False).copy())
    is_bad = (size < 0) | (size.astype(np.uint64) != end)
    bad = needed.filter(pa.array(is_bad))
    columns = {name: bad.column(name) for name in (*KEYS, "end", "array")}
    yield _outcome(BAD, bad.num_rows, {**columns, "size": pa.array(size[is_bad])})
    yield _outcome(CHECKED, 1, {"size": pa.array([int((size >= 0).sum())])})


def _keys(ids: Any) -> list[tuple[int, int]]:
    return list(zip(ids.high.tolist(), ids.low.tolist(), strict=True))


def _outcome(what: str, rows: int, columns: dict[str, Any]) -> Any:
    """In the columns of what passes."""
    return pa.RecordBatch.from_pydict(
        {
            "what": pa.repeat(pa.scalar(what), rows),
            **{
                field.name: columns.get(field.name, pa.nulls(rows, field.type))
                for field in list(OUTCOME)[1:]
            },
        }
    )


def read_data(
    storage: Storage,
    arrays: Sequence[DecodableArray | None] | None,
    sample: Sample | None,
    now: int,
    batches: Batches,
) -> Iterator[Any]:
    """Read, and decode where the arrays are given, the chunks of the sample."""
    for batch in batches:
        columns = {
            name: batch.column(name).to_numpy(zero_copy_only=False).copy()
            for name in batch.schema.names
        }
        ids = to_ids(columns["high"], columns["low"])
        for name in ("offset", "length"):
            columns[name] = columns[name].view(np.uint64)
        rows = np.arange(len(ids))
        if sample is not None:
            rows = np.flatnonzero(sample.choose(ids.high, columns["length"], now))
        found: list[dict[str, Any]] = []
        count = 0
        for chunk, is_read, problems in read_chunks(
            storage, chunk_ranges(ids, columns, rows), arrays
        ):
            count += is_read
            found += _problem_rows(chunk.manifest, problems)
        yield pa.RecordBatch.from_pylist([*found, {"count": count}], PROBLEM)


def bad_ids(rows: Sequence[Any]) -> Any:
    """Rows of the outcome as an Arrow table of their ids."""
    high = np.array([row.high for row in rows], np.int64)
    low = np.array([row.low for row in rows], np.int64)
    return pa.table(to_columns(to_ids(high, low)))
