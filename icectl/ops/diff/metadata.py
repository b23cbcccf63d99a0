"""A node's `zarr.json` before and after, as a list of the values that differ.

Objects are followed key by key, and lists of objects of one length (codecs) item by item; any
other list, such as a shape, changes as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from icectl.model.snapshot import NodeSnapshot
from icectl.ops.diff.result import ABSENT, MetadataChange, ValueChange


def compare_metadata(before: NodeSnapshot, after: NodeSnapshot) -> MetadataChange:
    """The changed values in the order in which the documents have them."""
    if before.user_data == after.user_data:
        return MetadataChange(after.path, ())
    old, new = _decode(before.user_data), _decode(after.user_data)
    return MetadataChange(after.path, tuple(_diff("", old, new)))


def _decode(user_data: bytes) -> Any:
    """What is no JSON is one opaque value, so that its change is still told."""
    try:
        return json.loads(user_data)
    except (ValueError, RecursionError):
        return user_data.decode(errors="backslashreplace")


def _diff(pointer: str, before: Any, after: Any) -> Iterator[ValueChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            step = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            yield from _diff(step, before.get(key, ABSENT), after.get(key, ABSENT))
    elif _are_objects(before) and _are_objects(after) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _diff(f"{pointer}/{index}", old, new)
    elif not _same(before, after):
        yield ValueChange(pointer, before, after)


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _same(before: Any, after: Any) -> bool:
    if before is ABSENT or after is ABSENT:
        return before is after
    # As text, since to Python True, 1 and 1.0 are equal and NaN is not equal to itself.
    return json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)
