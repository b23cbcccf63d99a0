"""The repositories that the tables are tried on, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
WRITTEN = ("zoo-1", "zoo-2", "random-1", "random-2")
FIXTURES = ("test-repo-v1", "test-repo-v2", "test-repo-v2-migrated", "split-repo-v2")
LEGACY = ("test-repo-alpha8", "test-repo-alpha15", "test-repo-0.1.0")


def find_repository(name: str, factory: pytest.TempPathFactory) -> Path:
    if name not in WRITTEN:
        if not (SHARED_FIXTURES / name).is_dir():
            pytest.skip("the repositories of official releases are not beside the project")
        return SHARED_FIXTURES / name
    from tests.official import build_zoo, built, random_history

    kind, spec_version = name.split("-")
    if kind == "zoo":
        return built(factory, build_zoo, int(spec_version))
    return built(factory, random_history, 8, 40, int(spec_version))
