"""The level `data`: the bytes of native chunks, and with `decode` what the codecs make of them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.errors import ObjectNotFoundError, StorageError, UsageError
from icectl.model.ids import NodeId, SnapshotId
from icectl.model.snapshot import NodeSnapshot
from icectl.ops.gc.id_sets import IdSet
from icectl.ops.gc.objects import ObjectKind
from icectl.ops.gc.watch import Watch
from icectl.ops.stats.distinct import Column
from icectl.ops.validate import chunk_rules as rules
from icectl.ops.validate.check_node import regular_chunks
from icectl.ops.validate.chunks import NeededChunks
from icectl.ops.validate.problem import Problem, Report
from icectl.ops.validate.sampling import Sample
from icectl.records import dataclass
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
            "--decode needs the package zarr, which is not installed",
            hint="install zarr, or leave --decode out to read the bytes without decoding them",
        )


def check_data(
    storage: Storage,
    needed: NeededChunks,
    sample: Sample | None,
    now: int,
    report: Report,
    watch: Watch,
    *,
    decode: bool,
) -> int:
    """How many chunks were read."""
    ids, columns = needed.columns()
    rows = np.arange(len(ids))
    if sample is not None:
        rows = np.flatnonzero(sample.choose(ids.high, columns["length"], now))
    nodes = [needed.metadata.arrays.get(NodeId(id_)) for id_ in needed.arrays] if decode else None
    count = 0
    with watch.phase("reading chunks", len(rows), "chunks") as counter:
        for chunk, is_read, problems in read_chunks(
            storage, chunk_ranges(ids, columns, rows), nodes
        ):
            counter.advance()
            count += is_read
            for problem in problems:
                report.add(problem, spoiled_by(problem, needed.users(chunk.manifest)))
    return count


def spoiled_by(problem: Problem, users: Collection[SnapshotId]) -> Collection[SnapshotId]:
    """A codec that is not installed here spoils no version."""
    return () if problem.rule is rules.CODECS_UNKNOWN else users


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
    nodes: Sequence[NodeSnapshot | None] | None,
) -> Iterator[tuple[ChunkRange, bool, list[Problem]]]:
    """Each chunk, whether its bytes are there, and what is wrong with them.

    They are decoded where the arrays are given, by their numbers.
    """
    decoders = None if nodes is None else _Decoders(nodes)

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

    def __init__(self, nodes: Sequence[NodeSnapshot | None]) -> None:
        self._nodes = nodes
        self._decoders: dict[int, Callable[[bytes], None] | None] = {}

    def check(self, chunk: ChunkRange, data: bytes) -> Iterator[Problem]:
        node = self._nodes[chunk.array] if chunk.array >= 0 else None
        if node is None:
            return
        if chunk.array not in self._decoders:
            try:
                self._decoders[chunk.array] = make_decoder(node.user_data)
            except Exception as error:  # whatever a codec raises about its configuration
                self._decoders[chunk.array] = None
                detail = f"{type(error).__name__}: {error}"
                yield Problem(rules.CODECS_UNKNOWN, ObjectKind.CHUNK.directory, detail, node.path)
        decode = self._decoders[chunk.array]
        if decode is None:
            return
        try:
            decode(data)
        except Exception as error:  # whatever a codec raises about damaged bytes
            detail = f"{type(error).__name__}: {error}"
            yield Problem(rules.CHUNK_UNDECODABLE, chunk.path, detail, node.path)


def make_decoder(document: bytes) -> Callable[[bytes], None]:
    """Decodes one chunk as zarr does: an array of that one chunk, in memory."""
    import zarr
    from zarr.core.buffer import cpu
    from zarr.storage import MemoryStore

    metadata: dict[str, Any] = json.loads(document)
    shape = regular_chunks(metadata)
    if shape is None:
        raise ValueError(f"the chunk grid {metadata.get('chunk_grid')} is not regular")
    metadata |= {
        "shape": shape,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    }
    key = "/".join(["c", *("0" for _ in shape)])
    contents: dict[str, Any] = {
        "zarr.json": cpu.Buffer.from_bytes(json.dumps(metadata).encode()),
    }
    array: Any = zarr.open_array(MemoryStore(contents), mode="r")

    def decode(data: bytes) -> None:
        contents[key] = cpu.Buffer.from_bytes(data)
        array[...]

    return decode
