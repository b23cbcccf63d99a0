"""Flipped bits in a repository with garbage: never is a live object deleted.

The frames carry no checksum, so that many flips decode to another valid file. Whatever gc makes
of such a repository, nothing that the whole repository needs may be in its plan.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from icectl.pipeline.engine import Engine
from tests.gc.flips import check_flips
from tests.gc.repositories import messy_repository
from tests.official import built


@pytest.mark.parametrize("spec_version", [1, 2])
def test_sampled(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, spec_version: int, engine: Engine
) -> None:
    source = built(tmp_path_factory, messy_repository, spec_version)
    number = 60 if engine.name == "local" else 8
    refused, made = check_flips(
        source, tmp_path, number, seed=spec_version, choose_engine=lambda _: engine
    )
    assert refused > number // 10 and made


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
@pytest.mark.parametrize(("spec_version", "number"), [(1, 300), (2, 700)])
def test_a_thousand_on_each_engine(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    spec_version: int,
    number: int,
    engine: Engine,
) -> None:
    source = built(tmp_path_factory, messy_repository, spec_version)
    refused, made = check_flips(
        source, tmp_path, number, seed=10 + spec_version, choose_engine=lambda _: engine
    )
    assert refused > number // 10
    assert made > number // 10


@pytest.mark.slow
def test_every_bit_of_repo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    source = built(tmp_path_factory, messy_repository, 2)
    check_flips(source, tmp_path, 2000, seed=5, kinds=("repo",))
