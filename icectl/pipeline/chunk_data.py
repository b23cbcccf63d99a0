"""Read the bytes of referenced chunks, and decode them where the codecs are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from icectl.checks import rules
from icectl.checks.decoding import Decoder, decoder_of
from icectl.checks.problem import Problem
from icectl.errors import LimitExceededError, ObjectNotFoundError, StorageError
from icectl.model.manifest import ChunkRefs, RefKind
from icectl.pipeline.engine import Column, Columns
from icectl.pipeline.id_columns import IdSet, id_columns
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.sampling import Sample
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

READERS = 16
ROWS_AT_ONCE = 4096
CHUNKS_PER_NOTE = 256

REFERENCED_CHUNKS = {
    "end": Column("uint64", "max"),
    "manifest": Column("int32", "min"),
    "array": Column("int32", "any"),
    "offset": Column("uint64", "any"),
    "length": Column("uint64", "any"),
}
"""Each chunk file once: how long it must be, and one of the references to it. Manifests and arrays
are numbers; an unknown array is -1."""


def chunk_rows(refs: ChunkRefs, manifest: int, array: int) -> Columns:
    """The native references of an array in a manifest."""
    rows = np.flatnonzero(refs.kind == RefKind.NATIVE)
    ids = id_columns(refs.chunk_id[rows])
    offset, length = refs.offset[rows], refs.length[rows]
    end = offset + length
    return {
        "high": ids.high,
        "low": ids.low,
        "end": np.where(end < offset, np.uint64(2**64 - 1), end),
        "manifest": np.full(len(rows), manifest, np.int32),
        "array": np.full(len(rows), array, np.int32),
        "offset": offset,
        "length": length,
    }


@dataclass(frozen=True, slots=True)
class DecodableArray:
    path: str
    zarr_jsons: tuple[bytes, ...]
    """Codecs can be changed in place: a chunk is intact if one of these decodes it."""


@dataclass(slots=True)
class DataNote:
    num_read: int = 0
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    """Each with the number of a manifest that refers to the chunk."""


@dataclass(frozen=True, slots=True)
class ReadData:
    """Reads the chunks of the sample; yields a `DataNote` for some chunks at a time."""

    storage: Storage
    arrays: Sequence[DecodableArray | None] | None
    """By number; None: chunks are not decoded."""
    sample: Sample | None
    now: int

    def __call__(self, columns: Columns) -> Iterator[tuple[int, DataNote]]:
        ids = IdSet(columns["high"].astype(np.uint64), columns["low"].astype(np.uint32))
        rows = np.arange(len(ids))
        if self.sample is not None:
            rows = np.flatnonzero(self.sample.choose(ids.high, columns["length"], self.now))
        yield len(ids) - len(rows), DataNote()
        note, count = DataNote(), 0
        for chunk, is_read, problems in read_chunks(
            self.storage, _ranges(ids, columns, rows), self.arrays
        ):
            count += 1
            note.num_read += is_read
            note.problems += ((chunk.manifest, problem) for problem in problems)
            if count == CHUNKS_PER_NOTE:
                yield count, note
                note, count = DataNote(), 0
        yield count, note


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """The bytes of one reference."""

    path: str
    offset: int
    length: int
    array: int
    manifest: int


def _ranges(ids: IdSet, columns: Columns, rows: NDArray[np.intp]) -> Iterator[ChunkRange]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = rows[start : start + ROWS_AT_ONCE]
        names = ("offset", "length", "array", "manifest")
        parts = [columns[name][block].tolist() for name in names]
        for name, *rest in zip(ids[block].to_names(), *parts, strict=True):
            yield ChunkRange(ObjectKind.CHUNK.path(name), *rest)


def read_chunks(
    storage: Storage,
    chunks: Iterable[ChunkRange],
    arrays: Sequence[DecodableArray | None] | None,
) -> Iterator[tuple[ChunkRange, bool, list[Problem]]]:
    """Each chunk, whether its bytes could be read, and what is wrong with them."""
    decoders = None if arrays is None else _Decoders(arrays)

    def read(chunk: ChunkRange) -> tuple[ChunkRange, bytes | StorageError]:
        try:
            return chunk, storage.read_range(chunk.path, chunk.offset, chunk.length)
        except StorageError as error:
            return chunk, error

    for chunk, data in map_on_threads(read, chunks, workers=READERS, ahead=2 * READERS):
        if isinstance(data, ObjectNotFoundError):
            yield chunk, False, []  # the comparison with the listing reports it
        elif isinstance(data, StorageError):
            problem = Problem(rules.CHUNK_UNREADABLE, chunk.path, data.message)
            yield chunk, False, [problem]
        else:
            yield chunk, True, [] if decoders is None else list(decoders.check(chunk, data))


class _Decoders:
    """One decoder for each array, made for its first chunk."""

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
