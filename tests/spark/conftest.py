"""A repository with nodes and references of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables.repositories import find_repository


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_repository("zoo-2", tmp_path_factory)
