"""Parameters for tests that repeat one thing with other seeds or sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def repeated(fast: Iterable[Any], slow: Iterable[Any]) -> list[Any]:
    """`fast` for `make test`; `slow` shows nothing new and runs in `make test-all` only."""
    return [*fast, *(pytest.param(value, marks=pytest.mark.slow) for value in slow)]
