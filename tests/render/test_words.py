"""Times, sizes and counts as people read them."""

from __future__ import annotations

import pytest

from icectl.render.text import (
    format_count,
    format_duration,
    format_size,
    format_time,
    format_time_short,
)


def test_times() -> None:
    assert format_time(1_700_000_000_123_456) == "2023-11-14T22:13:20.123456Z"
    assert format_time(0) == "1970-01-01T00:00:00.000000Z"
    assert format_time(-1) == "1969-12-31T23:59:59.999999Z"
    assert format_time_short(1_700_000_000_123_456) == "2023-11-14 22:13:20Z"
    assert format_time(2**63) == format_time_short(2**63) == str(2**63)


def test_durations() -> None:
    assert [format_duration(value) for value in (4.25, 192, 3900)] == ["4.2s", "3m12s", "1h05m"]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"), (20 * 1024**3, "20.0 GiB"), (2**63, "8.0 EiB"),
        (2**80, "1048576.0 EiB"), (-2048, "-2.0 KiB"),
    ],
)  # fmt: skip
def test_sizes(count: int, expected: str) -> None:
    assert format_size(count) == expected


def test_counts() -> None:
    assert format_count(1, "snapshot") == "1 snapshot"
    assert format_count(2000, "branch", "branches") == "2,000 branches"
