"""Random histories, and the diffs of icectl and of the official package as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from icectl.format import node_columns, snapshot
from icectl.ops.diff import chunks
from icectl.pipeline import reference_changes
from tests.command_line import environ, icectl
from tests.official import built, random_history

__all__ = ["environ", "icectl"]

HISTORIES = [(2, seed) for seed in range(5)] + [(1, seed) for seed in range(3)]
STEPS = 30


@pytest.fixture(scope="session", params=HISTORIES, ids=lambda p: f"v{p[0]}-seed{p[1]}")
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec_version, seed = request.param
    return built(tmp_path_factory, random_history, seed, STEPS, spec_version)


@pytest.fixture(params=["objects", "columns"])
def decoding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both ways to decode snapshots and to compare manifests; sizes decide which one is used."""
    if request.param == "columns":
        monkeypatch.setattr(snapshot, "SMALL_PAYLOAD", 0)
        monkeypatch.setattr(node_columns, "SMALL_PAYLOAD", 0)
        monkeypatch.setattr(chunks, "MANY_REFERENCES", 0)
        monkeypatch.setattr(chunks, "REFERENCES_PER_LOOKUP", 0)
        monkeypatch.setattr(reference_changes, "BLOCK", 3)
    yield
