"""The repository that tests copy: a messy one, or what the parameter builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gc.repositories import messy_repository
from tests.official import built, copied


@pytest.fixture
def source(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    builder, *arguments = getattr(request, "param", (messy_repository, 2))
    return copied(built(tmp_path_factory, builder, *arguments), tmp_path / "source")
