"""A sample is the same all day, another one the next day, and covers everything in time."""

from __future__ import annotations

import numpy as np
import pytest

from icectl.errors import UsageError
from icectl.pipeline.sampling import DAY, Sample

IDS = np.random.default_rng(1).integers(0, 2**64, 10_000, np.uint64)
LENGTHS = np.full(len(IDS), 100, np.uint64)


@pytest.mark.parametrize(
    ("text", "share", "days"),
    [("1/30", 1 / 30, 30), ("1%", 0.01, 100), ("30%", 0.3, 4), ("100%", 1, 1)],
)
def test_covers_everything(text: str, share: float, days: int) -> None:
    sample = Sample.parse(text)
    chosen = [sample.choose(IDS, LENGTHS, day * DAY + 7) for day in range(20_000, 20_000 + days)]
    assert np.logical_or.reduce(chosen).all()
    for part in chosen:
        assert abs(part.mean() - share) < 0.02
    if share <= 0.5:
        assert not (chosen[0] & chosen[1]).any()


def test_same_all_day() -> None:
    sample = Sample.parse("1/30")
    morning, night = (sample.choose(IDS, LENGTHS, 20_000 * DAY + hour) for hour in (0, DAY - 1))
    assert (morning == night).all()


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("10GB", 10**10), ("1MiB", 2**20), ("500B", 500), ("1.5kb", 1500)]
)
def test_sizes(text: str, num_bytes: int) -> None:
    assert Sample.parse(text).num_bytes == num_bytes


def test_size_becomes_a_share() -> None:
    chosen = Sample.parse("100KB").choose(IDS, LENGTHS, 20_000 * DAY)
    assert abs(int(LENGTHS[chosen].sum()) - 100_000) < 15_000
    assert Sample.parse("1TB").choose(IDS, LENGTHS, 0).all()


WRONG = ["", "0%", "101%", "1/0", "0/3", "2/1", "-1%", "ten", "10XB", "0B", "0.4B", "1", "1/3/4"]


@pytest.mark.parametrize("text", [*WRONG, "nan%", "1e99999999%", "1/" + "9" * 5000])
def test_wrong(text: str) -> None:
    with pytest.raises(UsageError):
        Sample.parse(text)
