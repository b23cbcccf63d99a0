"""Random bytes of metadata files: each flip is found, or without effect on what can be read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.official import built
from tests.validate.damage import Patient, build, copied_with_source
from tests.validate.flips import Missed, flip_and_judge

ONCE = {
    ".arrays[].refs[].INLINE.content",
    ".arrays[].refs[].VIRTUAL.offset",
    ".arrays[].refs[].VIRTUAL.length",
    ".arrays[].refs[].VIRTUAL.checksum_last_modified",
}
"""Stored once, without a checksum: nothing can notice another valid value."""
FIRST_LOG = {".new_groups", ".new_arrays"}
"""Expirations before spec version 2.1 left first commits without earlier logs."""
FIRST_SNAPSHOT = {".nodes[].path"}
"""Of the array `inline`, which only this version has."""


def check(where: Path, number: int, seed: int) -> int:
    chance = random.Random(seed)
    first = Patient(where).history[-2]
    allowed = {f"transactions/{first}": FIRST_LOG, f"snapshots/{first}": FIRST_SNAPSHOT}
    found = 0
    for _ in range(number):
        judged = flip_and_judge(where, chance)
        if isinstance(judged, Missed):
            expected = allowed.get(judged.path, ONCE)
            assert judged.differences and expected.issuperset(judged.differences), judged
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
