"""Repositories built once for all processes of a test run, and copied for tests that change them.

@pytest.fixture(scope="session")
def zoo(tmp_path_factory): return built(tmp_path_factory, build_zoo, 2)

def test_x(zoo, tmp_path): mine = copied(zoo, tmp_path / "repo")
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
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
        _built[key] = _build(factory, builder, arguments, options)
    return _built[key]


def _build(
    factory: pytest.TempPathFactory,
    builder: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Path:
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    words = f"{builder.__module__} {builder.__qualname__} {arguments} {sorted(options.items())}"
    shared = base / "built" / f"{builder.__name__}-{sha256(words.encode()).hexdigest()[:12]}"
    shared.parent.mkdir(exist_ok=True)
    with Path(f"{shared}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "done").exists():
            shutil.rmtree(shared, ignore_errors=True)  # of an attempt that failed
            shared.mkdir()
            builder(shared / "repo", *arguments, **options)
            (shared / "done").touch()
    return shared / "repo"


def copied(repository: Path, destination: Path) -> Path:
    """A copy with the same modification times, which gc and expire look at."""
    shutil.copytree(repository, destination)
    return destination
