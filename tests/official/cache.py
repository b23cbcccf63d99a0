"""Repositories built once for a test session, and copied for tests that change them.

@pytest.fixture(scope="session")
def zoo(tmp_path_factory): return built(tmp_path_factory, build_zoo, 2)

def test_x(zoo, tmp_path): mine = copied(zoo, tmp_path / "repo")
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_built: dict[tuple[Any, ...], Path] = {}


def built(
    factory: pytest.TempPathFactory, builder: Callable[..., Any], *arguments: Any, **options: Any
) -> Path:
    """The directory where `builder(directory, *arguments, **options)` wrote; never change it."""
    key = (builder, arguments, tuple(sorted(options.items())))
    if key not in _built:
        directory = factory.mktemp(builder.__name__) / "repo"
        builder(directory, *arguments, **options)
        _built[key] = directory
    return _built[key]


def copied(repository: Path, destination: Path) -> Path:
    """A copy with the same modification times, which gc and expire look at."""
    shutil.copytree(repository, destination)
    return destination
