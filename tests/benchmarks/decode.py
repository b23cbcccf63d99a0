"""Decodes one manifest in one of three ways and prints the seconds: a child of the benchmark."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

SAMPLE = 20_000
HEADER_SIZE = 39


def decode_zstd(data: bytes) -> float:
    import zstandard

    begin = time.perf_counter()
    zstandard.ZstdDecompressor().decompressobj().decompress(data[HEADER_SIZE:])
    return time.perf_counter() - begin


def decode_ours(data: bytes) -> float:
    import numpy  # noqa: F401
    import zstandard  # noqa: F401

    from icectl.format import columns  # noqa: F401
    from icectl.format.manifest import decode_manifest

    begin = time.perf_counter()
    manifest = decode_manifest(data)
    seconds = time.perf_counter() - begin
    assert manifest.num_chunk_refs
    return seconds


class _Table:
    """What the code that `flatc --python` generates does for each access to a field."""

    def __init__(self, buffer: bytes, position: int) -> None:
        from flatbuffers.table import Table

        self.table: Any = Table(buffer, position)

    def offset(self, slot: int) -> int:
        return int(self.table.Offset(4 + 2 * slot))

    def element(self, slot: int, index: int) -> _Table:
        vector = self.table.Vector(self.offset(slot))
        return _Table(self.table.Bytes, self.table.Indirect(vector + 4 * index))

    def length(self, slot: int) -> int:
        found = self.offset(slot)
        return int(self.table.VectorLen(found)) if found else 0


def read_reference(ref: _Table) -> tuple[Any, ...]:
    from flatbuffers import number_types

    table = ref.table
    vector = table.Vector(ref.offset(0))
    index = [
        table.Get(number_types.Uint32Flags, vector + 4 * place) for place in range(ref.length(0))
    ]
    numbers = [
        table.Get(number_types.Uint64Flags, table.Pos + place) if (place := ref.offset(slot)) else 0
        for slot in (2, 3)
    ]
    # Whole slices, kinder to this side than the generated access byte by byte.
    chunk_id = None
    if place := ref.offset(4):
        chunk_id = table.Bytes[table.Pos + place : table.Pos + place + 12]
    location = table.String(table.Pos + place) if (place := ref.offset(5)) else None
    compressed = None
    if place := ref.offset(8):
        start = table.Vector(place)
        compressed = table.Bytes[start : start + ref.length(8)]
    return index, numbers, chunk_id, location, compressed


def decode_fields(data: bytes) -> float:
    import flatbuffers
    import zstandard

    begin = time.perf_counter()
    payload = zstandard.ZstdDecompressor().decompressobj().decompress(data[HEADER_SIZE:])
    root = _Table(payload, flatbuffers.encode.Get(flatbuffers.packer.uoffset, payload, 0))
    once = time.perf_counter() - begin
    seconds = 0.0
    for number in range(root.length(1)):
        array = root.element(1, number)
        count = array.length(1)
        step = max(1, count // SAMPLE)
        begin = time.perf_counter()
        sampled = [read_reference(array.element(1, i)) for i in range(0, count, step)]
        seconds += (time.perf_counter() - begin) * count / len(sampled)
    return once + seconds


def main() -> None:
    how, path = sys.argv[1:]
    ways = {"zstd": decode_zstd, "ours": decode_ours, "fields": decode_fields}
    print(json.dumps({"seconds": ways[how](Path(path).read_bytes())}))
