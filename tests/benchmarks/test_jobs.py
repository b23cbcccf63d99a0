"""Each job of `make bench` runs, on a twentieth of its data; what it measures is not judged."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from importlib.util import find_spec

import pytest

from tests.benchmarks import jobs
from tests.benchmarks.__main__ import measure
from tests.benchmarks.harness import JOBS, SCALES, Job

for module in pkgutil.iter_modules(jobs.__path__, jobs.__name__ + "."):
    importlib.import_module(module.name)

NEEDS_SPARK = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java, which is not installed"),
]


def marked(job: Job) -> object:
    on_spark = job.name.startswith("spark")
    return pytest.param(job, id=job.name, marks=NEEDS_SPARK if on_spark else [])


@pytest.mark.skipif(find_spec("icechunk") is None, reason="the official package is not installed")
@pytest.mark.xdist_group("benchmarks")
@pytest.mark.parametrize("job", map(marked, JOBS))
def test_a_job_runs(job: Job) -> None:
    result = measure(job, SCALES["small"], rounds=0)
    assert "error" not in result
