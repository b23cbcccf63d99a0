"""Spark tests: skipped as a whole where Java or PySpark is missing.

One session serves a test process; with `--dist loadgroup` all of them run in one process.
"""

import shutil

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

MARKS = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
