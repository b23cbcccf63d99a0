"""Read the next files of a list in advance, to hide the latency of the storage."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from icectl.errors import StorageError
from icectl.storage.contract import Storage

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 16
BYTES_AHEAD = 256 << 20
"""Of `read_in_order`: so much was read and waits for a file before it."""


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

    Files that arrive early wait. If they become too many, the missing one is read once more, so
    that memory is bounded.
    """
    due: deque[str] = deque()
    early: defaultdict[str, list[bytes | StorageError]] = defaultdict(list)
    repeated: Counter[str] = Counter()
    waiting = 0

    def noted() -> Iterator[str]:
        for path in paths:
            due.append(path)
            yield path

    for path, data in storage.read_many(noted()):
        if repeated[path]:
            repeated[path] -= 1
            continue
        early[path].append(data)
        waiting += _size(data)
        while due and (due[0] in early or waiting > BYTES_AHEAD):
            first = due.popleft()
            if first in early:
                data = early[first].pop()
                waiting -= _size(data)
                if not early[first]:
                    del early[first]
            else:
                repeated[first] += 1
                data = _read(storage, first)
            yield first, data


def _size(data: bytes | StorageError) -> int:
    return len(data) if isinstance(data, bytes) else 0


def _read(storage: Storage, path: str) -> bytes | StorageError:
    try:
        return storage.read(path)
    except StorageError as error:
        return error
