"""Whether an object is old enough to be deleted."""

from __future__ import annotations

from typing import Any

SECOND = 1_000_000


def is_created_before(created_at: Any, cutoff: int) -> Any:
    """For one time or a numpy column of times, in microseconds.

    A storage that reports whole seconds cuts off the rest: the object may be almost a second
    younger than its time says, so that the whole second must lie before the cutoff.
    """
    return created_at + (created_at % SECOND == 0) * (SECOND - 1) < cutoff
