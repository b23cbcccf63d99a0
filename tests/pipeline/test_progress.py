"""What `-v` logs of a phase."""

from __future__ import annotations

import logging

import pytest

from icectl.pipeline.progress import Progress


@pytest.mark.parametrize("is_failure", [False, True])
def test_only_a_failure_is_logged_as_one(
    caplog: pytest.LogCaptureFixture, is_failure: bool
) -> None:
    caplog.set_level(logging.INFO, "icectl.pipeline.progress")
    items = Progress().count([1, 2, 3], "reading", 3)
    next(items)
    if is_failure:
        with pytest.raises(ZeroDivisionError):
            items.throw(ZeroDivisionError)  # type: ignore[attr-defined]
    else:
        items.close()  # type: ignore[attr-defined]
    (record,) = caplog.records
    assert ("failed" in record.getMessage()) == is_failure
