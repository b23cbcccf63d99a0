"""Sets of chunk coordinates as rows of numpy arrays, without a Python object for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Coordinates = NDArray[np.uint32]

ROWS_BEFORE_COMPACTING = 65536


def coordinate_keys(*blocks: Coordinates) -> list[NDArray[np.uint64]]:
    """One integer for each row, equal and ordered as the rows are, across all the blocks.

    Blocks that are not empty must have the same number of dimensions.
    """
    import numpy as np

    dimensions = max((block.shape[1] for block in blocks if len(block)), default=0)
    sizes = [
        max(int(block[:, dimension].max()) + 1 for block in blocks if len(block))
        for dimension in range(dimensions)
    ]
    product = 1
    for size in sizes:
        product *= size
    if product < 2**64:
        return [_linear_keys(block, sizes) for block in blocks]
    filled = [block.reshape(len(block), dimensions) for block in blocks]
    _, ranks = np.unique(np.concatenate(filled), axis=0, return_inverse=True)
    ends = np.cumsum([len(block) for block in blocks])[:-1]
    return np.split(ranks.reshape(-1).astype(np.uint64), ends)


def _linear_keys(block: Coordinates, sizes: list[int]) -> NDArray[np.uint64]:
    import numpy as np

    keys = np.zeros(len(block), np.uint64)
    if len(block):
        for dimension, size in enumerate(sizes):
            keys *= np.uint64(size)
            keys += block[:, dimension]
    return keys


def distinct(coordinates: Coordinates) -> Coordinates:
    """The rows once each, in lexicographic order."""
    import numpy as np

    (keys,) = coordinate_keys(coordinates)
    if (keys[1:] > keys[:-1]).all():  # as the format demands of each file
        return coordinates
    _, rows = np.unique(keys, return_index=True)
    return coordinates[rows]


class CoordinateSet:
    """Grows by blocks, and stays near the size of what is distinct in them."""

    def __init__(self) -> None:
        self._blocks: list[Coordinates] = []
        self._pending = 0
        self._limit = ROWS_BEFORE_COMPACTING

    def add(self, block: Coordinates) -> bool:
        """False, and nothing is added, when the block has other dimensions than the others."""
        if not len(block):
            return True
        if self._blocks and self._blocks[0].shape[1] != block.shape[1]:
            return False
        self._blocks.append(block)
        self._pending += len(block)
        if self._pending > self._limit:
            size = len(self.rows())
            self._pending, self._limit = 0, max(size, ROWS_BEFORE_COMPACTING)
        return True

    def rows(self) -> Coordinates:
        import numpy as np

        if not self._blocks:
            return np.empty((0, 0), np.uint32)
        blocks = self._blocks
        self._blocks = [distinct(np.concatenate(blocks) if len(blocks) > 1 else blocks[0])]
        return self._blocks[0]
