"""Process a stream of items with a bounded number of them in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")

SAMPLES_APART = 64


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
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int,
    ahead: int | Callable[[], int],
) -> Iterator[Result]:
    """Do what `map_bounded` does on threads that end with the iteration.

    If the caller stops early (Ctrl-C), calls that are under way are not waited for: a request to
    a silent server takes long. An executor is not used because its futures need as much processor
    time as a small request.
    """
    from queue import SimpleQueue
    from threading import Thread

    todo: SimpleQueue[tuple[Item] | None] = SimpleQueue()
    done: SimpleQueue[tuple[Result] | BaseException] = SimpleQueue()
    source = iter(items)
    is_over = False
    pending = 0
    threads: list[Thread] = []

    def work() -> None:
        while (task := todo.get()) is not None and not is_over:
            try:
                done.put((function(*task),))
            except BaseException as error:
                done.put(error)

    def fill() -> None:
        nonlocal pending
        bound = ahead() if callable(ahead) else ahead
        for item in islice(source, max(0, bound - pending)):
            todo.put((item,))
            pending += 1
            if len(threads) < min(workers, pending):
                name = f"icectl-storage_{len(threads)}"
                threads.append(Thread(target=work, name=name, daemon=True))
                threads[-1].start()

    try:
        fill()
        while pending:
            result = done.get()
            pending -= 1
            if isinstance(result, BaseException):
                raise result
            fill()
            yield result[0]
    finally:
        is_over = True
        for _ in threads:
            todo.put(None)


def map_by_duration(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    sample: int,
    long_seconds: float,
    workers: int,
) -> Iterator[Result]:
    """Call the function on this thread while calls are short, and on a pool while they are long.

    Threads that make short calls compete for the interpreter: eight of them write small files
    four times slower than one. Every now and then, a sample of calls is measured again. The
    fastest quarter counts, because other processes delay many calls on a busy machine.
    """
    from time import perf_counter

    rest = iter(items)
    while True:
        seconds = []
        for item in islice(rest, sample):
            begin = perf_counter()
            result = function(item)
            seconds.append(perf_counter() - begin)
            yield result
        if not seconds:
            return
        if sorted(seconds)[len(seconds) // 4] > long_seconds:
            some = islice(rest, SAMPLES_APART * sample)
            yield from map_on_threads(function, some, workers=workers, ahead=2 * workers)


def in_batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
