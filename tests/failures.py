"""Expected failures, by what programs see of them: class, path and hint, not the sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from icectl.errors import IcectlError, Remedy


@contextmanager
def raises(
    error: type[IcectlError], *, path: str | None = None, remedy: str | None = None, **facts: str
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """`pytest.raises` that also checks the damaged file and the remedy with its facts."""
    with pytest.raises(error) as caught:
        yield caught
    if path is not None:
        assert caught.value.path == path
    if remedy is not None:
        hint = caught.value.hint
        assert isinstance(hint, Remedy), hint
        assert hint.name == remedy
        assert facts.items() <= hint.facts.items()
