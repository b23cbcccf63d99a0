"""Random bytes of metadata files: each flip is found, or without effect on what can be read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.official import built
from tests.validate.damage import build, copied_with_source
from tests.validate.flips import Missed, flip_and_judge

ONCE = ".arrays[].refs.content[]"
"""The bytes of inline chunks are stored once, without a checksum: nothing can tell."""


def check(where: Path, number: int, seed: int) -> int:
    chance = random.Random(seed)
    found = 0
    for _ in range(number):
        judged = flip_and_judge(where, chance)
        if isinstance(judged, Missed):
            assert set(judged.differences) == {ONCE}, judged
        else:
            found += judged
    return found


def test_sampled(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    where = copied_with_source(built(tmp_path_factory, build, 2), tmp_path / "repo")
    assert check(where, 100, seed=7) > 80


@pytest.mark.slow
def test_a_thousand(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    where = copied_with_source(built(tmp_path_factory, build, 2), tmp_path / "repo")
    assert check(where, 1000, seed=8) > 900
