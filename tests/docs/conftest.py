"""icectl as a separate process, in a clean environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.demo_repository import REPOSITORY, environment, write_demo
from tests.patience import PATIENCE_SECONDS

Icectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def icectl(tmp_path: Path) -> Icectl:
    def call(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "icectl.cli.main", *words],
            cwd=tmp_path,
            env={**environment(tmp_path), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    return call


@pytest.fixture(scope="session")
def demo_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("demo")
    write_demo(home)
    return home / REPOSITORY


@pytest.fixture
def demo(demo_original: Path, tmp_path: Path) -> Path:
    """A copy of the demo repository that a test may change."""
    copy = tmp_path / "weather"
    shutil.copytree(demo_original, copy)
    return copy
