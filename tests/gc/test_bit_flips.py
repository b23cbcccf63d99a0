"""Flipped bits in a repository with garbage: never is a live object deleted.

The frames carry no checksum, so that many flips decode to another valid file. Whatever gc makes
of such a repository, nothing that the whole repository needs may be in its plan.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from icectl.errors import IcectlError
from icectl.ops.gc.plan import plan_gc
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.gc.repositories import (
    files,
    messy_repository,
    now,
    planned_paths,
)
from tests.official import built, copied

KINDS = ("repo", "manifests", "snapshots", "transactions", "refs")


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def targets(repository: Path) -> list[Path]:
    found = [repository / "repo"] if (repository / "repo").exists() else []
    for directory in KINDS[1:]:
        found += sorted(path for path in (repository / directory).rglob("*") if path.is_file())
    return [path for path in found if path.stat().st_size]


def check_flips(
    source: Path, tmp_path: Path, number: int, seed: int, kinds: tuple[str, ...] = KINDS
) -> tuple[int, int]:
    """How many flips were refused, and how many plans were still made.

    More than `number`, where chance would have it that all were refused or none.
    """
    mine = copied(source, tmp_path / "repo")
    chance = random.Random(seed)
    live = files(mine) - planned_paths(plan_gc(open_repository(LocalStorage(mine)), now()))
    by_kind = [
        [path for path in targets(mine) if path.relative_to(mine).parts[0] == kind]
        for kind in kinds
    ]
    by_kind = [paths for paths in by_kind if paths]
    refused = made = 0
    for tried in range(10 * number):
        if tried >= number and refused and made:
            break
        path = chance.choice(chance.choice(by_kind))
        whole = path.read_bytes()
        bit = chance.randrange(len(whole) * 8)
        flip(path, bit)
        try:
            run = plan_run(LocalStorage(mine), GcOptions(cutoff=now()))
        except IcectlError as error:
            assert error.exit_code in (10, 13, 14, 15, 16), error
            refused += 1
        else:
            made += 1
            lost = planned_paths(run.plan) & live
            assert not lost, f"{path.relative_to(mine)} bit {bit}: {sorted(lost)[:3]}"
        path.write_bytes(whole)
    return refused, made


@pytest.mark.parametrize("spec_version", [1, 2])
def test_sampled(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, spec_version: int
) -> None:
    source = built(tmp_path_factory, messy_repository, spec_version)
    refused, _made = check_flips(source, tmp_path, 60, seed=spec_version)
    assert refused > 5


@pytest.mark.slow
@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_a_thousand(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, spec_version: int, seed: int
) -> None:
    source = built(tmp_path_factory, messy_repository, spec_version)
    refused, made = check_flips(source, tmp_path, 1000, seed=100 + seed)
    assert refused > 100
    assert made > 100


@pytest.mark.slow
def test_every_bit_of_repo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    source = built(tmp_path_factory, messy_repository, 2)
    check_flips(source, tmp_path, 2000, seed=5, kinds=("repo",))
