"""The tables need pyarrow: without it, every module of this package is skipped."""

import pytest

pytest.importorskip("pyarrow")
