"""The engine of one process: threads, and sorted columns in memory.

Executors use it as well, each for its own unit of work. This module does not import numpy: see
`icectl.pipeline.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icectl.pipeline.engine import (
    REFERENCES,
    Columns,
    Comparison,
    Engine,
    Listed,
    Rows,
    Scan,
    TableFiles,
    Work,
)
from icectl.pipeline.progress import Progress
from icectl.pipeline.units import Unit, split
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.pipeline.distinct import Distinct
    from icectl.pipeline.id_columns import IdSet
    from icectl.pipeline.listings import Listing, Listings
    from icectl.pipeline.objects import GarbageSet, ObjectKind

UNIT_BYTES = 2**20
UNIT_ITEMS = 64
"""Handing a small file to a thread costs more than reading it from a disk."""
LOCAL_READERS = 2
REMOTE_READERS = 128
REMOTE_UNIT_ITEMS = 512
"""Of work that reads many items at once: enough that their requests overlap."""
LARGE_MANIFEST = 10_000
"""The number of references from which decoding is array work, which threads do in parallel."""
MOST_PENDING = 2**24
"""Rows of few columns that are kept before they are compacted."""


class LocalEngine:
    name = "local"

    def map(self, work: Work, progress: Progress) -> Iterator[Any]:
        for found in _run(work, progress):
            yield from found

    def scan(self, work: Work, progress: Progress, *, is_reused: bool = False) -> LocalScan:
        scan = LocalScan(work, progress)
        for found in _run(work, progress):
            scan.add(found)
        return scan

    def list_objects(
        self, storage: Storage, kind: ObjectKind, listings: Listings, num_expected: int
    ) -> Listed:
        listings.begin(kind)
        return LocalListed(storage, kind, listings)

    def compare(
        self,
        references: Scan,
        listed: Listed,
        progress: Progress,
        *,
        cutoff: int | None = None,
        exact_sizes: bool = False,
    ) -> Comparison:
        from icectl.pipeline.comparison import compare_columns

        assert isinstance(references, LocalScan) and isinstance(listed, LocalListed)
        ids, columns = references.ids()
        return compare_columns(
            listed.storage,
            ids,
            columns,
            listed.wait(),
            progress,
            cutoff=cutoff,
            exact_sizes=exact_sizes,
        )

    def exclude(self, objects: GarbageSet, references: Scan, progress: Progress) -> GarbageSet:
        assert isinstance(references, LocalScan)
        return objects.without(references.ids()[0])

    def write_table(self, files: TableFiles, progress: Progress) -> int | None:
        from icectl.pipeline.table_files import write_directory

        return write_directory(files, progress)

    def release(self) -> None:
        pass


def local_engine(num_chunk_refs: int) -> Engine:
    """A `ChooseEngine` that always chooses this process."""
    return LocalEngine()


@dataclass(frozen=True, slots=True)
class LocalListed:
    storage: Storage
    kind: ObjectKind
    listings: Listings

    def wait(self) -> Listing:
        return self.listings.wait_for(self.kind)


class LocalScan:
    def __init__(self, work: Work, progress: Progress) -> None:
        self._work = work
        self._progress = progress
        self._notes: list[Any] = []
        self._rows: dict[str, Distinct] = {}

    def add(self, found: Iterable[Any]) -> None:
        for one in found:
            if isinstance(one, Rows):
                self._distinct(one.table).add(one.columns)
            else:
                self._notes.append(one)

    def _distinct(self, table: str) -> Distinct:
        from icectl.pipeline.distinct import FEWEST_PENDING, Distinct

        found = self._rows.get(table)
        if found is None:
            columns = self._work.tables[table]
            pending = FEWEST_PENDING if len(columns) > 1 else MOST_PENDING
            found = self._rows[table] = Distinct(columns, fewest_pending=pending)
        return found

    def notes(self) -> list[Any]:
        return self._notes

    def columns(self, table: str, *, in_order: bool = False) -> Columns:
        return self._distinct(table).columns(in_order=in_order)

    def ids(self, table: str = REFERENCES) -> tuple[IdSet, Columns]:
        """The ids in ascending order, and the value columns beside them."""
        import numpy as np

        from icectl.pipeline.id_columns import IdSet

        columns = self.columns(table, in_order=True)
        ids = IdSet(
            columns["high"].astype(np.uint64, copy=False),
            columns["low"].astype(np.uint32, copy=False),
        )
        return ids, {name: columns[name] for name in self._work.tables[table]}

    def totals(self, sum_of: str, by: Sequence[str]) -> tuple[list[Any], dict[str, Columns]]:
        return self._notes, {table: self.columns(table) for table in self._work.tables}

    def total(self, table: str, column: str) -> int:
        from icectl.pipeline.sums import exact_sum

        return exact_sum(self.columns(table)[column])

    def map_rows(
        self,
        label: str,
        table: str,
        function: Callable[[Columns], Iterable[tuple[int, Any]]],
        rows_per_task: int,
    ) -> Iterator[Any]:
        columns = self.columns(table, in_order=True)
        with self._progress.phase(label, len(columns["high"]), "chunks") as counter:
            for count, note in function(columns):
                self._progress.check_time()
                counter.advance(count)
                yield note


def _run(work: Work, progress: Progress) -> Iterator[list[Any]]:
    """What the function yields for each unit, in any order."""
    is_local = not work.storage.is_object_store
    if is_local:
        units = split(work.items, work.weigh, unit_bytes=UNIT_BYTES, most_items=UNIT_ITEMS)
    elif work.reads_at_once:
        units = split(work.items, work.weigh, most_items=REMOTE_UNIT_ITEMS)
    else:
        units = split(work.items, most_items=1)
    largest = max((work.weigh(item)[1] for item in work.items), default=0)
    workers = _count_threads(work, largest, is_local)

    def run(unit: Unit) -> tuple[int, list[Any]]:
        return len(unit.items), list(work.function(unit.items))

    # A thread beside this one would only wait for it, unless the work is done in arrays.
    results = (
        map(run, units)
        if workers == 1 and largest < LARGE_MANIFEST
        else map_on_threads(run, units, workers=workers, ahead=workers + 1)
    )
    with progress.phase(work.label, len(work.items)) as counter:
        for count, found in results:
            progress.check_time()
            yield found
            counter.advance(count)


def _count_threads(work: Work, largest: int, is_local: bool) -> int:
    """Many where requests wait; one for small manifests on a disk, where threads do not help."""
    if is_local and largest < LARGE_MANIFEST:
        return 1
    most = LOCAL_READERS if is_local or work.reads_at_once else REMOTE_READERS
    return max(1, min(most, work.references_at_once // max(largest, 1)))
