"""The part of all chunks to read today: a different part each day, until all have been read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from icectl.errors import UsageError
from icectl.pipeline.sums import exact_sum

DAY = 24 * 3600 * 1_000_000
_UNITS = ("", "K", "M", "G", "T", "P")
_NUMBER = r"\d{1,30}(?:\.\d{1,30})?"
_BYTES = re.compile(rf"({_NUMBER}) *([KMGTP]?)(i?)B?", re.IGNORECASE)
# Nothing else that a Fraction accepts: 1e99999999 has as many digits.
_SHARE = re.compile(rf"({_NUMBER})%|(\d{{1,30}}/\d{{1,30}})")


def parse_size(text: str) -> int:
    """Return `10MB`, `512KiB` or `1000000` as bytes."""
    found = _BYTES.fullmatch(text)
    size = 0
    if found is not None:
        number, unit, binary = found.groups()
        size = int(Fraction(number) * (1024 if binary else 1000) ** _UNITS.index(unit.upper()))
    if not size:
        raise UsageError(f"{text!r} is not a size", hint="write 500kB, 10MB or 1GiB")
    return size


@dataclass(frozen=True, slots=True)
class Sample:
    """A share of all chunks, or so many bytes of them."""

    share: Fraction | None = None
    num_bytes: int | None = None

    @classmethod
    def parse(cls, text: str) -> Sample:
        """`1%`, `10GB`, `1/30`."""
        if text.upper().endswith("B"):
            return cls(num_bytes=parse_size(text))
        share = _SHARE.fullmatch(text)
        if share is not None:
            percent, fraction = share.groups()
            if fraction is None:
                part = Fraction(percent) / 100
            else:
                above, below = map(int, fraction.split("/"))
                part = Fraction(above, below) if below else Fraction(0)
            if 0 < part <= 1:
                return cls(share=part)
        raise UsageError(f"{text!r} is not a sample", hint="write 1%, 10GB or 1/30")

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
        share = self.share_of(exact_sum(lengths))
        if share >= 1:
            return np.ones(len(high), np.bool_)
        start = int(share * (now // DAY) % 1 * 2**64)
        width = int(share * 2**64) + 1
        # Unsigned numbers wrap around, and so does the window.
        return (high - np.uint64(start % 2**64)) < np.uint64(width)
