"""Parse values on the command line: times, ages, and `KEY=VALUE` where VALUE is JSON or text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

from icectl.errors import FormatError, UsageError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_AGE = re.compile(r"([0-9]{1,9})([smhdwy])")
_WORDS = re.compile(
    r"([0-9]{1,9}) *(second|minute|hour|day|week|month|year)s?(?: ago)?", re.IGNORECASE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def parse_age(text: str) -> int:
    """Return `3d`, `12h`, `1d12h` or `2 weeks` as microseconds; a month has 30 days."""
    if words := _WORDS.fullmatch(text):
        unit = words[2].lower()
        seconds = 30 * _SECONDS["d"] if unit == "month" else _SECONDS[unit[0]]
        return int(words[1]) * seconds * 1_000_000
    parts = _AGE.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{text!r} is not an age", hint="write 90m, 12h, 3d, 2w or 1y")
    return sum(int(number) * _SECONDS[unit] for number, unit in parts) * 1_000_000


def parse_moment(text: str, now: int, *, last: bool = False) -> int:
    """Return a date, a time or an age before `now` as microseconds since 1970-01-01 UTC.

    A time without an offset is UTC, like all times that icectl prints. With `last`, a date means
    the last moment of that day.
    """
    days_ago = {"today": 0, "yesterday": 1}.get(text.lower())
    if days_ago is not None:
        text = str((_EPOCH + timedelta(microseconds=now) - timedelta(days=days_ago)).date())
    if (_AGE.match(text) or _WORDS.fullmatch(text)) and "-" not in text:
        moment_ago = now - parse_age(text)
        if moment_ago < _FIRST:
            raise UsageError(f"{text!r} is before the year 1", hint="give a later time")
        return moment_ago
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time",
            hint="write a date (2024-01-31), a time (2024-01-31T12:00:00Z) or an age "
            "(12h, 3d, 2 weeks)",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if last:
        with suppress(ValueError):  # it is a time
            date.fromisoformat(text)
            moment = datetime.combine(moment, time.max, UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def parse_value(text: str) -> object:
    """Parse `10`, `true`, `null`, `{"a": [1]}` and `"10"` as JSON; return any other text.

    Raise `UsageError` if no repository can store the value: it is not damage.
    """
    import json

    from icectl.format.values import encode_flexbuffers

    value: object = text
    with suppress(ValueError, RecursionError):
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_float)
    try:
        encode_flexbuffers(value)
    except FormatError as error:
        raise UsageError(error.message) from None
    return value


def parse_pairs(pairs: Iterable[str]) -> dict[str, object]:
    values = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"{pair!r} does not have the form KEY=VALUE")
        values[check_text(key)] = parse_value(value)
    return values


def check_text(text: str) -> str:
    """Return the text; raise `UsageError` if the argument is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} is not valid UTF-8") from None
    return text


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range for a number")
    return value
