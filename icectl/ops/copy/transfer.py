"""Move objects from one storage to the other, in this process or on an executor."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from icectl.errors import IcectlError, Remedy, StorageError
from icectl.pipeline.engine import Columns
from icectl.pipeline.id_columns import BLOCK, IdSet
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import OutOfTimeError
from icectl.storage.bounded import in_batches
from icectl.storage.contract import Outcome, Storage
from icectl.storage.paths import check_length

REPORT_EVERY = 256
REPORT_AFTER = 1.0
"""Seconds."""
COMPARED_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Moved:
    """A part of the work that is done; after an error, nothing follows."""

    objects: int = 0
    bytes: int = 0
    error: IcectlError | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copies or compares objects. It is pickled for executors."""

    source: Storage
    target: Storage
    concurrency: int | None = None
    bytes_per_second: int | None = None
    ends_at: float | None = None
    """By `time.time`, which all machines share."""

    def copy(self, sizes: Iterable[tuple[str, int]]) -> Iterator[Moved]:
        """Copy the objects, given with their sizes."""
        known: dict[str, int] = {}

        def remembered() -> Iterator[tuple[str, int]]:
            for path, size in sizes:
                known[path] = size
                yield path, size

        limit = {} if self.concurrency is None else {"concurrency": self.concurrency}
        if self.bytes_per_second is None and self.target.can_copy_from(self.source):
            outcomes = self.target.copy_from(self.source, remembered(), **limit)
        else:
            found = self.source.read_many((path for path, _ in remembered()), **limit)
            outcomes = self.target.write_many(self._paced(found, known), **limit)
        return self._report(outcomes, known)

    def _paced(
        self, found: Iterable[tuple[str, bytes | StorageError]], sizes: Mapping[str, int]
    ) -> Iterator[tuple[str, bytes]]:
        began, sent = time.monotonic(), 0
        for path, data in found:
            if isinstance(data, StorageError):
                raise data
            check_length(path, len(data), sizes[path])
            yield path, data
            if self.bytes_per_second is not None:
                sent += len(data)
                self._sleep(sent / self.bytes_per_second - time.monotonic() + began)

    def _report(self, outcomes: Iterator[Outcome], sizes: dict[str, int]) -> Iterator[Moved]:
        objects = size = 0
        reported_at = time.monotonic()
        try:
            for path, error in outcomes:
                if error is not None:
                    raise error
                objects, size = objects + 1, size + sizes.pop(path)
                if objects == REPORT_EVERY or time.monotonic() > reported_at + REPORT_AFTER:
                    yield Moved(objects, size)
                    objects = size = 0
                    reported_at = time.monotonic()
                self._check_time()
        except IcectlError as error:
            yield Moved(objects, size, error)
        else:
            yield Moved(objects, size)

    def _check_time(self) -> None:
        if self.ends_at is not None and time.time() >= self.ends_at:
            raise out_of_time()

    def _sleep(self, seconds: float) -> None:
        """Sleep so long, but not beyond the end."""
        if self.ends_at is not None:
            seconds = min(seconds, self.ends_at - time.time())
        if seconds > 0:
            time.sleep(seconds)
        self._check_time()

    def compare(self, sizes: Iterable[tuple[str, int]]) -> Iterator[Moved]:
        """Read the objects from both storages; a `StorageError` names one that differs."""
        for batch in in_batches(sizes, COMPARED_AT_ONCE):
            paths = [path for path, _ in batch]
            try:
                self._check_time()
                expected, found = (
                    dict(read_digests(storage, paths)) for storage in (self.source, self.target)
                )
                for path in paths:
                    if expected[path] != found[path]:
                        raise StorageError(f"{path} has other bytes in {self.target.location}")
            except IcectlError as error:
                yield Moved(error=error)
                return
            yield Moved(len(batch), sum(size for _, size in batch))


def read_digests(storage: Storage, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for path, data in storage.read_many(paths):
        if isinstance(data, StorageError):
            raise data
        yield path, blake2b(data, digest_size=16).digest()


def out_of_time() -> OutOfTimeError:
    return OutOfTimeError(
        "the time limit expired before everything was copied; the target was not changed",
        hint=Remedy("copy-again"),
    )


@dataclass(frozen=True, slots=True)
class CompareChunks:
    """A function for `Scan.map_rows`: compare the bytes of chunks."""

    transfer: Transfer

    def __call__(self, columns: Columns) -> Iterator[tuple[int, Moved]]:
        missing = {**columns, "size": np.full(len(columns["high"]), -1)}
        for moved in self.transfer.compare(chunk_sizes(missing)):
            yield moved.objects, moved


@dataclass(frozen=True, slots=True)
class MoveChunks:
    """A function for `Comparison.map_mismatches`: copy the chunks of a block of rows."""

    transfer: Transfer

    def __call__(self, columns: Columns) -> Iterator[Moved]:
        return self.transfer.copy(chunk_sizes(columns))


@dataclass(frozen=True, slots=True)
class Counted:
    objects: int
    bytes: int
    replaced: int
    """How many of the objects the target has, but too short."""


def count_chunks(columns: Columns) -> Iterator[Counted]:
    """A function for `Comparison.map_mismatches`: count them."""
    short = _is_short(columns)
    replaced = short & (columns["size"] >= 0)
    yield Counted(int(short.sum()), int(columns["end"][short].sum()), int(replaced.sum()))


def chunk_sizes(columns: Columns) -> Iterator[tuple[str, int]]:
    """The chunks that are missing or too short; longer ones serve their references as well."""
    rows = np.flatnonzero(_is_short(columns))
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        ids = IdSet(columns["high"][block], columns["low"][block])
        names = map(ObjectKind.CHUNK.path, ids.to_names())
        yield from zip(names, columns["end"][block].tolist(), strict=True)


def _is_short(columns: Columns) -> NDArray[np.bool_]:
    size = columns["size"]
    short: NDArray[np.bool_] = (size < 0) | (size.astype(np.uint64) < columns["end"])
    return short
