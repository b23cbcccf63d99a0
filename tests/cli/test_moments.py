"""Times and ages as users write them."""

from __future__ import annotations

import pytest

from icectl.cli.values import parse_age, parse_moment
from icectl.errors import UsageError
from icectl.render.text import format_time

NOW = 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31", "2024-01-31T00:00:00.000000Z"),
        ("2024-01-31T12:30:00Z", "2024-01-31T12:30:00.000000Z"),
        ("2024-01-31T12:30:00.123456Z", "2024-01-31T12:30:00.123456Z"),
        ("2024-01-31T12:30:00+02:00", "2024-01-31T10:30:00.000000Z"),
        ("2024-01-31 12:30", "2024-01-31T12:30:00.000000Z"),
        ("90s", "2023-11-14T22:11:50.000000Z"),
        ("3d", "2023-11-11T22:13:20.000000Z"),
        ("1d12h", "2023-11-13T10:13:20.000000Z"),
        ("2w", "2023-10-31T22:13:20.000000Z"),
        ("2 weeks", "2023-10-31T22:13:20.000000Z"),
        ("3 days ago", "2023-11-11T22:13:20.000000Z"),
        ("1 Month", "2023-10-15T22:13:20.000000Z"),
        ("yesterday", "2023-11-13T00:00:00.000000Z"),
        ("today", "2023-11-14T00:00:00.000000Z"),
    ],
)
def test_moments(text: str, expected: str) -> None:
    assert format_time(parse_moment(text, NOW)) == expected


@pytest.mark.parametrize(
    "text", ["", "some day", "3", "3 d", "d3", "2024-13-01", "-3d", "3d!", "1x", "9" * 5000 + "d"]
)
def test_what_is_no_time_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_moment(text, NOW)
    assert caught.value.hint
    with pytest.raises(UsageError):
        parse_age(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-31", "2024-01-31T23:59:59.999999Z"),
        ("20240131", "2024-01-31T23:59:59.999999Z"),
        ("9999-12-31", "9999-12-31T23:59:59.999999Z"),
        ("2024-01-31T00:00", "2024-01-31T00:00:00.000000Z"),
        ("3d", "2023-11-11T22:13:20.000000Z"),
    ],
)
def test_a_date_that_ends_something_is_its_whole_day(text: str, expected: str) -> None:
    assert format_time(parse_moment(text, NOW, last=True)) == expected


def test_ages() -> None:
    assert parse_age("12h") == 12 * 3600 * 1_000_000
    assert parse_age("1y2w") == (365 + 14) * 86400 * 1_000_000


def test_an_age_before_all_dates() -> None:
    with pytest.raises(UsageError):
        parse_moment("999999999y", 0)
