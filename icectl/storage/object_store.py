"""The common base of S3 and GCS: keys, retries, conditional puts, bulk operations.

A backend implements single requests as coroutines that raise `RequestFailure`; many of them run
concurrently on fsspec's event loop. This module decides which failures are retried, which are lost
races, and which message the user reads.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from icectl.errors import (
    Hint,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StorageError,
    ThrottledError,
)
from icectl.storage.bounded import in_batches, map_bounded
from icectl.storage.congestion import Congestion
from icectl.storage.contract import (
    WHOLE_DIRECTORY,
    ListingShard,
    ObjectInfo,
    Storage,
    Version,
    VersionedBytes,
)
from icectl.storage.paths import (
    PRIVATE_PREFIX,
    check_path,
    check_prefix,
    check_text,
    is_private,
    join_path,
)
from icectl.storage.retry import RequestFailure, with_retries

if TYPE_CHECKING:
    from fsspec.asyn import AsyncFileSystem

Result = TypeVar("Result")

WRITE_ID = "icechunkwriteid"
"""User metadata that identifies the writer of an object; official writers use the same key."""

LISTING_SHARDS = 32


@dataclass(frozen=True, slots=True)
class ObjectHead:
    size: int
    created_at: int
    version: Version
    metadata: Mapping[str, str]
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class ListedPage:
    objects: Seq[tuple[str, int, int]]
    """Key, size and time of each object."""
    directories: Seq[str]
    next_token: str | None


class Connection:
    """An fsspec file system, created on first use and again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None

    def get(self, connect: Callable[[], Any]) -> Any:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), connect())
            return self._made[1]


class ObjectStore(Storage):
    """The keys below `prefix` in `bucket`."""

    is_object_store = True
    scheme: str
    permission_hint: Hint
    deletes_in_flight: int

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self.is_bucket_root = not prefix
        self._conditional_writes = False
        self._deletes = Congestion(self.deletes_in_flight)
        self._connection = Connection()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._connection = Connection()
        self._deletes = Congestion(self.deletes_in_flight)

    def in_bucket(self, bucket: str) -> Self:
        """Return a storage for the root of another bucket that uses the same client."""
        other = copy(self)
        other._bucket, other._prefix, other._connection = bucket, "", self._connection
        return other

    @abstractmethod
    def _connect(self) -> AsyncFileSystem:
        """Create the fsspec file system that provides connections and credentials."""

    @abstractmethod
    async def _get_object(self, key: str, span: tuple[int, int] | None) -> VersionedBytes:
        """Read the object, or its bytes from `span[0]` (inclusive) to `span[1]` (exclusive)."""

    @abstractmethod
    async def _head_object(self, key: str) -> ObjectHead: ...

    @abstractmethod
    async def _put_object(
        self, key: str, data: bytes, expected: Version | None, metadata: Mapping[str, str]
    ) -> Version:
        """Replace the object at version `expected`, or create it if that is None."""

    @abstractmethod
    async def _delete_objects(self, keys: Seq[str]) -> Mapping[str, RequestFailure]:
        """Delete one batch of objects; return failures by key. Missing objects are not failures."""

    @abstractmethod
    async def _list_page(
        self, beginning: str, shard: tuple[str, str | None], token: str | None, *, flat: bool
    ) -> ListedPage:
        """List one page of keys with this beginning in `shard`; `flat` stops at the next `/`."""

    @abstractmethod
    async def _read_clock(self) -> int: ...

    @property
    def location(self) -> str:
        return f"{self.scheme}://{join_path(self._bucket, self._prefix).rstrip('/')}"

    @property
    def _filesystem(self) -> AsyncFileSystem:
        return self._connection.get(self._connect)

    def _find_root(self) -> str:
        """Return the beginning of every key."""
        return f"{self._prefix}/" if self._prefix else ""

    def _key(self, path: str) -> str:
        return self._find_root() + check_text(check_path(path))

    def _submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        try:
            loop = self._filesystem.loop
            self._find_root()  # it may send requests, and coroutines cannot wait for those
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _request(self, path: str, attempt: Callable[[], Awaitable[Result]]) -> Result:
        try:
            return await with_retries(attempt)
        except RequestFailure as failure:
            raise self._error(failure, path) from None

    def read(self, path: str) -> bytes:
        return self.read_versioned(path).data

    def read_versioned(self, path: str) -> VersionedBytes:
        key = self._key(path)
        return self._run(self._request(path, lambda: self._get_object(key, None)))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        key = self._key(path)
        if length == 0:
            return b""
        too_short = StorageError(f"{path} ends before byte {offset + length}")

        async def read() -> bytes:
            try:
                span = (offset, offset + length)
                found = await with_retries(lambda: self._get_object(key, span))
            except RequestFailure as failure:
                raise (too_short if failure.status == 416 else self._error(failure, path)) from None
            return found.data

        data = self._run(read())
        if len(data) != length:
            raise too_short
        return data

    def read_many(
        self, paths: Iterable[str], *, concurrency: int = 16
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        async def read_one(path: str) -> tuple[str, bytes | StorageError]:
            try:
                key = self._key(path)
                found = await self._request(path, lambda: self._get_object(key, None))
            except StorageError as error:
                return path, error
            return path, found.data

        return map_bounded(lambda path: self._submit(read_one(path)), paths, ahead=concurrency)

    def info(self, path: str) -> ObjectInfo:
        key = self._key(path)
        head = self._run(self._request(path, lambda: self._head_object(key)))
        return ObjectInfo(path, head.size, head.created_at, head.etag)

    def listing_shards(self) -> int:
        return LISTING_SHARDS

    def list(
        self,
        prefix: str,
        *,
        with_info: bool = True,
        starts_with: str = "",
        shard: ListingShard = WHOLE_DIRECTORY,
    ) -> Iterator[ObjectInfo]:
        directory = self._directory(prefix)
        root = len(self._find_root())
        bounds = (
            directory + shard.after if shard.after else "",
            None if shard.through is None else directory + shard.through,
        )
        for page in self._pages(directory + starts_with, bounds, flat=False):
            for key, size, created_at in page.objects:
                # Some consoles create keys that end in / to mark directories; these are not files.
                if key.endswith("/") or is_private(key) or key[len(directory) :] not in shard:
                    continue
                yield ObjectInfo(key[root:], size, created_at)

    def list_directories(self, prefix: str) -> Iterator[str]:
        directory = self._directory(prefix)
        for page in self._pages(directory, ("", None), flat=True):
            names = (name[len(directory) :].rstrip("/") for name in page.directories)
            yield from filter(None, names)  # keys that begin with `/` have an empty component

    def _directory(self, prefix: str) -> str:
        return self._find_root() + (f"{check_prefix(prefix)}/" if prefix else "")

    def _pages(
        self, beginning: str, bounds: tuple[str, str | None], *, flat: bool
    ) -> Iterator[ListedPage]:
        def submit(token: str | None) -> Future[ListedPage]:
            return self._submit(
                self._request(
                    beginning, lambda: self._list_page(beginning, bounds, token, flat=flat)
                )
            )

        future: Future[ListedPage] | None = submit(None)
        try:
            while future is not None:
                page = future.result()
                # Request the next page while the caller processes this one.
                future = submit(page.next_token) if page.next_token else None
                yield page
        finally:
            if future is not None:
                future.cancel()

    def _put(
        self,
        path: str,
        data: bytes,
        expected: Version | None,
        metadata: Mapping[str, str] | None,
    ) -> Version:
        return self._run(self._put_if(path, data, expected, metadata))

    async def _put_if(
        self,
        path: str,
        data: bytes,
        expected: Version | None,
        metadata: Mapping[str, str] | None = None,
    ) -> Version:
        key = self._key(path)
        write_id = uuid4().hex
        stamped = {**(metadata or {}), WRITE_ID: write_id}
        try:
            return await with_retries(lambda: self._put_object(key, data, expected, stamped))
        except RequestFailure as failure:
            if not _lost_race(failure):
                raise self._error(failure, path) from None
        # An earlier attempt may have succeeded and its response been lost. The HTTP library also
        # repeats requests, so check for our own write after every refusal.
        try:
            head = await with_retries(lambda: self._head_object(key))
        except RequestFailure as failure:
            if failure.status != 404:
                raise self._error(failure, path) from None
        else:
            if head.metadata.get(WRITE_ID) == write_id:
                return head.version
        raise PreconditionFailedError(path)

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, StorageError | None]]:
        return self._deletes.send(
            lambda batch: self._submit(self._delete_batch(batch)),
            in_batches(paths, self.deletes_per_request),
        )

    async def _delete_batch(self, batch: Seq[str]) -> Seq[tuple[str, StorageError | None]]:
        remaining = {self._key(path): path for path in batch}
        failures: dict[str, RequestFailure] = {}

        async def attempt() -> None:
            with self._deletes.request():
                failures.update(await self._delete_objects([*remaining]))
                for key in [key for key in remaining if key not in failures]:
                    del remaining[key]
                again = [failure for failure in failures.values() if failure.retryable]
                if again:
                    for key in [key for key in failures if failures[key].retryable]:
                        del failures[key]
                    raise again[0]

        try:
            await with_retries(attempt)
        except RequestFailure as failure:
            failures = {key: failures.get(key, failure) for key in remaining}
        errors = {remaining[key]: self._error(failures[key], remaining[key]) for key in failures}
        return [(path, errors.get(path)) for path in batch]

    def ensure_conditional_writes(self) -> None:
        if not self._conditional_writes:
            self._run(self._probe_conditions())
            self._conditional_writes = True

    async def _probe_conditions(self) -> None:
        path = f"{PRIVATE_PREFIX}probe.{uuid4().hex}"
        key = self._key(path)
        try:
            first = await self._put_if(path, b"1", None)
            second = await self._put_if(path, b"2", first)
            for expected, condition in ((None, "only if absent"), (first, "only if unchanged")):
                if await self._overwrites(key, path, expected):
                    raise self._ignores_conditions(f"it ignored the condition {condition!r}")
            if second == first:
                raise self._ignores_conditions("it gave two different contents the same version")
        except PreconditionFailedError:
            raise self._ignores_conditions("it refused a write whose condition was met") from None
        finally:
            await self._delete_batch([path])

    async def _overwrites(self, key: str, path: str, expected: Version | None) -> bool:
        try:
            await with_retries(lambda: self._put_object(key, b"3", expected, {}))
        except RequestFailure as failure:
            if _lost_race(failure):
                return False
            if failure.status == 501:
                raise self._ignores_conditions("it does not implement conditions") from None
            raise self._error(failure, path) from None
        return True

    def _ignores_conditions(self, reason: str) -> RefusedError:
        return RefusedError(
            f"{self.location} does not honour conditional writes: {reason}; two writers could"
            " overwrite each other, so nothing was written",
            hint="move the repository to a storage with conditional writes; reading is safe",
        )

    def read_clock(self) -> int:
        return self._run(self._request("", self._read_clock))

    def _error(self, failure: RequestFailure, path: str) -> StorageError:
        """Return the error for the user. It never contains a header or a URL with a password."""
        where = f"{self.scheme}://{self._bucket}"
        if failure.code == "NoSuchBucket":
            return StorageError(
                f"the bucket {where} does not exist", hint="check its name and the endpoint"
            )
        if failure.status == 404:
            return ObjectNotFoundError(path)
        if failure.status in (401, 403):
            return StorageError(
                f"{where} refused access to {path or 'it'} ({failure.code})",
                hint=self.permission_hint,
            )
        if failure.unreachable:
            return StorageError(
                f"no connection to the server of {where}: {failure.message}",
                hint="check the endpoint and the network",
            )
        if failure.status is None:
            return StorageError(f"no answer from {where} for {path}: {failure.message}")
        kind = ThrottledError if failure.is_throttling else StorageError
        return kind(
            f"{where} failed on {path}: {failure.status} {failure.code} {failure.message}".rstrip()
        )


def _lost_race(failure: RequestFailure) -> bool:
    # If-Match on a missing key is 412 on some servers and 404 on others.
    return failure.status in (409, 412) or (
        failure.status == 404 and failure.code != "NoSuchBucket"
    )
