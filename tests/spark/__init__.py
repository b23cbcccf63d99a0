"""Tests of what only Spark has: skipped as a whole where Java or PySpark is missing.

What both engines do is tested with the fixture `engine`; see `tests/engines`.
"""

import pytest

from tests.engines.fixtures import HAS_SPARK, MARKS, ONE_PROCESS

if not HAS_SPARK:
    pytest.skip("Spark needs Java and PySpark", allow_module_level=True)

__all__ = ["MARKS", "ONE_PROCESS"]
