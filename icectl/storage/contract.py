"""The one storage contract. Every backend passes the same suite against its real server.

Paths are relative to the repository's root, with `/` between their parts and none in front.
All methods are synchronous and safe to call from several threads; a backend is picklable
(it travels to Spark executors) and carries no open connection when pickled. Failures are
`StorageError` and its kinds, never a library's own exception. Retries with jittered backoff
on throttling and server errors happen inside; a refusal is final at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from icectl.errors import ObjectNotFoundError, StorageError


@dataclass(frozen=True, slots=True)
class Version:
    """What a conditional put compares: an ETag, a generation, or a digest on local disk."""

    token: str


@dataclass(frozen=True, slots=True)
class VersionedBytes:
    data: bytes
    version: Version
    read_at: int
    """The storage's clock at the time of the answer, as `read_clock` reports it."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object; size and time are None where they cost a stat and were not asked for."""

    path: str
    size: int | None
    created_at: int | None
    """Microseconds since 1970-01-01 UTC, by the storage's clock."""
    etag: str | None = None
    """What HTTP calls so, where the storage has one; only `info` tells it."""


@dataclass(frozen=True, slots=True)
class ListingShard:
    """The names with `after < name <= through`, by code point; without a `through`, no end.

    Shards that meet at their ends cover every name once, foreign ones included.
    """

    after: str = ""
    through: str | None = None

    def __contains__(self, name: str) -> bool:
        return name > self.after and (self.through is None or name <= self.through)


WHOLE_DIRECTORY = ListingShard()


class Storage(ABC):
    """A repository's root on some storage."""

    is_object_store: ClassVar[bool] = False
    """There official clients write conditionally, unless the configuration turns it off."""
    deletes_per_request: int = 1
    """How many objects one request deletes."""
    is_bucket_root = False
    """Whether the root is a whole bucket; official clients create no repository there."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The root as a user would write it, without secrets."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The whole object; `ObjectNotFoundError` when it is not there."""

    @abstractmethod
    def read_versioned(self, path: str) -> VersionedBytes:
        """The whole object, its version and the storage's time, in one request."""

    @abstractmethod
    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`; `StorageError` when the object is shorter."""

    @abstractmethod
    def read_many(
        self, paths: Iterable[str], *, concurrency: int = 16
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        """Each path with its bytes or its failure, as they arrive, at most `concurrency` ahead."""

    @abstractmethod
    def info(self, path: str) -> ObjectInfo:
        """Size and time of one object; `ObjectNotFoundError` when it is not there."""

    @abstractmethod
    def list(
        self,
        prefix: str,
        *,
        with_info: bool = True,
        starts_with: str = "",
        shard: ListingShard = WHOLE_DIRECTORY,
    ) -> Iterator[ObjectInfo]:
        """The objects below the directory `prefix` (`""` is the root), recursively, in no order.

        `starts_with` narrows to names that begin so, `shard` to a range of names; a name is
        what follows `prefix/`. `with_info=False` lets
        local disk skip the stat of each file. A missing directory is empty. Temporary and
        lock files of this package are not listed.
        """

    def listing_shards(self) -> int:
        """How many shards of one directory are worth listing in parallel."""
        return 1

    def list_names(self, prefix: str) -> Iterator[Sequence[str]] | None:
        """What `list` shows below `prefix`, as batches of names only (what follows `prefix/`).

        None where that costs no less than `list`, which tells sizes and times as well.
        """
        return None

    def read_sizes_and_times(
        self, prefix: str, names: Iterable[str]
    ) -> Iterator[tuple[int, int] | None]:
        """Size and time of each `prefix/name` in their order; None for what is not there."""
        for name in names:
            try:
                info = self.info(f"{prefix}/{name}")
            except ObjectNotFoundError:
                yield None
            else:
                yield info.size or 0, info.created_at or 0

    @abstractmethod
    def list_directories(self, prefix: str) -> Iterator[str]:
        """The names directly below `prefix` that have something below them."""

    @abstractmethod
    def put_if_absent(
        self, path: str, data: bytes, *, metadata: Mapping[str, str] | None = None
    ) -> Version:
        """Create the object; `PreconditionFailedError` when it exists already.

        A lost response is recognised: when our own write is there, it counts as done. When it
        landed, its response was lost, and another writer has replaced it since, that is a
        `PreconditionFailedError` too: who reads again looks for its own entry first.
        """

    @abstractmethod
    def put_if_match(
        self,
        path: str,
        data: bytes,
        version: Version,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> Version:
        """Replace the object if it is still at `version`; else `PreconditionFailedError`.

        A missing object counts as changed. A lost response is recognised as above.
        """

    @abstractmethod
    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, StorageError | None]]:
        """Delete the objects and report each one; an object that is already gone is a success.

        After a `ThrottledError` nothing more is sent: what was not tried has that error, too.
        """

    @abstractmethod
    def ensure_conditional_writes(self) -> None:
        """One probe, remembered: `RefusedError` when the storage ignores conditions on a put."""

    @abstractmethod
    def read_clock(self) -> int:
        """The storage's own time now, in microseconds, as well as it can be told."""
