"""Format sizes, counts and times.

Inside icectl a time is an integer: microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta

_SIZES = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_EPOCH = datetime(1970, 1, 1)


def format_size(count: int) -> str:
    """Return text such as `512 B`, `1.5 KiB` or `20.0 GiB`."""
    if abs(count) < 1024:
        return f"{count} B"
    size = float(count)
    power = 0
    # 1023.95 would be printed as 1024.0, which is 1.0 of the next unit.
    while abs(size) >= 1023.95 and power < len(_SIZES):
        size /= 1024
        power += 1
    return f"{size:.1f} {_SIZES[power - 1]}"


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """Return text such as `1 snapshot` or `2,000 snapshots`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


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


def format_duration(seconds: float) -> str:
    """Return text such as `1h05m`, `3m12s` or `4.2s`, for progress and reports."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"
