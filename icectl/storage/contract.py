"""The storage contract. Every backend passes the same test suite against its real server.

Paths are relative to the root of the repository, with `/` between components and no leading `/`.
All methods are synchronous and thread-safe. A backend can be pickled (for Spark executors), without
its open connections. Failures are `StorageError` and its subclasses, never exceptions of a library.
Backends retry throttled requests and server errors with jittered backoff; they do not retry a
refused request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from icectl.errors import ObjectNotFoundError, StorageError
from icectl.storage.bounded import in_batches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS_BATCH = 1000
READS_IN_FLIGHT = 192
WRITES_IN_FLIGHT = 64

Outcome = tuple[str, StorageError | None]
"""A path, and why it failed; None if it did not."""


@dataclass(frozen=True, slots=True)
class Version:
    """The value that a conditional put compares: an ETag, a generation, or a digest of a file."""

    token: str


@dataclass(frozen=True, slots=True)
class VersionedBytes:
    data: bytes
    version: Version
    read_at: int
    """The time of the response by the storage's clock, as in `read_clock`."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """A listed object; size and time are None if the caller did not ask for them."""

    path: str
    size: int | None
    created_at: int | None
    """Microseconds since 1970-01-01 UTC, by the storage's clock."""
    etag: str | None = None
    """The HTTP ETag, if the storage has one; only `info` returns it."""


@dataclass(frozen=True, slots=True)
class ListingShard:
    """The names with `after < name <= through`, by code point; no upper bound without `through`.

    Adjacent shards cover every name exactly once, including foreign names.
    """

    after: str = ""
    through: str | None = None

    def __contains__(self, name: str) -> bool:
        return name > self.after and (self.through is None or name <= self.through)

    def reaches_into(self, directory: str) -> bool:
        """Return whether the name of a file in this directory can be in the shard."""
        first, end = f"{directory}/", directory + chr(ord("/") + 1)
        return self.after < end and (self.through is None or self.through > first)


WHOLE_DIRECTORY = ListingShard()


@dataclass(frozen=True, slots=True, eq=False)
class ListedColumns:
    """A batch of listed objects as columns of the same length."""

    names: Sequence[str]
    """The part of each path after the listed directory."""
    sizes: NDArray[np.int64]
    created_at: NDArray[np.int64]
    """Microseconds since 1970-01-01 UTC, by the storage's clock."""


class Storage(ABC):
    """A repository's root on some storage."""

    is_object_store: ClassVar[bool] = False
    """Official clients write conditionally to object stores, unless configured not to."""
    deletes_per_request: int = 1
    """The number of objects that one request deletes."""
    is_bucket_root = False
    """Whether the root is a bucket without a prefix; official clients refuse to use it."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The location of the root as a user would write it, without secrets."""

    @property
    def server(self) -> str:
        """What tells servers apart on which locations may have the same names."""
        return ""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Read an object; raise `ObjectNotFoundError` if it does not exist."""

    @abstractmethod
    def read_versioned(self, path: str) -> VersionedBytes:
        """Read an object, its version and the storage's clock in one request."""

    @abstractmethod
    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly `length` bytes from `offset`; raise `StorageError` if there are fewer."""

    @abstractmethod
    def read_many(
        self, paths: Iterable[str], *, concurrency: int = READS_IN_FLIGHT
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        """Yield each path with its bytes or error, in any order, at most `concurrency` ahead.

        Object stores bound the bytes that were read and not yet yielded as well.
        """

    @abstractmethod
    def info(self, path: str) -> ObjectInfo:
        """Return size and time of an object; raise `ObjectNotFoundError` if it does not exist."""

    @abstractmethod
    def list(
        self,
        prefix: str,
        *,
        with_info: bool = True,
        starts_with: str = "",
        shard: ListingShard = WHOLE_DIRECTORY,
    ) -> Iterator[ObjectInfo]:
        """Yield all objects below the directory `prefix` (`""` is the root), in any order.

        `starts_with` and `shard` select by name, the part of the path after `prefix/`.
        `with_info=False` allows local disk to skip the stat of each file. A missing directory is
        empty. Temporary files and lock files of icectl are not listed.
        """

    def list_columns(
        self, prefix: str, *, shard: ListingShard = WHOLE_DIRECTORY
    ) -> Iterator[ListedColumns]:
        """Yield the objects of `list` in batches of columns, without a Python object for each."""
        import numpy as np

        start = len(prefix.rstrip("/")) + 1 if prefix else 0
        for batch in in_batches(self.list(prefix, shard=shard), COLUMNS_BATCH):
            yield ListedColumns(
                [info.path[start:] for info in batch],
                np.array([info.size or 0 for info in batch], np.int64),
                np.array([info.created_at or 0 for info in batch], np.int64),
            )

    def listing_shards(self) -> int:
        """Return the number of shards of a directory to list in parallel."""
        return 1

    def list_names(self, prefix: str) -> Iterator[Sequence[str]] | None:
        """Yield batches of the names that `list` would return (the part after `prefix/`).

        Return None if this is not cheaper than `list`, which also returns sizes and times.
        """
        return None

    def read_sizes_and_times(
        self, prefix: str, names: Iterable[str]
    ) -> Iterator[tuple[int, int] | None]:
        """Yield size and time of each `prefix/name` in order; None if it does not exist."""
        for name in names:
            try:
                info = self.info(f"{prefix}/{name}")
            except ObjectNotFoundError:
                yield None
            else:
                yield info.size or 0, info.created_at or 0

    @abstractmethod
    def list_directories(self, prefix: str) -> Iterator[str]:
        """Yield the names directly below `prefix` that are directories."""

    def put_if_absent(
        self, path: str, data: bytes, *, metadata: Mapping[str, str] | None = None
    ) -> Version:
        """Create the object; raise `PreconditionFailedError` if it exists.

        If the response was lost but the object contains our own write, the put succeeded. If
        another writer has replaced our write in the meantime, the result is also a
        `PreconditionFailedError`: callers that retry must look for their own entry first.
        """
        return self._put(path, data, None, metadata)

    def put_if_match(
        self,
        path: str,
        data: bytes,
        version: Version,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> Version:
        """Replace the object; raise `PreconditionFailedError` if it is not at `version`.

        A missing object counts as changed. Lost responses are handled as in `put_if_absent`.
        """
        return self._put(path, data, version, metadata)

    @abstractmethod
    def _put(
        self,
        path: str,
        data: bytes,
        expected: Version | None,
        metadata: Mapping[str, str] | None,
    ) -> Version:
        """Write the object if it is at `expected`, or create it if that is None."""

    @abstractmethod
    def write_many(
        self, items: Iterable[tuple[str, bytes]], *, concurrency: int = WRITES_IN_FLIGHT
    ) -> Iterator[Outcome]:
        """Write objects, replacing those that exist, and yield the outcome of each, in any order.

        Readers see an object in full or not at all. The items are consumed lazily, and the bytes
        in flight are bounded. Only for names that nobody else writes with other bytes.
        """

    def can_copy_from(self, source: Storage) -> bool:
        """Return whether `copy_from` can copy without moving the bytes through this process."""
        return False

    def copy_from(
        self,
        source: Storage,
        sizes: Iterable[tuple[str, int]],
        *,
        concurrency: int = WRITES_IN_FLIGHT,
    ) -> Iterator[Outcome]:
        """Copy objects from the same paths of another storage, with the outcomes of `write_many`.

        The sizes are those that they must have at least. A missing object is an
        `ObjectNotFoundError`. Local disk raises a `FormatError` at a shorter one, which a full
        disk or a power cut leaves; object stores do not look.
        """
        raise NotImplementedError

    def sync(self) -> None:  # noqa: B027 -- object stores have nothing to do
        """Wait until everything that `write_many` and `copy_from` wrote survives a power cut."""

    @abstractmethod
    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, StorageError | None]]:
        """Delete the objects and yield the outcome of each; a missing object is a success.

        After a `ThrottledError` no more requests are sent; the remaining paths get that error.
        """

    @abstractmethod
    def ensure_conditional_writes(self) -> None:
        """Raise `RefusedError` if the storage ignores conditions on a put; probe it only once."""

    def ensure_conditional_creates(self) -> None:
        """The same for `put_if_absent` on a name that another writer may choose as well.

        It takes requests of its own; names that contain a random id do not need it.
        """
        self.ensure_conditional_writes()

    def read_for_update(self, path: str) -> VersionedBytes:
        """Read an object that the caller will replace with `put_if_match`.

        An object store runs the probe of `ensure_conditional_writes` in the same round of requests;
        the next put waits for its answer and raises its `RefusedError`.
        """
        return self.read_versioned(path)

    @abstractmethod
    def read_clock(self) -> int:
        """Return the current time of the storage's clock in microseconds, as exact as possible."""
