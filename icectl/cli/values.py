"""Values as a user writes them: `KEY=VALUE`, where VALUE is JSON or else a text."""

from __future__ import annotations

import json
from collections.abc import Iterable

from icectl.errors import UsageError


def parse_value(text: str) -> object:
    """`10`, `true`, `null`, `{"a": [1]}` and `"10"` as JSON; anything else is itself."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def parse_pairs(pairs: Iterable[str]) -> dict[str, object]:
    values = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"{pair!r} is not written KEY=VALUE")
        values[key] = parse_value(value)
    return values


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
