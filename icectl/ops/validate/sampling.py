"""Which chunks of a sample are read today: another part each day, until all were read."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from icectl.errors import UsageError
from icectl.records import dataclass

DAY = 24 * 3600 * 1_000_000
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)(i?)B", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sample:
    """A share of all chunks, or so many bytes of them."""

    share: Fraction | None = None
    num_bytes: int | None = None

    @classmethod
    def parse(cls, text: str) -> Sample:
        """`1%`, `10GB`, `1/30`."""
        try:
            if text.endswith("%"):
                return cls._of_share(Fraction(text[:-1]) / 100)
            if "/" in text:
                return cls._of_share(Fraction(text))
            match = _BYTES.fullmatch(text)
            if match is not None:
                number, unit, binary = match.groups()
                power = list(_UNITS).index(unit.upper())
                factor = 1024**power if binary else 1000**power
                return cls(num_bytes=int(Fraction(number) * factor))
        except (ValueError, ZeroDivisionError):
            pass
        raise UsageError(f"{text!r} is no sample", hint="write 1%, 10GB or 1/30")

    @classmethod
    def _of_share(cls, share: Fraction) -> Sample:
        if not 0 < share <= 1:
            raise ValueError
        return cls(share=share)

    def share_of(self, total_bytes: int) -> Fraction:
        if self.share is not None:
            return self.share
        assert self.num_bytes is not None
        if not total_bytes:
            return Fraction(1)
        return Fraction(min(self.num_bytes, total_bytes), total_bytes)

    def choose(
        self, high: NDArray[np.uint64], lengths: NDArray[np.uint64], now: int
    ) -> NDArray[np.bool_]:
        """The chunks of the day, by their random ids: a window that moves on by its own width."""
        share = self.share_of(int(lengths.sum(dtype=np.uint64)))
        if share >= 1:
            return np.ones(len(high), np.bool_)
        start = int(share * (now // DAY) % 1 * 2**64)
        width = int(share * 2**64) + 1
        # Unsigned numbers wrap around, and so does the window.
        return (high - np.uint64(start % 2**64)) < np.uint64(width)
