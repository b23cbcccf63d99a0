"""Damaged copies of files of a repository, compressed again where the content is compressed."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from icectl.format.envelope import Generation, decode_envelope, decode_header

SHARED_FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
MUTATIONS = 2_000
INTERESTING = (0, 1, 3, 4, 5, 8, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


def is_legacy(data: bytes) -> bool:
    return decode_envelope(data).generation in (Generation.ALPHA_RAW, Generation.ALPHA_BINARY)


def uncompressed(data: bytes) -> tuple[bytes, bytes]:
    """Header that says "not compressed", and payload; a file without header is all payload."""
    found = decode_header(data)
    if found is None:
        return b"", data
    _, size = found
    return data[: size - 1] + b"\0", bytes(decode_envelope(data).payload)


def mutate(choose: random.Random, data: bytes) -> bytes:
    """One piece of damage: flipped bit, lost, spliced or doubled range, inflated number."""
    kind = choose.randrange(8)
    at = choose.randrange(len(data))
    end = min(len(data), at + choose.choice((1, 2, 4, 16, 64)))
    if kind == 0:
        return data[:at]
    if kind == 1:
        start = choose.randrange(len(data))
        return data[:at] + data[start : start + end - at] + data[end:]
    if kind == 2:
        return data[:at] + data[end:] if choose.random() < 0.5 else data[:end] + data[at:]
    if kind in (3, 4) and len(data) >= 8:
        # Offsets and lengths are aligned words, vtables hold half words.
        layout, size = ("<I", 4) if kind == 3 else ("<H", 2)
        at = at // size * size
        at = min(at, len(data) // size * size - size)
        old = struct.unpack_from(layout, data, at)[0]
        new = choose.choice((*INTERESTING, len(data), old + size, old - size, old * 2, ~old))
        return data[:at] + struct.pack(layout, new % (1 << 8 * size)) + data[at + size :]
    return data[:at] + bytes((data[at] ^ 1 << choose.randrange(8),)) + data[at + 1 :]


def mutations(name: str, data: bytes, count: int) -> Iterator[bytes]:
    choose = random.Random(zlib.crc32(name.encode()))
    framed = data[:4] == b"ICE\xf0"
    head, payload = uncompressed(data) if framed else (b"", data)
    for number in range(count):
        if framed and number % 4 == 0:
            yield mutate(choose, data)
            continue
        damaged = mutate(choose, payload)
        while choose.random() < 0.2 and damaged:
            damaged = mutate(choose, damaged)
        yield head + damaged
