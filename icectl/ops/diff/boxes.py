"""Chunk coordinates as boxes: a region of an array that was written has millions of chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def find_boxes(coordinates: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the first and last corners of boxes that cover exactly these rows, in order.

    Runs are merged from the last dimension to the first.
    """
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
