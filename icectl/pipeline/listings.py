"""What lies in a directory of the repository, as columns.

Names that are no ids are foreign: they are reported and never touched. On local disk only
names are read, since a stat of each file would cost more than all the rest; object stores
tell sizes and times with each name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from icectl.pipeline.id_columns import IdSet, decode_names, join, sort_order
from icectl.pipeline.objects import Garbage, ObjectKind
from icectl.pipeline.progress import Counter, Progress
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import WHOLE_DIRECTORY, ListingShard, Storage
from icectl.storage.sharded_listing import list_columns_sharded

SECONDS_BETWEEN_LOOKS = 0.1
GONE = (-1, -1)
STATS_PER_CALL = 4096

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    kind: ObjectKind
    ids: IdSet
    size: NDArray[np.int64] | None
    """None where the storage does not tell it for free; `created_at` alike."""
    created_at: Times | None
    foreign: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


class Listings:
    """The listings of several directories, read in the background.

    Object stores list them all at once; a disk is read by one thread.
    """

    def __init__(self, storage: Storage, progress: Progress) -> None:
        self._storage = storage
        self._progress = progress
        self._counters: dict[ObjectKind, _Tally] = {}
        self._futures: dict[ObjectKind, Future[Listing]] = {}
        threads = len(ObjectKind) if storage.is_object_store else 1
        self._pool = ThreadPoolExecutor(threads, "icectl-listing")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        for tally in self._counters.values():
            tally.stopped = True
        # A disk answers at once; a request to a silent server takes long.
        self._pool.shutdown(wait=not self._storage.is_object_store, cancel_futures=True)

    def begin(self, kind: ObjectKind) -> None:
        """Begin to list the objects of a kind, unless this was begun already."""
        if kind in self._futures:
            return
        tally = self._counters[kind] = _Tally()
        self._futures[kind] = self._pool.submit(
            read_listing, self._storage, kind, self._progress.silent(), tally
        )

    def abandon(self, kind: ObjectKind) -> None:
        """Stop a listing that is not needed, and free what it has read."""
        if self._futures.pop(kind, None) is not None:
            self._counters.pop(kind).stopped = True

    def wait_for(self, kind: ObjectKind) -> Listing:
        future, tally = self._futures[kind], self._counters[kind]
        shown = 0
        with self._progress.phase(f"listing {kind.directory}", None, "objects") as counter:
            while True:
                try:
                    listing = future.result(SECONDS_BETWEEN_LOOKS)
                except TimeoutError:
                    if future.done():
                        raise
                    counter.advance(tally.count - shown)
                    shown = tally.count
                else:
                    counter.advance(tally.count - shown)
                    return listing


class _Tally:
    def __init__(self) -> None:
        self.count = 0
        self.stopped = False

    def advance(self, count: int = 1) -> None:
        self.count += count
        if self.stopped:
            raise InterruptedError

    def expect(self, total: int) -> None:
        pass


def read_listing(
    storage: Storage, kind: ObjectKind, progress: Progress, counter: Counter
) -> Listing:
    """Every object of one kind, or the storage's failure: never a part of them."""
    parts: list[Listing] = []
    for part in read_listing_parts(storage, kind):
        progress.check_time()
        counter.advance(len(part) + len(part.foreign))
        parts.append(part)
    foreign = tuple(path for part in parts for path in part.foreign)
    sizes = [part.size for part in parts if part.size is not None]
    times = [part.created_at for part in parts if part.created_at is not None]
    is_told = 0 < len(parts) == len(sizes)
    ids = join([part.ids for part in parts])
    parts.clear()
    order = sort_order(ids)
    if not is_told:
        return Listing(kind, ids[order], None, None, foreign)
    size, created_at = np.concatenate(sizes)[order], np.concatenate(times)[order]
    return Listing(kind, ids[order], size, created_at, foreign)


def read_listing_parts(
    storage: Storage, kind: ObjectKind, shard: ListingShard | None = None
) -> Iterator[Listing]:
    """The same in blocks, in no order; or one shard of it."""
    names = storage.list_names(kind.directory) if shard in (None, WHOLE_DIRECTORY) else None
    if names is not None:
        for batch in names:
            ids, good = decode_names(batch)
            yield Listing(kind, ids, None, None, _foreign(kind, batch, good))
        return
    if shard is None:
        columns = list_columns_sharded(storage, kind.directory)
    else:
        columns = storage.list_columns(kind.directory, shard=shard)
    for part in columns:
        ids, good = decode_names(part.names)
        if good.all():
            yield Listing(kind, ids, part.sizes, part.created_at, ())
        else:
            foreign = _foreign(kind, part.names, good)
            yield Listing(kind, ids, part.sizes[good], part.created_at[good], foreign)


def read_candidates(
    storage: Storage, listing: Listing, rows: NDArray[np.intp], progress: Progress
) -> Garbage:
    """The objects at `rows` of the listing with their sizes and times.

    One that went away meanwhile is left out.
    """
    ids = listing.ids[rows]
    if listing.size is not None and listing.created_at is not None:
        return Garbage(listing.kind, ids, listing.size[rows], listing.created_at[rows])
    directory = listing.kind.directory
    size = np.empty(len(ids), np.int64)
    created_at = np.empty(len(ids), np.int64)

    def read(start: int) -> int:
        names = ids[np.arange(start, min(start + STATS_PER_CALL, len(ids)))].to_names()
        found = [pair or GONE for pair in storage.read_sizes_and_times(directory, names)]
        block = slice(start, start + len(names))
        size[block], created_at[block] = zip(*found, strict=True)
        return len(names)

    # On two threads, because half of the time is spent in the file system.
    calls = map_on_threads(read, range(0, len(ids), STATS_PER_CALL), workers=2, ahead=3)
    with progress.phase(f"reading times of {directory}", len(ids), "objects") as counter:
        for count in calls:
            progress.check_time()
            counter.advance(count)
    return Garbage(listing.kind, ids, size, created_at)[size >= 0]


def _foreign(kind: ObjectKind, names: Sequence[str], good: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(kind.path(names[row]) for row in np.flatnonzero(~good).tolist())
