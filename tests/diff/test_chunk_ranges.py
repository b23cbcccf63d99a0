"""Ranges cover exactly the chunks they stand for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.render.diff import render_ranges


def cover(text: str) -> list[tuple[int, ...]]:
    axes = []
    for axis in text.strip("[]").split(", ") if text != "[]" else []:
        low, _, high = axis.partition("-")
        axes.append(range(int(low), int(high or low) + 1))
    return list(product(*axes))


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda dimensions: st.sets(st.tuples(*[st.integers(0, 4)] * dimensions), min_size=1)
    )
)
def test_covers_exactly(chunks: set[tuple[int, ...]]) -> None:
    texts = list(render_ranges(np.array(sorted(chunks), np.uint32)))
    covered = [index for text in texts for index in cover(text)]
    assert len(covered) == len(set(covered))
    assert set(covered) == chunks


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([[0], [1], [2], [7], [9], [10]], ["0-2", "7", "9-10"]),
        (list(product(range(3), range(4))), ["[0-2, 0-3]"]),
        ([[0, 1], [1, 1], [5, 1], [5, 2]], ["[0-1, 1]", "[5, 1-2]"]),
        ([[2**32 - 1], [0]], ["0", "4294967295"]),
        ([[]], ["[]"]),
    ],
)
def test_few_boxes(chunks: list[list[int]], expected: list[str]) -> None:
    width = len(chunks[0])
    rows = np.array(chunks, np.uint32).reshape(len(chunks), width)
    assert list(render_ranges(rows)) == expected


def test_no_chunks() -> None:
    assert list(render_ranges(np.empty((0, 2), np.uint32))) == []
