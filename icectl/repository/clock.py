"""Timestamps for writes: the local clock, checked against the storage's.

One entry of the ops log from the future locks official writers out until that time, because they
only append newer ones.
"""

from __future__ import annotations

import time

from icectl.errors import RefusedError, Remedy
from icectl.storage.contract import Storage

MAX_SKEW = 600 * 1_000_000
"""The official client refuses a commit whose time is further from the storage's clock."""
RESOLUTION = 1_000_000
"""Object stores report their time in whole seconds, rounded down."""


def local_time() -> int:
    """Microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


def write_time(storage_time: int, local: int) -> int:
    """The local time, or the storage's if ours is ahead; `RefusedError` if they disagree."""
    if abs(local - storage_time) > MAX_SKEW:
        direction = "ahead of" if local > storage_time else "behind"
        apart = format_duration(abs(local - storage_time))
        raise RefusedError(
            f"the clock of this machine is {apart} {direction} the storage's clock, so nothing "
            "is written: an operation with a wrong time can lock out official clients",
            hint=Remedy("set-clock"),
        )
    return local if local <= storage_time + RESOLUTION else storage_time


def read_write_time(storage: Storage) -> int:
    """`write_time` by a request to the storage."""
    storage_time = storage.read_clock()
    return write_time(storage_time, local_time())


def is_ahead(moment: int, now: int) -> bool:
    """Whether it is further in the future than two clocks may differ."""
    return moment > now + MAX_SKEW


def format_duration(microseconds: int) -> str:
    """At least a minute, in the largest unit that fits: `3 days`, `2 hours`, `11 minutes`."""
    minutes = microseconds // 60_000_000
    units = (("day", 1440), ("hour", 60), ("minute", 1))
    unit, length = next(one for one in units if minutes >= one[1] or one[1] == 1)
    count = minutes // length
    return f"{count:,} {unit}{'' if count == 1 else 's'}"
