"""Values as a user writes them: `KEY=VALUE`, where VALUE is JSON or else a text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import suppress

from icectl.errors import FormatError, UsageError


def parse_value(text: str) -> object:
    """`10`, `true`, `null`, `{"a": [1]}` and `"10"` as JSON; anything else is itself.

    `UsageError` for what no repository could store: it is the user's mistake, not damage.
    """
    from icectl.format.values import encode_flexbuffers

    value: object = text
    with suppress(ValueError, RecursionError):
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_float)
    try:
        encode_flexbuffers(value)
    except FormatError as error:
        raise UsageError(error.message) from None
    return value


def check_text(text: str) -> str:
    """The text itself; `UsageError` where the command line had bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} is not valid UTF-8") from None
    return text


def parse_pairs(pairs: Iterable[str]) -> dict[str, object]:
    values = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"{pair!r} is not written KEY=VALUE")
        values[check_text(key)] = parse_value(value)
    return values


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond what a number can be")
    return value
