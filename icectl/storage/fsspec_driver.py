"""The driver on fsspec: the requests of s3fs and gcsfs run on the event loop of fsspec."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, TypeVar

from icectl.storage.contract import ListingShard
from icectl.storage.object_store import ListedPage, ObjectStore

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class AnsweredPage:
    objects: Seq[tuple[str, int, int]]
    """Key, size and time of each object."""
    directories: Seq[str]
    next_token: str | None


class FsspecStore(ObjectStore):
    @abstractmethod
    async def _list_page(
        self, beginning: str, shard: tuple[str, str | None], token: str | None, *, flat: bool
    ) -> AnsweredPage:
        """List one page of keys with this beginning in `shard`; `flat` stops at the next `/`."""

    def _await(self, work: Coroutine[Any, Any, Result]) -> Result:
        # The other driver is also built on this one, and needs no event loop.
        from fsspec.asyn import sync

        try:
            loop = self._client.loop
        except BaseException:
            work.close()
            raise
        found: Result = sync(loop, lambda: work)
        return found

    def _pages(self, directory: str, starts_with: str, shard: ListingShard) -> Iterator[ListedPage]:
        import numpy as np

        bounds = (
            directory + shard.after if shard.after else "",
            None if shard.through is None else directory + shard.through,
        )
        for page in self._answered_pages(directory + starts_with, bounds, flat=False):
            keys, sizes, times = zip(*page.objects, strict=True) if page.objects else ((), (), ())
            yield ListedPage(
                keys, np.array(sizes, np.int64), np.array(times, np.int64), not page.next_token
            )

    def _list_directories(self, directory: str) -> Iterator[str]:
        for page in self._answered_pages(directory, ("", None), flat=True):
            yield from page.directories

    def _answered_pages(
        self, beginning: str, bounds: tuple[str, str | None], *, flat: bool
    ) -> Iterator[AnsweredPage]:
        token: str | None = None
        while True:
            page = self._request(
                beginning,
                lambda token=token: self._await(  # type: ignore[misc]
                    self._list_page(beginning, bounds, token, flat=flat)
                ),
            )
            yield page
            token = page.next_token
            if token is None:
                return
