"""The promises of --json, whatever a Result holds."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import Availability, RepoStatus
from icectl.render.json import render_json, to_json


class Colour(enum.Enum):
    DARK_RED = "x"


@dataclass(frozen=True, slots=True)
class Thing:
    id: SnapshotId
    flushed_at: int
    from_: str
    size: int
    inner: tuple[Any, ...] = ()


def test_a_result() -> None:
    thing = Thing(
        INITIAL_SNAPSHOT_ID, 1_700_000_000_000_001, "a", 2**53 + 1, (RepoStatus(1, 0, None),)
    )
    assert json.loads(render_json(thing)) == {
        "id": "1CECHNKREP0F1RSTCMT0",
        "flushed_at": "2023-11-14T22:13:20.000001Z",
        "from": "a",
        "size": "9007199254740993",
        "inner": [
            {
                "availability": 1,
                "set_at": "1970-01-01T00:00:00.000000Z",
                "limited_availability_reason": None,
            }
        ],
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53, 2**53),
        (-(2**53) - 1, "-9007199254740993"),
        (True, True),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (b"\x00\xff", "AP8="),
        (Availability.READ_ONLY, "read_only"),
        (Colour.DARK_RED, "dark_red"),
        (np.int64(5), 5),
        (np.uint64(2**63), str(2**63)),
        (np.array([[1, 2]], dtype=np.uint32), [[1, 2]]),
        ({"created_at": 5}, {"created_at": 5}),
        ({1: {2}}, {"1": [2]}),
        (iter([1, 2]), [1, 2]),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    assert to_json(value) == expected


def test_a_time_that_is_no_date_is_its_number() -> None:
    thing = Thing(INITIAL_SNAPSHOT_ID, 2**62, "a", 0)
    assert json.loads(render_json(thing))["flushed_at"] == str(2**62)


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError):
        render_json({"x": object()})


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats()
        | st.text(st.characters(exclude_categories=()))
        | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_every_document_is_strict_ascii_json(value: Any) -> None:
    for text in (render_json(value), render_json(value, indent=True)):
        assert text.isascii()
        json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert "\n" not in render_json(value)
