"""Damage for decoders: flipped bits, cut ends, spliced ranges, inflated lengths."""

from __future__ import annotations

import random
from collections.abc import Iterator


def mutations(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(count):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            position = chance.randrange(len(damaged))
            match chance.randrange(5):
                case 0:
                    damaged[position] ^= 1 << chance.randrange(8)
                case 1:
                    damaged[position] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
                case 2:
                    del damaged[max(position, 1) :]
                case 3:
                    other = chance.randrange(len(damaged))
                    size = chance.randrange(1, 17)
                    damaged[position : position + size] = damaged[other : other + size]
                case 4:
                    size = chance.choice((1, 2, 4, 8))
                    damaged[position : position + size] = b"\xff" * size
        yield bytes(damaged)
