"""Process a stream of items with a bounded number of them in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_bounded(
    submit: Callable[[Item], Future[Result]],
    items: Iterable[Item],
    *,
    ahead: int | Callable[[], int],
) -> Iterator[Result]:
    """Yield results as they arrive; at most `ahead` items are submitted and not yet yielded.

    `ahead` may be a function, for a bound that changes. The items are consumed lazily. If the
    caller stops early, calls that have not started are cancelled.
    """
    from queue import SimpleQueue

    # A queue, since waiting for any of many futures costs as much as there are of them.
    done: SimpleQueue[Future[Result]] = SimpleQueue()
    source = iter(items)
    pending: set[Future[Result]] = set()

    def fill() -> None:
        bound = ahead() if callable(ahead) else ahead
        for item in islice(source, max(0, bound - len(pending))):
            future = submit(item)
            pending.add(future)
            future.add_done_callback(done.put)

    try:
        fill()
        while pending:
            future = done.get()
            pending.remove(future)
            result = future.result()
            fill()
            yield result
    finally:
        for future in pending:
            future.cancel()


def map_on_threads(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int, ahead: int
) -> Iterator[Result]:
    """Run `map_bounded` on a pool of threads that ends with the iteration.

    If the caller stops early (Ctrl-C), calls that are under way are not waited for: a request to
    a silent server takes long.
    """
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(workers, thread_name_prefix="icectl-storage")
    try:
        yield from map_bounded(lambda item: pool.submit(function, item), items, ahead=ahead)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def in_batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
