"""Format times. Inside icectl a time is an integer: microseconds since 1970-01-01 UTC."""

from __future__ import annotations

from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)
_UNITS = (
    ("year", 365 * 86400),
    ("month", 30 * 86400),
    ("week", 7 * 86400),
    ("day", 86400),
    ("hour", 3600),
    ("minute", 60),
    ("second", 1),
)


def format_time(microseconds: int) -> str:
    """Return RFC 3339 in UTC with microseconds, as in `--json`.

    If a damaged file contains a number out of range, return the number.
    """
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return str(microseconds)
    return moment.isoformat(timespec="microseconds") + "Z"


def format_time_short(microseconds: int) -> str:
    """Return text such as `2024-01-31 12:00:00Z`, for tables."""
    text = format_time(microseconds)
    return f"{text[:10]} {text[11:19]}Z" if text.endswith("Z") else text


def format_age(microseconds: int, now: int) -> str:
    """Return text with one unit, such as `3 days ago`."""
    seconds = (now - microseconds) // 1_000_000
    if seconds < 0:
        return f"in {_count(-seconds)}"
    return f"{_count(seconds)} ago" if seconds else "just now"


def format_duration(seconds: float) -> str:
    """Return text such as `1h05m`, `3m12s` or `4.2s`, for progress and reports."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def _count(seconds: int) -> str:
    name, size = next(unit for unit in _UNITS if seconds >= unit[1])
    count = seconds // size
    return f"{count} {name}{'' if count == 1 else 's'}"
