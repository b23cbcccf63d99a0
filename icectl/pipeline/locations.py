"""Virtual locations of a manifest as numbers: each distinct location is decoded once.

Chunks of one file are mostly adjacent, so runs of equal bytes are found by columns, and only the
first of each run is examined individually.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icectl.format.manifest import decode_locations
from icectl.model.manifest import ChunkRefs, Manifest, RefKind
from icectl.pipeline.reference_changes import same_spans, take_references


@dataclass(frozen=True, slots=True, eq=False)
class NumberedLocations:
    rows: NDArray[np.intp]
    """The virtual references."""
    numbers: NDArray[np.intp]
    """For each of them, the place of its location in the list."""
    locations: list[str]


def number_locations(manifest: Manifest, refs: ChunkRefs) -> NumberedLocations:
    rows = np.flatnonzero(refs.kind >= RefKind.VIRTUAL)
    if not len(rows):
        return NumberedLocations(rows, rows, [])
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = refs.kind[rows[1:]] != refs.kind[rows[:-1]]
    begins[1:] |= ~same_spans(refs.content, rows[1:], refs.content, rows[:-1])
    heads = rows[begins]
    found: dict[str, int] = {}
    numbers = [
        found.setdefault(location or "", len(found))
        for location in decode_locations(manifest, take_references(refs, heads))
    ]
    runs = np.cumsum(begins) - 1
    return NumberedLocations(rows, np.array(numbers, np.intp)[runs], list(found))
