"""Exact sums of columns of lengths.

A reference can claim any length below 2^64, so sums are Python integers where 64 bits might not
suffice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sum_type(*columns: NDArray[Any]) -> type[np.uint64] | type[object]:
    """Return the numpy type that holds the sum of any rows of these columns."""
    estimate = sum(float(column.sum(dtype=np.float64)) for column in columns)
    return np.uint64 if estimate < 2**63 else object


def exact_sum(column: NDArray[Any]) -> int:
    return int(column.sum(dtype=sum_type(column)))
