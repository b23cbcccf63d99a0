"""The common base of object stores: keys, retries, conditional puts, bulk operations.

A driver implements single requests that raise `RequestFailure`; many of them run concurrently on
threads. This module decides which failures are retried, which are lost races, and which message
the user reads.
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from uuid import uuid4

from icectl.errors import (
    Hint,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StorageError,
    ThrottledError,
)
from icectl.storage.bounded import in_batches, map_bounded, map_on_threads
from icectl.storage.congestion import Congestion
from icectl.storage.contract import (
    READS_IN_FLIGHT,
    WHOLE_DIRECTORY,
    WRITES_IN_FLIGHT,
    ListedColumns,
    ListingShard,
    ObjectInfo,
    Outcome,
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
    import numpy as np
    from numpy.typing import NDArray

Result = TypeVar("Result")
Made = TypeVar("Made")

WRITE_ID = "icechunkwriteid"
"""User metadata that identifies the writer of an object; official writers use the same key."""

LISTING_SHARDS = 32
THREADS = 256
"""More than the reads in flight: listings go on beside them."""
BYTES_IN_FLIGHT = 256 << 20
"""Of `read_many`: what was read and not yet taken, unless one object alone has more."""
ANY_VERSION = Version("*")
"""For a put that replaces whatever is there."""


@dataclass(frozen=True, slots=True)
class ObjectHead:
    size: int
    created_at: int
    version: Version
    metadata: Mapping[str, str]
    etag: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ListedPage:
    keys: Seq[str]
    sizes: NDArray[np.int64]
    created_at: NDArray[np.int64]
    ends: bool
    """There is no page after this one."""


class PerProcess(Generic[Made]):
    """A value that is created on first use, and again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[int, Made] | None = None

    def get(self, make: Callable[[], Made]) -> Made:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), make())
            return self._made[1]


@dataclass(frozen=True, slots=True)
class Access:
    endpoint_url: str | None = None
    """None: as the environment says, or the provider's own."""
    anonymous: bool = False
    """Send requests without credentials."""


class ObjectStore(Storage):
    """The keys below `prefix` in `bucket`."""

    is_object_store = True
    scheme: str
    permission_hint: Hint
    deletes_in_flight: int
    impossible_version: Version
    """A well-formed version that no object has."""

    def __init__(self, bucket: str, prefix: str, access: Access = Access()) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self.access = access
        self.is_bucket_root = not prefix
        self._honours_conditions = False
        self._honours_creation = False
        self._start()

    def _start(self) -> None:
        """Create what is not pickled."""
        self._connection: PerProcess[Any] = PerProcess()
        self._threads: PerProcess[ThreadPoolExecutor] = PerProcess()
        self._deletes = Congestion(self.deletes_in_flight)
        self._probe: Future[None] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    def __getstate__(self) -> dict[str, Any]:
        # Clients, threads and settings, which may contain credentials, are created again.
        kinds = (PerProcess, Congestion, Future)
        return {key: value for key, value in self.__dict__.items() if not isinstance(value, kinds)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def in_bucket(self, bucket: str) -> Self:
        """Return a storage for the root of another bucket with the same settings."""
        other = copy(self)
        other._bucket, other._prefix, other.is_bucket_root = bucket, "", True
        return other

    @abstractmethod
    def _connect(self) -> Any:
        """Create the client of the library."""

    @abstractmethod
    def _get_object(
        self, key: str, span: tuple[int, int] | None, accept: Callable[[int], None] | None
    ) -> VersionedBytes:
        """Read the object, or its bytes from `span[0]` (inclusive) to `span[1]` (exclusive).

        `accept` is called with the size before the bytes are read, and may raise.
        """

    @abstractmethod
    def _head_object(self, key: str) -> ObjectHead: ...

    @abstractmethod
    def _put_object(
        self, key: str, data: bytes, expected: Version | None, metadata: Mapping[str, str]
    ) -> Version:
        """Replace the object at version `expected`, or create it if that is None.

        `ANY_VERSION` replaces or creates it.
        """

    @abstractmethod
    def _delete_objects(self, keys: Seq[str]) -> Mapping[str, RequestFailure]:
        """Delete one batch of objects; return failures by key. Missing objects are not failures."""

    @abstractmethod
    def _pages(self, directory: str, starts_with: str, shard: ListingShard) -> Iterator[ListedPage]:
        """List the keys `directory + name`; a page may hold names outside of the selection."""

    @abstractmethod
    def _list_directories(self, directory: str) -> Iterator[str]:
        """Yield the keys up to the first `/` after `directory`."""

    @abstractmethod
    def _read_clock(self) -> int: ...

    @property
    def location(self) -> str:
        return f"{self.scheme}://{join_path(self._bucket, self._prefix).rstrip('/')}"

    @property
    def server(self) -> str:
        return self.access.endpoint_url or ""

    @property
    def _client(self) -> Any:
        return self._connection.get(self._connect)

    @property
    def _requests(self) -> ObjectStore:
        """The storage that sends the requests: a driver may have to leave them to another."""
        return self

    def _find_root(self) -> str:
        """Return the beginning of every key."""
        return f"{self._prefix}/" if self._prefix else ""

    def _key(self, path: str) -> str:
        return self._find_root() + check_text(check_path(path))

    def _submit(self, work: Callable[[], Result]) -> Future[Result]:
        """Run a request on a thread. Such work must not wait for other work on these threads."""
        return self._threads.get(lambda: ThreadPoolExecutor(THREADS, "icectl-request")).submit(work)

    def _run(self, work: Callable[[], Result]) -> Result:
        if threading.current_thread() is not threading.main_thread():
            return work()
        # The main thread must answer to Ctrl-C, which it cannot while a library waits in C or Rust.
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _request(self, path: str, attempt: Callable[[], Result]) -> Result:
        try:
            return with_retries(attempt)
        except RequestFailure as failure:
            raise self._error(failure, path) from None

    def read(self, path: str) -> bytes:
        key = self._key(path)
        return self._run(
            lambda: self._request(path, lambda: self._requests._get_object(key, None, None))
        ).data

    def read_versioned(self, path: str) -> VersionedBytes:
        key = self._key(path)
        return self._run(
            lambda: self._request(path, lambda: self._requests._get_object(key, None, None))
        )

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        key = self._key(path)
        if length == 0:
            return b""
        too_short = StorageError(f"{path} ends before byte {offset + length}")

        def read() -> bytes:
            try:
                span = (offset, offset + length)
                return with_retries(lambda: self._requests._get_object(key, span, None)).data
            except RequestFailure as failure:
                raise (too_short if failure.status == 416 else self._error(failure, path)) from None

        data = self._run(read)
        if len(data) != length:
            raise too_short
        return data

    def read_many(
        self, paths: Iterable[str], *, concurrency: int = READS_IN_FLIGHT
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        budget = _ByteBudget(BYTES_IN_FLIGHT, concurrency)

        def read_one(path: str) -> tuple[str, bytes | StorageError | Postponed]:
            try:
                key = self._key(path)
                found = self._request(
                    path, lambda: self._requests._get_object(key, None, budget.take)
                )
            except (StorageError, Postponed) as error:
                return path, error
            return path, found.data

        waiting: Iterable[str] = paths
        while True:
            postponed: deque[str] = deque()
            results = map_on_threads(
                read_one, waiting, workers=concurrency, ahead=budget.find_bound
            )
            for path, found in results:
                if isinstance(found, Postponed):
                    postponed.append(path)
                    continue
                yield path, found
                if isinstance(found, bytes):
                    budget.give_back(len(found))
            if not postponed:
                return
            waiting = postponed

    def info(self, path: str) -> ObjectInfo:
        key = self._key(path)
        head = self._run(lambda: self._request(path, lambda: self._requests._head_object(key)))
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
        beginning = f"{check_prefix(prefix)}/" if prefix else ""
        for batch in self._columns(prefix, starts_with, shard):
            for name, size, created_at in zip(
                batch.names, batch.sizes.tolist(), batch.created_at.tolist(), strict=True
            ):
                yield ObjectInfo(beginning + name, size, created_at)

    def list_columns(
        self, prefix: str, *, shard: ListingShard = WHOLE_DIRECTORY
    ) -> Iterator[ListedColumns]:
        return self._columns(prefix, "", shard)

    def _columns(
        self, prefix: str, starts_with: str, shard: ListingShard
    ) -> Iterator[ListedColumns]:
        directory = self._directory(prefix)
        pages = self._requests._pages(directory, starts_with, shard)
        future: Future[ListedPage | None] | None = self._submit(lambda: next(pages, None))
        try:
            while future is not None:
                page = future.result()
                if page is None:
                    return
                # Request the next page while the caller processes this one.
                ends = page.ends or _is_beyond(page.keys[-1:], directory, starts_with, shard)
                future = None if ends else self._submit(lambda: next(pages, None))
                if len(page.keys):
                    yield _select(page, directory, starts_with, shard)
        finally:
            if future is not None:
                future.cancel()

    def list_directories(self, prefix: str) -> Iterator[str]:
        directory = self._directory(prefix)
        names = self._run(lambda: [*self._requests._list_directories(directory)])
        # Keys that begin with `/` have an empty component.
        yield from filter(None, (name[len(directory) :].rstrip("/") for name in names))

    def _directory(self, prefix: str) -> str:
        return self._find_root() + (f"{check_prefix(prefix)}/" if prefix else "")

    def _put(
        self,
        path: str,
        data: bytes,
        expected: Version | None,
        metadata: Mapping[str, str] | None,
    ) -> Version:
        if self._probe is not None:
            self.ensure_conditional_writes()
        return self._run(lambda: self._put_if(path, data, expected, metadata))

    def _put_if(
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
            return with_retries(lambda: self._requests._put_object(key, data, expected, stamped))
        except RequestFailure as failure:
            if not _lost_race(failure):
                raise self._error(failure, path) from None
        # An earlier attempt may have succeeded and its response been lost. HTTP libraries also
        # repeat requests, so check for our own write after every refusal.
        try:
            head = with_retries(lambda: self._requests._head_object(key))
        except RequestFailure as failure:
            if failure.status != 404:
                raise self._error(failure, path) from None
        else:
            if head.metadata.get(WRITE_ID) == write_id:
                return head.version
        raise PreconditionFailedError(path)

    def write_many(
        self, items: Iterable[tuple[str, bytes]], *, concurrency: int = WRITES_IN_FLIGHT
    ) -> Iterator[Outcome]:
        budget = _ByteBudget(BYTES_IN_FLIGHT, concurrency)

        def submit(item: tuple[str, bytes]) -> Future[Outcome]:
            path, data = item
            budget.observe(len(data))
            return self._submit(
                lambda: self._outcome(
                    path,
                    lambda key: self._requests._put_object(key, data, ANY_VERSION, {}),
                )
            )

        return map_bounded(submit, items, ahead=budget.find_bound)

    def _outcome(self, path: str, attempt: Callable[[str], object]) -> Outcome:
        try:
            key = self._key(path)
            self._request(path, lambda: attempt(key))
        except StorageError as error:
            return path, error
        return path, None

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, StorageError | None]]:
        return self._deletes.send(
            lambda batch: self._submit(lambda: self._delete_batch(batch)),
            in_batches(paths, self.deletes_per_request),
        )

    def _delete_batch(self, batch: Seq[str]) -> Seq[tuple[str, StorageError | None]]:
        remaining = {self._key(path): path for path in batch}
        failures: dict[str, RequestFailure] = {}

        def attempt() -> None:
            with self._deletes.request():
                failures.update(self._requests._delete_objects([*remaining]))
                for key in [key for key in remaining if key not in failures]:
                    del remaining[key]
                again = [failure for failure in failures.values() if failure.retryable]
                if again:
                    for key in [key for key in failures if failures[key].retryable]:
                        del failures[key]
                    raise again[0]

        try:
            with_retries(attempt)
        except RequestFailure as failure:
            failures = {key: failures.get(key, failure) for key in remaining}
        errors = {remaining[key]: self._error(failures[key], remaining[key]) for key in failures}
        return [(path, errors.get(path)) for path in batch]

    def read_for_update(self, path: str) -> VersionedBytes:
        self._begin_probe()
        return self.read_versioned(path)

    def _begin_probe(self) -> Future[None] | None:
        if not self._honours_conditions and self._probe is None:
            self._find_root()  # it may send requests
            self._probe = self._submit(self._probe_conditions)
        return self._probe

    def ensure_conditional_writes(self) -> None:
        if self._honours_conditions:
            return
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.result()
        else:
            self._run(self._probe_conditions)
        self._honours_conditions = True

    def ensure_conditional_creates(self) -> None:
        self.ensure_conditional_writes()
        if not self._honours_creation:
            self._run(self._probe_creation)
            self._honours_creation = True

    def _probe_creation(self) -> None:
        """Create an object twice: only a storage that ignores conditions does it."""
        path = f"{PRIVATE_PREFIX}probe.{uuid4().hex}"
        key = self._key(path)
        try:
            for _ in range(2):
                with_retries(lambda: self._requests._put_object(key, b"", None, {}))
        except RequestFailure as failure:
            # The first attempt may meet its own object, if a response was lost.
            if not _lost_race(failure):
                raise self._error(failure, path) from None
        else:
            raise self._ignores_conditions("it ignored the condition 'only if absent'")
        finally:
            self._delete_batch([path])

    def _probe_conditions(self) -> None:
        """Replace an object that does not exist: only a storage that ignores conditions does it."""
        path = f"{PRIVATE_PREFIX}probe.{uuid4().hex}"
        key = self._key(path)
        try:
            with_retries(lambda: self._requests._put_object(key, b"", self.impossible_version, {}))
        except RequestFailure as failure:
            if _lost_race(failure):
                return
            if failure.status == 501:
                raise self._ignores_conditions("it does not implement conditions") from None
            raise self._error(failure, path) from None
        self._delete_batch([path])
        raise self._ignores_conditions("it ignored the condition 'only if unchanged'")

    def _ignores_conditions(self, reason: str) -> RefusedError:
        return RefusedError(
            f"{self.location} does not honour conditional writes: {reason}; two writers could"
            " overwrite each other, so nothing was written",
            hint="move the repository to a storage with conditional writes; reading is safe",
        )

    def read_clock(self) -> int:
        return self._run(lambda: self._request("", self._requests._read_clock))

    def _error(self, failure: RequestFailure, path: str) -> StorageError:
        """Return the error for the user. It never contains a header or a URL with a password."""
        where = f"{self.scheme}://{self._bucket}"
        if failure.code == "NoSuchBucket":
            return StorageError(
                f"the bucket {where} does not exist", hint="check its name and the endpoint"
            )
        if failure.status == 404:
            # Every S3 server answers the listing of an empty directory with success.
            if not path or path.endswith("/"):
                return StorageError(
                    f"{where} cannot be listed: the server answered 404 Not Found",
                    hint="check the name of the bucket and the endpoint",
                )
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


class Postponed(Exception):  # noqa: N818 -- it never leaves this module
    """An object does not fit into the budget now."""


class _ByteBudget:
    """Bounds the bytes that were read and not yet taken, and the number of requests by them."""

    def __init__(self, most: int, most_requests: int) -> None:
        self._most = most
        self._most_requests = most_requests
        self._taken = 0
        self._typical = 0.0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Reserve bytes; raise `Postponed` if they do not fit beside those of other objects."""
        self.observe(size)
        with self._lock:
            if self._taken and self._taken + size > self._most:
                raise Postponed
            self._taken += size

    def observe(self, size: int) -> None:
        """Expect other objects to be about as large."""
        with self._lock:
            self._typical += (size - self._typical) / 8

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken -= size

    def find_bound(self) -> int:
        """Return how many requests are likely to fit."""
        return max(1, min(self._most_requests, int(self._most / max(self._typical, 1.0))))


def _select(
    page: ListedPage, directory: str, starts_with: str, shard: ListingShard
) -> ListedColumns:
    """Return the columns of a page without the names that the caller did not ask for."""
    start = len(directory)
    names = [key[start:] for key in page.keys]
    joined = "\n".join(names)
    if (
        (not starts_with and min(names) > shard.after)
        and (shard.through is None or max(names) <= shard.through)
        and not (PRIVATE_PREFIX in joined or "/\n" in joined or joined.endswith("/"))
    ):
        return ListedColumns(names, page.sizes, page.created_at)
    rows = [
        row
        for row, name in enumerate(names)
        # Some consoles create keys that end in / to mark directories; these are not files.
        if not name.endswith("/")
        and name in shard
        and name.startswith(starts_with)
        and not is_private(name)
    ]
    return ListedColumns([names[row] for row in rows], page.sizes[rows], page.created_at[rows])


def _is_beyond(last: Seq[str], directory: str, starts_with: str, shard: ListingShard) -> bool:
    """Return whether no later key can be selected, in a storage that lists keys in order."""
    if not last:
        return False
    name = last[0][len(directory) :]
    if shard.through is not None and name > shard.through:
        return True
    return name > starts_with and not name.startswith(starts_with)


def _lost_race(failure: RequestFailure) -> bool:
    # If-Match on a missing key is 412 on some servers and 404 on others.
    return failure.status in (409, 412) or (
        failure.status == 404 and failure.code != "NoSuchBucket"
    )
