"""Summarize chunk coordinates as boxes: `0-3`, `[0-9, 2]`, `[5, 0-2, 7]`. Ends are inclusive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def render_ranges(coordinates: NDArray[np.uint32]) -> Iterator[str]:
    """Yield boxes that cover exactly these distinct rows."""
    first, last = _boxes(coordinates)
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        parts = [str(a) if a == b else f"{a}-{b}" for a, b in zip(low, high, strict=True)]
        yield parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"


def _boxes(coordinates: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return first and last corners, merging runs from the last dimension to the first."""
    import numpy as np

    first = last = coordinates
    for axis in reversed(range(coordinates.shape[1])):
        others = [other for other in range(coordinates.shape[1]) if other != axis]
        # lexsort sorts by its last key first: by all other dimensions, then by this one.
        keys = [first[:, axis], *(end[:, other] for other in others for end in (last, first))]
        order = np.lexsort(keys)
        first, last = first[order], last[order]
        joins = first[1:, axis] == last[:-1, axis] + np.uint32(1)
        for other in others:
            joins &= first[1:, other] == first[:-1, other]
            joins &= last[1:, other] == last[:-1, other]
        starts = np.flatnonzero(np.concatenate(([True], ~joins))[: len(first)])
        ends = np.append(starts[1:], len(first)) - 1 if len(starts) else starts
        first, last = first[starts], last[ends]
    order = np.lexsort(first.T[::-1]) if coordinates.shape[1] else np.arange(len(first))
    return first[order], last[order]
