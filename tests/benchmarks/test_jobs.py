"""Every job of `make bench` runs, on tiny data; what it measures is not judged."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import harness, jobs
from tests.benchmarks.__main__ import measure
from tests.benchmarks.harness import JOBS, SCALES

for module in pkgutil.iter_modules(jobs.__path__, jobs.__name__ + "."):
    importlib.import_module(module.name)

pytestmark = pytest.mark.skipif(
    find_spec("icechunk") is None, reason="the official package is not installed"
)


@pytest.fixture(autouse=True)
def built_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data sets are built in this process: starting one for each would take most of the time."""

    def build(builder: str, path: Path, arguments: Any, options: Any) -> None:
        import tests.official as official

        getattr(official, builder)(path, *arguments, **options)

    monkeypatch.setattr(harness, "build", build)


def failures(*, on_spark: bool) -> dict[str, str]:
    """One job after the other: they share data and copies of it."""
    chosen = [job for job in JOBS if job.name.startswith("spark") == on_spark]
    results = [measure(job, SCALES["tiny"], rounds=0) for job in chosen]
    assert results
    return {result["job"]: result["error"] for result in results if "error" in result}


def test_every_job_runs() -> None:
    assert failures(on_spark=False) == {}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java, which is not installed")
def test_every_job_on_spark_runs() -> None:
    assert failures(on_spark=True) == {}
