"""Checked access to the MessagePack payload of the generations before FlatBuffers.

Writers stored structures as arrays without names (or, in the earliest specification, as maps),
stored choices as maps with one entry, and used lists as keys. Every accessor raises `FormatError`
for a value of another type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import TypeVar

from icectl import limits
from icectl.errors import FormatError, LimitExceededError
from icectl.format.values import require_plain
from icectl.model.ids import NodeId, ObjectId

Id = TypeVar("Id", bound=ObjectId)

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Pairs(list[tuple[object, object]]):
    """A map whose keys are not all text."""


def unpack(payload: bytes | bytearray) -> object:
    import msgpack

    try:
        value: object = msgpack.unpackb(
            payload, raw=False, strict_map_key=False, object_pairs_hook=_map
        )
    except FormatError:
        raise
    except Exception as error:
        cause = str(error) or type(error).__name__
        raise FormatError(f"the MessagePack payload is damaged: {cause}", offset=0) from error
    return value


def check_elements(payload: bytes | bytearray, file_size: int) -> None:
    """Raise `LimitExceededError` if the payload has too many values for the size of its file."""
    import msgpack

    most = limits.ELEMENTS_ALWAYS + limits.ELEMENTS_PER_BYTE * file_size
    count = 0

    def spend(elements: list[object]) -> None:
        nonlocal count
        count += len(elements) + 1
        limits.require("ELEMENTS_PER_BYTE", count, most, "the number of values is")

    try:
        msgpack.unpackb(
            payload,
            raw=True,
            strict_map_key=False,
            list_hook=spend,
            object_pairs_hook=spend,
            max_array_len=most,
            max_map_len=most,
        )
    except FormatError:
        raise
    except Exception as error:
        cause = str(error) or type(error).__name__
        if "exceeds max_" in cause:
            raise LimitExceededError("ELEMENTS_PER_BYTE", f"MessagePack: {cause}") from error
        raise FormatError(f"the MessagePack payload is damaged: {cause}", offset=0) from error


def _map(pairs: list[tuple[object, object]]) -> dict[str, object] | Pairs:
    mapping = {name: value for name, value in pairs if isinstance(name, str)}
    if len(mapping) == len(pairs):
        return mapping
    if any(isinstance(name, str) for name, _ in pairs):
        raise FormatError("a map has duplicate keys or keys of different types")
    return Pairs(pairs)


def items(value: object, what: str) -> Iterable[tuple[object, object]]:
    """Return the entries of a map with keys of any type."""
    if isinstance(value, Pairs):
        return value
    return mapping(value, what).items()


def mapping(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise FormatError(f"{what} is not a map")
    return value


def json_mapping(value: object, what: str) -> dict[str, object]:
    """Return a map that may contain any JSON value."""
    require_plain(value)
    return mapping(value, what)


def record(value: object, layouts: Iterable[tuple[str, ...]], what: str) -> dict[str, object]:
    """Return the fields of a structure by name, whether it was stored by name or by position."""
    if isinstance(value, list) and not isinstance(value, Pairs):
        for names in layouts:
            if len(names) == len(value):
                return dict(zip(names, value, strict=True))
        raise FormatError(f"{what} has {len(value)} fields, unlike those of any known writer")
    return mapping(value, what)


def take(fields: dict[str, object], name: str, what: str) -> object:
    if name not in fields:
        raise FormatError(f"{what} has no {name}")
    return fields[name]


def variant(value: object, what: str) -> tuple[str, object]:
    """Return the name and the value of a choice; the value is None if the choice has none."""
    if isinstance(value, str):
        return value, None
    fields = mapping(value, what)
    if len(fields) != 1:
        raise FormatError(f"{what} is not exactly one choice")
    return next(iter(fields.items()))


def sequence(value: object, what: str) -> list[object]:
    if not isinstance(value, list) or isinstance(value, Pairs):
        raise FormatError(f"{what} is not a list")
    return value


def text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{what} is not text")
    return value


def unsigned(value: object, what: str, bits: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise FormatError(f"{what} is not an unsigned number of {bits} bits")
    return value


def coordinates(value: object, what: str) -> tuple[int, ...]:
    return tuple(unsigned(index, what, 32) for index in sequence(value, what))


def binary(value: object, what: str) -> bytes:
    if isinstance(value, bytes):
        return value
    return bytes(unsigned(byte, what, 8) for byte in sequence(value, what))


def object_id(kind: type[Id], value: object) -> Id:
    """Return an id stored in any known form: text, bytes, wrapped bytes or list of numbers."""
    what = f"a {kind.__name__}"
    try:
        if isinstance(value, str):
            return kind.parse(value)
        if kind is NodeId and isinstance(value, int):
            return kind(unsigned(value, what, 32).to_bytes(4, "big"))
        if isinstance(value, list) and len(value) == 2 and value[1] == []:
            value = value[0]
        return kind(binary(value, what))
    except ValueError as error:
        raise FormatError(f"{what} is not valid: {error}") from error


def microseconds(value: object, what: str) -> int:
    """Return an RFC 3339 time as microseconds since 1970."""
    match = _TIME.fullmatch(text(value, what))
    if match is None:
        raise FormatError(f"{what} is not a time")
    *fields, fraction, sign, hours, minutes = match.groups()
    try:
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        zone = timezone(-offset if sign == "-" else offset)
        year, month, day, hour, minute, second = map(int, fields)
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except (ValueError, OverflowError) as error:
        raise FormatError(f"{what} is not a time: {error}") from error
    return (moment - _EPOCH) // timedelta(microseconds=1) + int(
        (fraction or "0").ljust(9, "0")
    ) // 1000
