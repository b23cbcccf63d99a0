"""List directories with millions of objects in parallel.

Shards are ranges of names with about the same number of ids. Adjacent ranges cover every name
exactly once, including foreign names. If the storage does not benefit from shards (local disk), or
if the directory is small, there is one listing and no thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from icectl.model.ids import ALPHABET
from icectl.storage.bounded import in_batches
from icectl.storage.contract import WHOLE_DIRECTORY, ListingShard, ObjectInfo, Storage

SMALL_DIRECTORY = 1000
BATCH = 1000
BATCHES_WAITING = 32


def plan_listing_shards(count: int) -> Sequence[ListingShard]:
    """Return at most `count` shards (and at most 1024) that cover all names."""
    cells = [first + second for first in ALPHABET for second in ALPHABET]
    count = max(1, min(count, len(cells)))
    cuts = [cells[number * len(cells) // count] for number in range(1, count)]
    return list(map(ListingShard, ["", *cuts], [*cuts, None]))


def plan_shards_of(storage: Storage, prefix: str, count: int) -> Sequence[ListingShard]:
    """Return shards for independent listers; one shard for a small directory."""
    if storage.listing_shards() > 1:
        start = len(prefix) + 1
        infos = storage.list(prefix)
        names = [info.path[start:] for info in islice(infos, SMALL_DIRECTORY)]
        # Ranges need a storage that lists in order.
        if len(names) == SMALL_DIRECTORY and names == sorted(names):
            return plan_listing_shards(count)
    return [WHOLE_DIRECTORY]


def list_sharded(
    storage: Storage, prefix: str, *, with_info: bool = True, workers: int = 16
) -> Iterator[ObjectInfo]:
    """Yield the same objects as `storage.list(prefix)`, in any order."""
    listing = storage.list(prefix, with_info=with_info)
    shards = plan_listing_shards(storage.listing_shards())
    if len(shards) == 1 or workers == 1:
        yield from listing
        return
    beginning = list(islice(listing, SMALL_DIRECTORY))
    yield from beginning
    if len(beginning) < SMALL_DIRECTORY:
        return
    name_start = len(prefix.rstrip("/")) + 1 if prefix else 0
    names = [info.path[name_start:] for info in beginning]
    if names != sorted(names):
        # Ranges need a storage that lists in order.
        yield from listing
        return
    listing.close()  # type: ignore[attr-defined]
    last = names[-1]
    rest = [
        ListingShard(max(shard.after, last), shard.through)
        for shard in shards
        if shard.through is None or shard.through > last
    ]
    yield from _list_on_threads(storage, prefix, rest, with_info=with_info, workers=workers)


def _list_on_threads(
    storage: Storage,
    prefix: str,
    shards: Sequence[ListingShard],
    *,
    with_info: bool,
    workers: int,
) -> Iterator[ObjectInfo]:
    batches: queue.Queue[Sequence[ObjectInfo] | Exception | None] = queue.Queue(BATCHES_WAITING)
    stopped = threading.Event()

    def list_shard(shard: ListingShard) -> None:
        try:
            infos = storage.list(prefix, with_info=with_info, shard=shard)
            for batch in in_batches(infos, BATCH):
                if stopped.is_set():
                    break
                batches.put(batch)
        except Exception as error:
            batches.put(error)
        else:
            batches.put(None)

    with ThreadPoolExecutor(min(workers, len(shards)), "icectl-listing") as pool:
        futures = [pool.submit(list_shard, shard) for shard in shards]
        running = len(futures)
        try:
            while running:
                batch = batches.get()
                if batch is None:
                    running -= 1
                elif isinstance(batch, Exception):
                    raise batch
                else:
                    yield from batch
        finally:
            stopped.set()
            for future in futures:
                future.cancel()
            # Empty the queue, in case a thread waits for room in it.
            while not all(future.done() for future in futures):
                try:
                    batches.get(timeout=0.1)
                except queue.Empty:
                    continue
