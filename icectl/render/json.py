"""Convert any result to the stable documents of `--json` and `--jsonl`.

Dataclasses become objects with the names of their fields (without a trailing underscore, and
without fields that are `ABSENT`), ids become base32, and an integer in a dataclass field `..._at`
is a time and becomes RFC 3339. This does not apply to keys of a mapping, which may be metadata of a
user. Integers beyond 2^53, NaN and infinities become strings, other bytes base64, and enum members
their lower-case names. The output is ASCII, so it cannot contain control sequences for a terminal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from icectl.model.ids import ObjectId
from icectl.model.values import ABSENT
from icectl.render.text import format_time

_LARGEST_EXACT = 2**53
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
MANY = 10_000
OBJECT_ID_SIZE = 12


def to_json(value: Any) -> Any:
    """Convert the value to JSON types."""
    if value is None or isinstance(value, bool) or type(value) is str:
        return value
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, int):
        return int(value) if -_LARGEST_EXACT <= value <= _LARGEST_EXACT else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NOT_FINITE[str(float(value))]
    if isinstance(value, ObjectId | str):
        return str(value)
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if is_dataclass(value):
        values = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {
            name.rstrip("_"): format_time(one) if _is_time(name, one) else to_json(one)
            for name, one in values
            if one is not ABSENT
        }
    if isinstance(value, bytes | bytearray | memoryview):
        from base64 import b64encode

        return b64encode(value).decode()
    if hasattr(value, "tolist"):
        return to_json(value.tolist())
    if isinstance(value, tuple) and len(value) > MANY and all(map(_is_object_id, value)):
        return _names(value)
    if isinstance(value, Iterable):
        return [to_json(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _is_object_id(value: object) -> bool:
    return isinstance(value, ObjectId) and len(value) == OBJECT_ID_SIZE


def _names(ids: tuple[ObjectId, ...]) -> list[str]:
    """The names of many ids at once, which takes a tenth of the time."""
    import numpy as np

    from icectl.pipeline.id_columns import id_columns

    rows = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, OBJECT_ID_SIZE)
    return id_columns(rows).to_names()


def render_json(document: Any, *, indent: bool = False) -> str:
    """Return one document, without the final newline."""
    separators = None if indent else (",", ":")
    text = json.dumps(
        to_json(document), indent=2 if indent else None, separators=separators, allow_nan=False
    )
    # It can only occur in strings; GitHub's runner looks for commands after it.
    return text.replace("##[", "\\u0023#[")


def show_json(value: object) -> str:
    """Return a value of a user for text output, which escapes control characters itself."""
    return json.dumps(to_json(value), ensure_ascii=False)


def _is_time(name: str, value: object) -> bool:
    return name.endswith("_at") and isinstance(value, int) and not isinstance(value, bool)
