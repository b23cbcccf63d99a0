"""Where a list or a column of coordinates is not strictly increasing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def first_disorder(keys: Sequence[bytes | tuple[bytes, ...]]) -> int | None:
    """The first element that is not greater than the previous one."""
    for number, (first, second) in enumerate(pairwise(keys), 1):
        if second <= first:  # type: ignore[operator]
            return number
    return None


def first_row_in_disorder(rows: NDArray[np.uint32]) -> int | None:
    """The first row that is not lexicographically greater than the previous one."""
    if len(rows) < 2:
        return None
    above = np.zeros(len(rows) - 1, np.bool_)
    same = np.ones(len(rows) - 1, np.bool_)
    for column in rows.T:
        above |= same & (column[1:] > column[:-1])
        if above.all():
            return None
        same &= column[1:] == column[:-1]
    return int(np.argmin(above)) + 1
