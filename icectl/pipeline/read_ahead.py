"""Read the next files of a list in advance, to hide the latency of the storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from icectl.errors import StorageError
from icectl.storage.contract import READS_IN_FLIGHT, Storage

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 16
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
    most = READS_IN_FLIGHT if storage.is_object_store else AHEAD
    bound, typical = AHEAD, 0.0

    def read(path: str) -> bytes | StorageError:
        try:
            return storage.read(path)
        except StorageError as error:
            return error

    source = iter(paths)
    pool = ThreadPoolExecutor(most, thread_name_prefix="icectl-read")
    pending: deque[tuple[str, Future[bytes | StorageError]]] = deque()
    try:
        while True:
            room = max(0, bound - len(pending))
            pending += ((path, pool.submit(read, path)) for path in islice(source, room))
            if not pending:
                return
            path, future = pending.popleft()
            data = future.result()
            if isinstance(data, bytes):
                typical += (len(data) - typical) / 8 if typical else len(data)
                bound = max(1, min(most, int(BYTES_AHEAD / max(typical, 1))))
            yield path, data
    finally:
        # A request to a silent server takes long: nobody waits for it.
        pool.shutdown(wait=False, cancel_futures=True)
