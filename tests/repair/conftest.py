from __future__ import annotations

from pathlib import Path

import pytest

from tests.official import built
from tests.validate.damage import build


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 2)


@pytest.fixture(scope="session")
def whole_v1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 1)
