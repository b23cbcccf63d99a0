"""Read the next files of a list in advance, to hide the latency of the storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from icectl.errors import StorageError
from icectl.storage.contract import READS_IN_FLIGHT, Storage

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 16
LOCAL_THREADS = 4
LOCAL_BATCH = 32
BYTES_AHEAD = 256 << 20
"""Of `read_in_order`: about so much was read and is not yet taken."""


def read_ahead(
    read: Callable[[Item], Result], items: Iterable[Item], *, ahead: int = AHEAD
) -> Iterator[tuple[Item, Result]]:
    """Each item with the result of `read`, in the order of the items."""
    if ahead == 1:
        yield from ((item, read(item)) for item in items)
        return
    with ThreadPoolExecutor(ahead, thread_name_prefix="icectl-read") as pool:
        pending: deque[tuple[Item, Future[Result]]] = deque()
        try:
            for item in items:
                pending.append((item, pool.submit(read, item)))
                if len(pending) >= ahead:
                    first, future = pending.popleft()
                    yield first, future.result()
            while pending:
                first, future = pending.popleft()
                yield first, future.result()
        finally:
            for _, future in pending:
                future.cancel()


def read_in_order(
    storage: Storage, paths: Iterable[str]
) -> Iterator[tuple[str, bytes | StorageError]]:
    """Each path with its content or its error, in the order of the paths.

    The number of requests ahead follows the size of the files, so that memory is bounded.
    """
    is_remote = storage.is_object_store
    most = READS_IN_FLIGHT if is_remote else LOCAL_THREADS * LOCAL_BATCH
    bound, typical = AHEAD, 0.0

    def read(batch: Sequence[str]) -> list[tuple[str, bytes | StorageError]]:
        found: list[tuple[str, bytes | StorageError]] = []
        for path in batch:
            try:
                found.append((path, storage.read(path)))
            except StorageError as error:
                found.append((path, error))
        return found

    source = iter(paths)
    threads = READS_IN_FLIGHT if is_remote else LOCAL_THREADS
    pool = ThreadPoolExecutor(threads, thread_name_prefix="icectl-read")
    pending: deque[tuple[int, Future[list[tuple[str, bytes | StorageError]]]]] = deque()
    num_pending = 0
    try:
        while True:
            # Of small local files, the handover between threads takes longer than the reading.
            size = 1 if is_remote else max(1, bound // LOCAL_THREADS)
            while num_pending < bound and (batch := [*islice(source, size)]):
                pending.append((len(batch), pool.submit(read, batch)))
                num_pending += len(batch)
            if not pending:
                return
            count, future = pending.popleft()
            num_pending -= count
            for path, data in future.result():
                if isinstance(data, bytes):
                    typical += (len(data) - typical) / 8 if typical else len(data)
                    bound = max(1, min(most, int(BYTES_AHEAD / max(typical, 1))))
                yield path, data
    finally:
        # A request to a silent server takes long: nobody waits for it.
        pool.shutdown(wait=False, cancel_futures=True)
