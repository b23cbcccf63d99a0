"""Convert times of cloud storage to microseconds since 1970-01-01 UTC."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def microseconds_of_http_date(date: str | None) -> int:
    """Return the time in the Date header of a response, or the local time without one."""
    if date:
        with suppress(ValueError):
            return microseconds(parsedate_to_datetime(date))
    return time.time_ns() // 1000
