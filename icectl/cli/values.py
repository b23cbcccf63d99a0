"""Parse values on the command line: `KEY=VALUE`, where VALUE is JSON or plain text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import suppress

from icectl.errors import FormatError, UsageError


def parse_value(text: str) -> object:
    """Parse `10`, `true`, `null`, `{"a": [1]}` and `"10"` as JSON; return any other text.

    Raise `UsageError` if no repository can store the value: it is not damage.
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
    """Return the text; raise `UsageError` if the argument is not UTF-8."""
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
            raise UsageError(f"{pair!r} does not have the form KEY=VALUE")
        values[check_text(key)] = parse_value(value)
    return values


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range for a number")
    return value
