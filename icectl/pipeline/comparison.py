"""The one comparison of references with a listing, and the errors that gc makes of its result.

`compare_columns` compares all ids in memory, or on an executor of Spark those of one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.checks.listing import missing, wrong_chunk_size
from icectl.checks.problem import error_of
from icectl.errors import FormatError, Remedy
from icectl.pipeline.engine import Columns, Comparison, Mismatches
from icectl.pipeline.id_columns import BLOCK, EMPTY, IdSet
from icectl.pipeline.listings import Listing, read_candidates
from icectl.pipeline.objects import Garbage, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.storage.contract import Storage

MISSING = -1
"""The size of an object that does not exist."""
MISSING_CHUNK = "a kept manifest refers to it"


@dataclass(frozen=True, slots=True, eq=False)
class ColumnComparison:
    num_listed: int
    num_matched: int
    foreign: tuple[str, ...]
    unreferenced: Garbage
    _ids: IdSet
    """Of the references."""
    _columns: Columns
    _wrong: NDArray[np.intp]
    """Rows of the references that are missing or have the wrong size, and their sizes."""
    _size: NDArray[np.int64]

    @property
    def num_foreign(self) -> int:
        return len(self.foreign)

    def mismatches(self, known: IdSet | None = None, limit: int | None = None) -> Mismatches:
        is_new = ~(known or EMPTY).contains(self._ids[self._wrong])
        rows, size = self._wrong[is_new], self._size[is_new]
        order = np.argsort(size != MISSING, kind="stable")[:limit]
        found = rows[order]
        return Mismatches(
            self._ids[found],
            size[order],
            {name: column[found] for name, column in self._columns.items()},
            int((size == MISSING).sum()),
        )

    def map_mismatches(
        self,
        function: Callable[[Columns], Iterable[Any]],
        label: str = "",
        tasks: int | None = None,
    ) -> Iterator[Any]:
        found = self.mismatches()
        if len(found):
            yield from function(
                {"high": found.ids.high, "low": found.ids.low, "size": found.size, **found.columns}
            )


def compare_columns(
    storage: Storage,
    ids: IdSet,
    columns: Columns,
    listing: Listing,
    progress: Progress,
    *,
    cutoff: int | None,
    exact_sizes: bool,
) -> ColumnComparison:
    """Compare references, by ascending id, with a listing; see `Engine.compare`."""
    num_matched = 0
    if exact_sizes or ("end" in columns and listing.size is not None):
        rows = listing.ids.find(ids)
        size = np.full(len(ids), MISSING, np.int64)
        there = np.flatnonzero(rows >= 0)
        if listing.size is not None:
            size[there] = listing.size[rows[there]]
        else:
            size[there] = read_sizes(storage, listing.kind, ids[there], progress)
        wrong = np.flatnonzero(
            (size == MISSING) | has_wrong_size(size, columns["end"], exact=exact_sizes)
        )
        size, num_matched = size[wrong], int((size != MISSING).sum())
    else:
        wrong = np.flatnonzero(~listing.ids.contains(ids))
        size = np.full(len(wrong), MISSING, np.int64)
    unreferenced = np.flatnonzero(~ids.contains(listing.ids))
    if cutoff is not None:
        garbage = read_candidates(storage, listing, unreferenced, progress).created_before(cutoff)
    else:
        unknown = np.zeros(len(unreferenced), np.int64)
        garbage = Garbage(listing.kind, listing.ids[unreferenced], unknown, unknown)
    return ColumnComparison(
        len(listing),
        num_matched,
        tuple(sorted(listing.foreign)),
        garbage,
        ids,
        columns,
        wrong,
        size,
    )


def read_sizes(
    storage: Storage, kind: ObjectKind, ids: IdSet, progress: Progress
) -> NDArray[np.int64]:
    """The size of each object; `MISSING` if it does not exist any more."""
    size = np.empty(len(ids), np.int64)
    with progress.phase(f"reading sizes of {kind.directory}", len(ids), "objects") as counter:
        for start in range(0, len(ids), BLOCK):
            progress.check_time()
            names = ids[np.arange(start, min(start + BLOCK, len(ids)))].to_names()
            found = storage.read_sizes_and_times(kind.directory, names)
            size[start : start + len(names)] = [MISSING if one is None else one[0] for one in found]
            counter.advance(len(names))
    return size


def has_wrong_size(
    size: NDArray[np.int64], end: NDArray[np.uint64], *, exact: bool
) -> NDArray[np.bool_]:
    """Whether the size of each existing object is not what references need."""
    known = size.astype(np.uint64)
    wrong: NDArray[np.bool_] = (known != end) if exact else (known < end)
    return wrong


def check_chunks(comparison: Comparison, kind: ObjectKind, known_missing: IdSet) -> None:
    """`FormatError` if a referenced object is missing or too short, unless its loss is known."""
    found = comparison.mismatches(known_missing, limit=1)
    if not len(found):
        return
    path, size = kind.path(found.ids.to_names()[0]), int(found.size[0])
    if size == MISSING:
        raise missing_error(path, found.num_missing, MISSING_CHUNK)
    raise error_of(wrong_chunk_size(path, size, int(found.columns["end"][0])))


def check_present(
    kept: IdSet, listing: Listing, known_missing: frozenset[str], reason: str
) -> None:
    absent = ~listing.ids.contains(kept)
    if not absent.any():
        return
    paths = [listing.kind.path(name) for name in kept[absent].to_names()]
    unknown = [path for path in paths if path not in known_missing]
    if unknown:
        raise missing_error(unknown[0], len(unknown), reason)


def missing_error(path: str, count: int, reason: str) -> FormatError:
    more = f" ({count - 1} more are missing)" if count > 1 else ""
    # Without a manifest it is unknown what else is needed, so its loss is never excused.
    is_manifest = path.startswith(ObjectKind.MANIFEST.path(""))
    hint = Remedy("restore-or-expire") if is_manifest else Remedy("restore-or-known-missing")
    return error_of(missing(path, f"{reason}{more}"), hint)


def find_garbage(
    storage: Storage, listing: Listing, kept: IdSet, cutoff: int, progress: Progress
) -> Garbage:
    rows = np.flatnonzero(~kept.contains(listing.ids))
    return read_candidates(storage, listing, rows, progress).created_before(cutoff)
