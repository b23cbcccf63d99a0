"""List directories with millions of objects in parallel.

Shards are ranges of names with about the same number of ids. Adjacent ranges cover every name
exactly once, including foreign names. The first page shows how many shards the directory needs. If
the storage does not benefit from shards (local disk), there is one listing and no thread.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from icectl.model.ids import ALPHABET
from icectl.storage.contract import (
    WHOLE_DIRECTORY,
    ListedColumns,
    ListingShard,
    Storage,
)

SMALL_DIRECTORY = 1000
"""The objects of a full page."""
SHARD_OBJECTS = 900
"""Fewer than a page, so that a shard of the expected size needs one request."""
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


def plan_rest(names: Sequence[str], most: int) -> Sequence[ListingShard]:
    """Return shards for what follows the first page of a listing, by the names on that page."""
    last = names[-1]
    share = _position(last)
    if share >= 1:
        return [ListingShard(last)]
    # The ids are random, so the share of their range on the page is about its share of all ids.
    rest = len(names) * (1 - share) / max(share, 1e-9)
    count = min(most, math.ceil(rest / SHARD_OBJECTS))
    if count <= 1:
        return [ListingShard(last)]
    total = min(1024, math.ceil(count / (1 - share)))
    return [
        ListingShard(max(shard.after, last), shard.through)
        for shard in plan_listing_shards(total)
        if shard.through is None or shard.through > last
    ]


def _position(name: str) -> float:
    """Return the share of all ids that precede this name."""
    position, scale = 0.0, 1.0
    for letter in name[:4]:
        scale /= len(ALPHABET)
        position += scale * sum(letter > other for other in ALPHABET)
        if letter not in ALPHABET:
            break
    return position


def list_columns_sharded(storage: Storage, prefix: str) -> Iterator[ListedColumns]:
    """Yield the same columns as `storage.list_columns(prefix)`, in any order."""
    listing = storage.list_columns(prefix)
    most = storage.listing_shards()
    if most == 1:
        yield from listing
        return
    names: list[str] = []
    for batch in listing:
        yield batch
        names += batch.names
        if len(names) >= SMALL_DIRECTORY:
            break
    else:
        return
    if names != sorted(names):
        # Ranges need a storage that lists in order.
        yield from listing
        return
    listing.close()  # type: ignore[attr-defined]
    yield from _list_on_threads(storage, prefix, plan_rest(names, most))


def _list_on_threads(
    storage: Storage, prefix: str, shards: Sequence[ListingShard]
) -> Iterator[ListedColumns]:
    batches: queue.Queue[ListedColumns | BaseException | None] = queue.Queue(BATCHES_WAITING)
    stopped = threading.Event()

    def put(item: ListedColumns | BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                batches.put(item, timeout=0.1)
                return

    def list_shard(shard: ListingShard) -> None:
        try:
            for batch in storage.list_columns(prefix, shard=shard):
                put(batch)
                if stopped.is_set():
                    return
        except BaseException as error:
            put(error)
        else:
            put(None)

    for shard in shards:
        threading.Thread(
            target=list_shard, args=(shard,), name="icectl-listing", daemon=True
        ).start()
    try:
        running = len(shards)
        while running:
            batch = batches.get()
            if batch is None:
                running -= 1
            elif isinstance(batch, BaseException):
                raise batch
            else:
                yield batch
    finally:
        # Nobody waits for the threads: a request to a silent server takes long.
        stopped.set()
