"""Fixtures for every test: servers on loopback, and the repositories official releases wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["tests.servers.fixtures"]


@pytest.fixture(scope="session")
def shared_fixtures() -> Path:
    """Repositories that official releases wrote; read-only."""
    directory = Path(__file__).parents[2] / "shared" / "fixtures"
    if not directory.is_dir():
        pytest.skip("the repositories of official releases are not beside the project")
    return directory
