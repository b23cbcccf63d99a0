"""Every repository that the compatibility tests go through, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SHARED_FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
# The generations that the official package 2.3.0 can open.
FIXTURES = ("test-repo-v1", "test-repo-v2", "test-repo-v2-migrated", "split-repo-v2")
WRITTEN = ("zoo-1", "zoo-2", "random-1", "random-2")


@pytest.fixture(scope="session", params=(*WRITTEN, *FIXTURES))
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that the official package wrote; never change it."""
    name: str = request.param
    if name in FIXTURES:
        if not (SHARED_FIXTURES / name).is_dir():
            pytest.skip("the shared fixtures are not here")
        return SHARED_FIXTURES / name
    from tests.official import build_zoo, built, random_history

    kind, spec_version = name.split("-")
    if kind == "zoo":
        return built(tmp_path_factory, build_zoo, int(spec_version))
    return built(tmp_path_factory, random_history, 20, 40, int(spec_version))


@pytest.fixture(scope="session")
def report(repository: Path) -> dict[str, Any]:
    """What the official package reports of it."""
    from tests.official import official_report

    return official_report(repository)


@pytest.fixture(scope="session")
def content(repository: Path) -> dict[str, Any]:
    """What the official package reads from it."""
    from tests.official import open_official, read_everything

    return read_everything(open_official(repository))
