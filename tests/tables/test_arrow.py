"""Arrow columns from numpy ones, against the same value by value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.errors import FormatError
from icectl.model.ids import encode_base32
from icectl.model.manifest import Spans
from icectl.tables.arrow import (
    coordinate_lists,
    id_texts,
    integers,
    masked,
    spans_binary,
    spans_texts,
    times_of_seconds,
)


@settings(deadline=None)
@given(st.sampled_from([4, 8, 12, 16]), st.binary(max_size=400))
def test_id_texts(size: int, data: bytes) -> None:
    ids = [data[start : start + size] for start in range(0, len(data) - size + 1, size)]
    array = id_texts(np.frombuffer(b"".join(ids), np.uint8).reshape(-1, size))
    array.validate(full=True)
    assert array.to_pylist() == [encode_base32(one) for one in ids]


@settings(deadline=None)
@given(st.binary(max_size=50), st.data())
def test_spans(data: bytes, draw: st.DataObject) -> None:
    bounds = draw.draw(st.lists(st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))))
    parts = [(min(pair), max(pair) - min(pair)) for pair in bounds]
    starts = np.array([start for start, _ in parts], np.uint32)
    lengths = np.array([length for _, length in parts], np.uint32)
    spans = Spans(data, starts, lengths)
    array = spans_binary(spans)
    array.validate(full=True)
    assert array.to_pylist() == spans.to_list()


def test_texts_that_are_none() -> None:
    spans = Spans(b"ab\xff", np.array([0, 2], np.uint32), np.array([2, 1], np.uint32))
    assert spans_texts(spans.take(slice(1)), "the location").to_pylist() == ["ab"]
    with pytest.raises(FormatError, match="the location"):
        spans_texts(spans, "the location")


@settings(deadline=None)
@given(st.integers(0, 4), st.integers(0, 5))
def test_coordinates(dimensions: int, count: int) -> None:
    rows = np.arange(count * dimensions, dtype=np.uint32).reshape(count, dimensions) + 2**31
    assert coordinate_lists(rows).to_pylist() == rows.tolist()


def test_numbers_times_and_nulls() -> None:
    large = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    assert integers(large).to_pylist() == [0, 2**63 - 1, 2**63 - 1, 2**63 - 1]
    seconds = times_of_seconds(np.array([0, 2**32 - 1], np.uint32)).to_pylist()
    assert seconds[0] is None and seconds[1].timestamp() == 2**32 - 1
    array = masked(pa.array(["a", "b", "c"]), np.array([True, False, True]))
    assert array.to_pylist() == ["a", None, "c"]
