"""The level `data`: the bytes of native chunks, and with `decode` what the codecs make of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.errors import LimitExceededError, ObjectNotFoundError, Remedy, StorageError, UsageError
from icectl.model.ids import NodeId, SnapshotId
from icectl.ops.stats.distinct import Column
from icectl.ops.validate.chunks import NeededChunks
from icectl.ops.validate.decoding import Decoder, decoder_of
from icectl.ops.validate.findings import Report
from icectl.ops.validate.metadata import DecodableArray
from icectl.ops.validate.sampling import Sample
from icectl.pipeline.id_columns import IdSet
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

READERS = 16
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """The bytes of one reference."""

    path: str
    offset: int
    length: int
    array: int
    manifest: int
    """Both by number."""


def check_decoding_possible() -> None:
    if importlib.util.find_spec("zarr") is None:
        raise UsageError(
            "decoding needs the package zarr, which is not installed",
            hint=Remedy("install-zarr"),
        )


def check_data(
    storage: Storage,
    needed: NeededChunks,
    sample: Sample | None,
    now: int,
    report: Report,
    progress: Progress,
    *,
    decode: bool,
) -> int:
    """How many chunks were read."""
    ids, columns = needed.columns()
    rows = np.arange(len(ids))
    if sample is not None:
        rows = np.flatnonzero(sample.choose(ids.high, columns["length"], now))
    arrays = [needed.metadata.decodable(NodeId(id_)) for id_ in needed.arrays] if decode else None
    count = 0
    with progress.phase("reading chunks", len(rows), "chunks") as counter:
        for chunk, is_read, problems in read_chunks(
            storage, chunk_ranges(ids, columns, rows), arrays
        ):
            counter.advance()
            count += is_read
            for problem in problems:
                report.add(problem, spoiled_by(problem, needed.users(chunk.manifest)))
    return count


def spoiled_by(problem: Problem, users: Collection[SnapshotId]) -> Collection[SnapshotId]:
    """What could not be decoded here spoils no version."""
    return () if problem.rule in (rules.CODECS_UNKNOWN, rules.CHUNK_TOO_LARGE) else users


def chunk_ranges(
    ids: IdSet, columns: Mapping[str, Column], rows: NDArray[np.intp]
) -> Iterator[ChunkRange]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = rows[start : start + ROWS_AT_ONCE]
        parts = [columns[name][block].tolist() for name in ("offset", "length", "array")]
        names = ids[block].to_names()
        for name, *rest in zip(names, *parts, columns["manifest"][block].tolist(), strict=True):
            yield ChunkRange(ObjectKind.CHUNK.path(name), *rest)


def read_chunks(
    storage: Storage,
    chunks: Iterable[ChunkRange],
    arrays: Sequence[DecodableArray | None] | None,
) -> Iterator[tuple[ChunkRange, bool, list[Problem]]]:
    """Each chunk, whether its bytes are there, and what is wrong with them.

    They are decoded where the arrays are given, by their numbers.
    """
    decoders = None if arrays is None else _Decoders(arrays)

    def read(chunk: ChunkRange) -> tuple[ChunkRange, bytes | StorageError]:
        try:
            return chunk, storage.read_range(chunk.path, chunk.offset, chunk.length)
        except StorageError as error:
            return chunk, error

    for chunk, data in map_on_threads(read, chunks, workers=READERS, ahead=2 * READERS):
        if isinstance(data, ObjectNotFoundError):
            yield chunk, False, []  # told by the listing
        elif isinstance(data, StorageError):
            problem = Problem(rules.CHUNK_UNREADABLE, chunk.path, data.message)
            yield chunk, False, [problem]
        else:
            yield chunk, True, [] if decoders is None else list(decoders.check(chunk, data))


class _Decoders:
    """One decoder for each array, made when its first chunk comes."""

    def __init__(self, arrays: Sequence[DecodableArray | None]) -> None:
        self._arrays = arrays
        self._decoders: dict[int, Decoder | None] = {}

    def check(self, chunk: ChunkRange, data: bytes) -> Iterator[Problem]:
        array = self._arrays[chunk.array] if chunk.array >= 0 else None
        if array is None:
            return
        if chunk.array not in self._decoders:
            decoder, problems = decoder_of(array.zarr_jsons, array.path)
            self._decoders[chunk.array] = decoder
            yield from problems
        decode = self._decoders[chunk.array]
        try:
            fault = None if decode is None else decode(data)
        except LimitExceededError as error:
            yield Problem(rules.CHUNK_TOO_LARGE, chunk.path, error.reason, array.path)
            return
        if fault is not None:
            yield Problem(rules.CHUNK_UNDECODABLE, chunk.path, fault, array.path)
