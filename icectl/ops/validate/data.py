"""The level `data`: the bytes of native chunks, and with `decode` what the codecs make of them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from icectl.errors import ObjectNotFoundError, StorageError, UsageError
from icectl.model.ids import NodeId
from icectl.ops.gc.objects import ObjectKind
from icectl.ops.gc.watch import Watch
from icectl.ops.validate import chunk_rules as rules
from icectl.ops.validate.check_node import regular_chunks
from icectl.ops.validate.chunks import NeededChunks
from icectl.ops.validate.problem import Problem, Report
from icectl.ops.validate.sampling import Sample
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

READERS = 16
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class _Chunk:
    path: str
    offset: int
    length: int
    array: int
    manifest: int


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
    decoders = _Decoders(needed, report) if decode else None
    ids, columns = needed.columns()
    rows = np.arange(len(ids))
    if sample is not None:
        rows = np.flatnonzero(sample.choose(ids.high, columns["length"], now))

    def chunks() -> Iterator[_Chunk]:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            block = rows[start : start + ROWS_AT_ONCE]
            parts = [columns[name][block].tolist() for name in ("offset", "length", "array")]
            names = ids[block].to_names()
            for name, *rest in zip(names, *parts, columns["manifest"][block].tolist(), strict=True):
                yield _Chunk(ObjectKind.CHUNK.path(name), *rest)

    def read(chunk: _Chunk) -> tuple[_Chunk, bytes | StorageError]:
        try:
            return chunk, storage.read_range(chunk.path, chunk.offset, chunk.length)
        except StorageError as error:
            return chunk, error

    count = 0
    with watch.phase("reading chunks", len(rows), "chunks") as counter:
        for chunk, data in map_on_threads(read, chunks(), workers=READERS, ahead=2 * READERS):
            counter.advance()
            problem = None
            if isinstance(data, ObjectNotFoundError):
                continue  # told by the listing
            if isinstance(data, StorageError):
                problem = Problem(rules.CHUNK_UNREADABLE, chunk.path, data.message)
            else:
                count += 1
                if decoders is not None:
                    problem = decoders.check(chunk, data)
            if problem is not None:
                report.add(problem, needed.users(chunk.manifest))
    return count


class _Decoders:
    """One decoder for each array, made when its first chunk comes."""

    def __init__(self, needed: NeededChunks, report: Report) -> None:
        self._nodes = [needed.metadata.arrays.get(NodeId(id_)) for id_ in needed.arrays]
        self._report = report
        self._decoders: dict[int, Callable[[bytes], None] | None] = {}

    def check(self, chunk: _Chunk, data: bytes) -> Problem | None:
        node = self._nodes[chunk.array]
        if node is None:
            return None
        if chunk.array not in self._decoders:
            try:
                self._decoders[chunk.array] = make_decoder(node.user_data)
            except Exception as error:  # whatever a codec raises about its configuration
                self._decoders[chunk.array] = None
                detail = f"{type(error).__name__}: {error}"
                self._report.add(
                    Problem(rules.CODECS_UNKNOWN, ObjectKind.CHUNK.directory, detail, node.path)
                )
        decode = self._decoders[chunk.array]
        if decode is None:
            return None
        try:
            decode(data)
        except Exception as error:  # whatever a codec raises about damaged bytes
            detail = f"{type(error).__name__}: {error}"
            return Problem(rules.CHUNK_UNDECODABLE, chunk.path, detail, node.path)
        return None


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
