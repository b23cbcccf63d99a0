"""Read the next files of a list in advance, to hide the latency of the storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 16


def read_ahead(
    read: Callable[[Item], Result], items: Iterable[Item], *, ahead: int = AHEAD
) -> Iterator[tuple[Item, Result]]:
    """Each item with the result of `read`, in the order of the items."""
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
