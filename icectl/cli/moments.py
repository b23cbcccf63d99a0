"""Parse times and ages: `2024-01-31`, `2024-01-31T12:00:00Z`, `3d`, `2 weeks`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from icectl.errors import UsageError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_AGE = re.compile(r"([0-9]{1,9})([smhdwy])")
_WORDS = re.compile(
    r"([0-9]{1,9}) *(second|minute|hour|day|week|month|year)s?(?: ago)?", re.IGNORECASE
)
_WORD_SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 7 * 86400,
    "month": 30 * 86400,
    "year": 365 * 86400,
}
_DAYS_AGO = {"today": 0, "yesterday": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_HINT = "write a date (2024-01-31), a time (2024-01-31T12:00:00Z) or an age (12h, 3d, 2 weeks)"


def parse_age(text: str) -> int:
    """Return `3d`, `12h`, `1d12h` or `2 weeks` as microseconds; a month has 30 days."""
    words = _WORDS.fullmatch(text)
    if words is not None:
        return int(words[1]) * _WORD_SECONDS[words[2].lower()] * 1_000_000
    parts = _AGE.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{text!r} is not an age", hint="write 90m, 12h, 3d, 2w or 1y")
    return sum(int(number) * _SECONDS[unit] for number, unit in parts) * 1_000_000


def parse_moment(text: str, now: int) -> int:
    """Return a date, a time or an age before `now` as microseconds since 1970-01-01 UTC.

    A time without an offset is UTC, like all times that icectl prints.
    """
    text = _resolve_day(text, now)
    if (_AGE.match(text) or _WORDS.fullmatch(text)) and "-" not in text:
        moment_ago = now - parse_age(text)
        if moment_ago < _FIRST:
            raise UsageError(f"{text!r} is before the year 1", hint="give a later time")
        return moment_ago
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time", hint=_HINT) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def parse_last_moment(text: str, now: int) -> int:
    """The same, except that a date means the last moment of that day."""
    text = _resolve_day(text, now)
    moment = parse_moment(text, now)
    try:
        date.fromisoformat(text)
    except ValueError:
        return moment
    return moment + _SECONDS["d"] * 1_000_000 - 1


def _resolve_day(text: str, now: int) -> str:
    """Return the date (UTC) for `today` and `yesterday`, and any other text unchanged."""
    days = _DAYS_AGO.get(text.lower())
    if days is None:
        return text
    return str((_EPOCH + timedelta(microseconds=now) - timedelta(days=days)).date())
