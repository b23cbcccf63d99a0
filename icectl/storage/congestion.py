"""Adapt the number of concurrent requests to the answers of the storage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from icectl.errors import StorageError, ThrottledError
from icectl.storage.bounded import map_bounded
from icectl.storage.retry import RequestFailure

if TYPE_CHECKING:
    from concurrent.futures import Future

Outcome = tuple[str, StorageError | None]


class Congestion:
    """Limits the number of concurrent requests.

    The limit starts at 1. Each success adds one, so the limit doubles while all requests succeed;
    throttling halves it, but not below 1.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = 1
        self._halved_at = 0.0

    def send(
        self,
        submit: Callable[[Sequence[str]], Future[Sequence[Outcome]]],
        batches: Iterator[Sequence[str]],
    ) -> Iterator[Outcome]:
        """Yield the outcome for each path. After a `ThrottledError`, send no more requests."""
        throttled: StorageError | None = None

        def until_throttled() -> Iterator[Sequence[str]]:
            while throttled is None and (batch := next(batches, None)) is not None:
                yield batch

        for outcomes in map_bounded(submit, until_throttled(), ahead=lambda: self._limit):
            for path, error in outcomes:
                if isinstance(error, ThrottledError):
                    throttled = error
                yield path, error
        for batch in batches:
            yield from ((path, throttled) for path in batch)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wrap one request. Requests that were in flight together halve the limit only once."""
        sent_at = time.monotonic()
        try:
            yield
        except RequestFailure as failure:
            if failure.is_throttling and sent_at >= self._halved_at:
                self._limit = max(1, self._limit // 2)
                self._halved_at = time.monotonic()
            raise
        self._limit = min(self._limit + 1, self._most)
