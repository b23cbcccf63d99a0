"""The driver on obstore (the Rust library object_store), which costs a fraction of fsspec's CPU.

Its own retries are off: a lost response to a conditional put would come back as a false conflict.
Its errors carry the status and the body of a response only in their text. It cannot express every
key that exists (an empty component such as in `a//b`, a `/` at the beginning or the end, a control
character), and its threads do not survive a fork: `fallback` serves those cases.
"""

from __future__ import annotations

import logging
import os
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from icectl.errors import StorageError
from icectl.storage.bounded import map_bounded, map_on_threads
from icectl.storage.contract import (
    WRITES_IN_FLIGHT,
    ListingShard,
    Outcome,
    Storage,
    Version,
    VersionedBytes,
)
from icectl.storage.object_store import (
    ANY_VERSION,
    ListedPage,
    ObjectHead,
    ObjectStore,
    PerProcess,
)
from icectl.storage.paths import check_size
from icectl.storage.retry import (
    CONNECT_TIMEOUT,
    READ_TIMEOUT,
    RETRYABLE_CODES,
    RequestFailure,
    with_retries,
)
from icectl.storage.times import microseconds

if TYPE_CHECKING:
    from icectl.storage.server_clock import ServerClock

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

PAGE = 1000
SINGLE_DELETES = 8
SLOW_PUT_BYTES = 8 << 20
SLOW_PUT_TIMEOUT = 600.0
"""The read timeout includes the time to send the request, which is long for a large object."""
WRONG_REGION = (
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
)
LIST = "list"
"""The request of which only the rest of one listing is left to the fallback."""
RETRY_CONFIG: Any = {"max_retries": 0}

_STATUS = re.compile(r"status code: (\d{3})([^:\n]*)(?:: (.*?))?(?:\n\nDebug source|\Z)", re.DOTALL)
_TAGS = {tag: re.compile(rf"<{tag}>([^<]*)</{tag}>") for tag in ("Code", "Message")}
_NOT_DELETED = re.compile(r"request failed for key [^\n]*: (.*?)\.? \(code: (\w+)\)")
_NO_CREDENTIALS = re.compile(r"credentials failed: \w+")
"""The text of our own credential providers."""
_JSON_MESSAGE = re.compile(r'"message": *"([^"]*)"')
_CONNECT = re.compile(r"kind: Connect,")
_REASON = re.compile(r'(?:message|error): "([^"]*)"')
_IN_TRANSIT = re.compile(r"HTTP error|reqwest::|hyper::|error decoding response body")
_INVALID_KEY = re.compile(
    "contained empty path segment|invalid path|illegal character|Expected string path"
)
_URL = re.compile(r"https?://\S+")

_started_in: int | None = None
"""The process that started the threads of the library."""


def client_options(endpoint_url: str, *, read_timeout: float = READ_TIMEOUT) -> dict[str, Any]:
    return {
        "allow_http": endpoint_url.startswith("http://"),
        "connect_timeout": f"{CONNECT_TIMEOUT:g}s",
        "read_timeout": f"{read_timeout:g}s",
        # A limit for an entire request would make large objects unreadable on slow lines.
        "timeout": "24h",
        "pool_idle_timeout": "60s",
    }


class ObstoreStorage(ObjectStore):
    fallback: ObjectStore | None = None
    copies_on_server: ClassVar[bool] = True
    _is_left_to_fallback = False
    _probe_brings_time = False
    """Whether the answer to `_probe_conditions` sets the clock."""

    def _start(self) -> None:
        super()._start()
        self._slow_connection: PerProcess[Any] = PerProcess()

    def in_bucket(self, bucket: str) -> Self:
        other = super().in_bucket(bucket)
        other._start()
        if self.fallback is not None:
            other.fallback = self.fallback.in_bucket(bucket)
        return other

    @abstractmethod
    def _make_store(self, read_timeout: float) -> Any:
        """Create the store of the library for the bucket, without a prefix."""

    @abstractmethod
    def _find_url(self) -> str:
        """Return a URL of the server that sends a Date header, even with an error."""

    def _version(self, meta: Mapping[str, Any]) -> Version:
        return Version(meta["e_tag"] or "")

    def _condition(self, expected: Version) -> Mapping[str, str]:
        return {"e_tag": expected.token}

    def _connect(self) -> Any:
        global _started_in
        _started_in = os.getpid()
        return self._make_store(READ_TIMEOUT)

    @property
    def _requests(self) -> ObjectStore:
        if _started_in in (None, os.getpid()) and not self._is_left_to_fallback:
            return self
        if self.fallback is None:
            raise StorageError(
                f"{self.location} cannot be used in a process that was forked after the first "
                "request",
                hint="start processes with the method spawn",
            )
        return self.fallback

    def _call(self, what: str, key: str, work: Callable[[], Result]) -> Result:
        began = time.monotonic()
        try:
            return work()
        except Exception as error:
            if isinstance(error, (StorageError, RequestFailure)):
                raise
            failure = failure_of(error)
            if self.fallback is not None and getattr(failure, "code", "") in WRONG_REGION:
                logger.info("the bucket is in another region, which fsspec finds")
                self._is_left_to_fallback = True
                raise RequestFailure(301, WRONG_REGION[0], retryable=True) from None
            is_unusable = isinstance(failure, UnusableKeyError)
            if self.fallback is not None and is_unusable and what != LIST:
                logger.info("%r has characters that only fsspec can send", key)
                self._is_left_to_fallback = True
                raise RequestFailure(400, "InvalidKey", retryable=True) from None
            raise failure from None
        finally:
            logger.debug("%s %s: %.0f ms", what, key, (time.monotonic() - began) * 1000)

    def _get_object(
        self, key: str, span: tuple[int, int] | None, accept: Callable[[int], None] | None
    ) -> VersionedBytes:
        store = self._client
        options = {"range": span} if span else None
        answer = self._call("get", key, lambda: store.get(key, options=options))
        meta = answer.meta
        if span is None:
            check_size(key, meta["size"])
        if accept is not None:
            accept(meta["size"])
        data = self._call("read", key, lambda: answer.bytes().to_bytes())
        return VersionedBytes(data, self._version(meta), 0)

    def _head_object(self, key: str) -> ObjectHead:
        store = self._client
        try:
            answer = self._call("head", key, lambda: store.get(key, options={"head": True}))
        except RequestFailure as failure:
            if failure.status != 404:
                raise
            # Only the answer to a GET tells whether the bucket exists.
            answer = self._call("get", key, lambda: store.get(key))
        meta = answer.meta
        return ObjectHead(
            meta["size"],
            microseconds(meta["last_modified"]),
            self._version(meta),
            answer.attributes,
            self._etag(meta),
        )

    def _etag(self, meta: Mapping[str, Any]) -> str | None:
        etag: str | None = meta["e_tag"]
        return etag

    def _put_object(
        self, key: str, data: bytes, expected: Version | None, metadata: Mapping[str, str]
    ) -> Version:
        store = self._client
        if len(data) > SLOW_PUT_BYTES:
            store = self._slow_connection.get(lambda: self._make_store(SLOW_PUT_TIMEOUT))
        mode: Any = "create" if expected is None else "overwrite"
        if expected not in (None, ANY_VERSION):
            mode = self._condition(expected)
        attributes = {"Content-Type": "application/octet-stream", **metadata}
        answer = self._call(
            "put",
            key,
            lambda: store.put(key, data, mode=mode, attributes=attributes, use_multipart=False),
        )
        return self._version(answer)

    def can_copy_from(self, source: Storage) -> bool:
        # The library copies within a bucket.
        return (
            self.copies_on_server
            and isinstance(source, ObstoreStorage)
            and (source.scheme, source._bucket) == (self.scheme, self._bucket)
            and source.access == self.access
            and source.server == self.server
            and self._requests is self
        )

    def copy_from(
        self,
        source: Storage,
        sizes: Iterable[tuple[str, int]],
        *,
        concurrency: int = WRITES_IN_FLIGHT,
    ) -> Iterator[Outcome]:
        assert isinstance(source, ObstoreStorage)

        def copy_one(path: str, key: str) -> None:
            origin = source._key(path)
            self._call("copy", key, lambda: self._client.copy(origin, key, overwrite=True))

        return map_bounded(
            lambda path: self._submit(lambda: self._outcome(path, partial(copy_one, path))),
            (path for path, _ in sizes),
            ahead=concurrency,
        )

    def _delete_objects(self, keys: Seq[str]) -> Mapping[str, RequestFailure]:
        store = self._client

        def delete_one(key: str) -> tuple[str, RequestFailure | None]:
            try:
                self._call("delete", key, lambda: store.delete(key))
            except RequestFailure as failure:
                if failure.status != 404 or failure.code == "NoSuchBucket":
                    return key, failure
            return key, None

        if len(keys) > 1:
            try:
                self._call("delete", f"{len(keys)} objects", lambda: store.delete([*keys]))
            except _OneRefusedError:
                # The library reports only one of the objects that failed.
                pass
            else:
                return {}
        outcomes = map_on_threads(delete_one, keys, workers=SINGLE_DELETES, ahead=SINGLE_DELETES)
        return {key: failure for key, failure in outcomes if failure is not None}

    def _pages(self, directory: str, starts_with: str, shard: ListingShard) -> Iterator[ListedPage]:
        after = max(shard.after, _just_before(starts_with))
        stream: Any = None

        def read_page() -> Any:
            nonlocal stream
            if self._requests is not self:
                raise UnusableKeyError("it is in another region")
            if stream is None:
                stream = self._client.list(
                    directory.rstrip("/") or None,
                    offset=directory + after if after else None,
                    chunk_size=PAGE,
                    return_arrow=True,
                )
            try:
                return self._call(LIST, directory + after, lambda: next(stream, None))
            except RequestFailure:
                stream = None
                raise

        while True:
            try:
                batch = self._request(directory, read_page)
            except UnusableKeyError as error:
                if self.fallback is None:
                    raise StorageError(f"{self.location} cannot be listed: {error}") from None
                rest = ListingShard(after, shard.through)
                yield from self.fallback._pages(directory, starts_with, rest)
                return
            if batch is None:
                return
            page = self._read_page(directory, batch)
            if batch.num_rows:
                after = str(batch.column("path")[batch.num_rows - 1].as_py())[len(directory) :]
            yield page
            if page.ends:
                return

    def _read_page(self, directory: str, batch: Any) -> ListedPage:
        from arro3.core import DataType

        keys = batch.column("path").to_pylist()
        sizes = batch.column("size").cast(DataType.int64()).to_numpy()
        created_at = batch.column("last_modified").cast(DataType.int64()).to_numpy()
        ends = batch.num_rows < PAGE
        if sizes.all():
            return ListedPage(keys, sizes, created_at, ends)
        rows = [
            row
            for row, key in enumerate(keys)
            if sizes[row] or (key.startswith(directory) and not self._is_marker(key))
        ]
        return ListedPage([keys[row] for row in rows], sizes[rows], created_at[rows], ends)

    def _is_marker(self, key: str) -> bool:
        """Return whether an empty object marks a directory: the library drops the last `/`."""
        try:
            return with_retries(lambda: self._head_object(key)).size != 0
        except RequestFailure as failure:
            if failure.status == 404:
                return True
            raise self._error(failure, key) from None

    def _list_directories(self, directory: str) -> Iterator[str]:
        store = self._client
        prefix = directory.rstrip("/") or None
        try:
            answer = self._request(
                directory,
                lambda: self._call(LIST, directory, lambda: store.list_with_delimiter(prefix)),
            )
        except UnusableKeyError:
            if self.fallback is None:
                raise
            yield from self.fallback._list_directories(directory)
            return
        yield from answer["common_prefixes"]

    @property
    def _clock(self) -> ServerClock:
        from icectl.storage.server_clock import clock_of

        return clock_of(self._find_url())

    def read_versioned(self, path: str) -> VersionedBytes:
        # In the same round as the object.
        measuring = self._submit(self._measure_clock)
        found = super().read_versioned(path)
        measuring.result()
        return replace(found, read_at=self._clock.read())

    def read_for_update(self, path: str) -> VersionedBytes:
        probe = self._begin_probe()
        if probe is None or not self._probe_brings_time:
            return self.read_versioned(path)
        found = super().read_versioned(path)
        wait([probe])  # the next put raises its error
        return replace(found, read_at=self.read_clock())

    def _measure_clock(self) -> None:
        self._request("", self._send_for_clock)

    def _send_for_clock(self) -> None:
        if not self._clock.is_known:
            self._clock.measure(self._find_url())

    def _read_clock(self) -> int:
        self._send_for_clock()
        return self._clock.read()


class _OneRefusedError(RequestFailure):
    """One object of a bulk delete failed."""


class UnusableKeyError(StorageError):
    """The library cannot express a key."""


def failure_of(error: Exception) -> Exception:
    """Convert an exception of the library. The result contains no URL, which may be signed."""
    text = str(error)
    if found := _STATUS.search(text):
        status, phrase, body = int(found[1]), found[2].strip(), found[3] or ""
        code, message = (
            match[1] if (match := _TAGS[tag].search(body)) else "" for tag in ("Code", "Message")
        )
        if not message and (match := _JSON_MESSAGE.search(body)):
            message = match[1]
        if status == 404 and (code == "ContainerNotFound" or "bucket does not exist" in message):
            code = "NoSuchBucket"
        # Azure adds the id and the time of the request on lines of their own.
        message = message.partition("\n")[0]
        return RequestFailure(status, code or phrase or str(status), message)
    if found := _NOT_DELETED.search(text):
        message, code = found[1], found[2]
        if code.isdigit():
            return RequestFailure(int(code), code, message)
        if code in RETRYABLE_CODES:
            return RequestFailure(503, code, message)
        return _OneRefusedError(403 if code == "AccessDenied" else 400, code, message)
    if "object was only" in text:
        return RequestFailure(416, "InvalidRange")
    if _INVALID_KEY.search(text):
        return UnusableKeyError("a key has an empty or an invalid component")
    if "Received redirect without LOCATION" in text:
        return RequestFailure(301, WRONG_REGION[0])
    summary = _URL.sub("the server", text.partition("\n\nDebug source")[0])
    if _CONNECT.search(text):
        reasons = _REASON.findall(text)
        reason = reasons[-1].lower() if reasons else "no connection in time"
        return RequestFailure(None, "unreachable", reason, unreachable=True)
    if isinstance(error, FileNotFoundError):
        return RequestFailure(404, "NoSuchKey")
    if found := _NO_CREDENTIALS.search(text):
        return RequestFailure(401, found[0])
    if _IN_TRANSIT.search(text):
        return RequestFailure(None, type(error).__name__, _describe_cut(text))
    return RequestFailure(400, type(error).__name__, summary)


def _describe_cut(text: str) -> str:
    return "the answer took too long" if "TimedOut" in text else "the connection was cut"


def _just_before(starts_with: str) -> str:
    """Return a name that no name with this beginning precedes; few others lie between."""
    if not starts_with:
        return ""
    head, last = starts_with[:-1], starts_with[-1]
    return f"{head}{chr(ord(last) - 1)}~" if "!" < last <= "~" else head
