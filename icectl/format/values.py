"""Encoded values in the files: FlexBuffers (spec version 2) and MessagePack (spec version 1).

Decoders return None, bool, int, float, str, bytes, list and dict with str keys, and raise
`FormatError` for damaged values. Encoders take the same types and raise `FormatError` for values
that the official implementation could not read.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from icectl import limits
from icectl.errors import FormatError
from icectl.format.flexbuffers import MAX_DEPTH, decode_flexbuffers
from icectl.model.values import MetadataItem

if TYPE_CHECKING:
    from flatbuffers.flexbuffers import Builder

__all__ = [
    "decode_flexbuffers",
    "decode_metadata",
    "decode_msgpack",
    "encode_flexbuffers",
    "encode_metadata",
    "encode_msgpack",
    "plain",
    "require_plain",
]


def encode_flexbuffers(value: object) -> bytes:
    from flatbuffers.flexbuffers import Builder

    # Checked in advance: an exception inside the builder's maps would raise another one.
    try:
        _check_storable(value, 0)
    except UnicodeEncodeError as error:
        raise FormatError("text that is not valid Unicode cannot be stored") from error
    builder = Builder()
    _add(builder, value)
    return bytes(builder.Finish())


def _check_storable(value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise FormatError(f"a value that nests deeper than {MAX_DEPTH} cannot be stored")
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise FormatError(f"the number {value} does not fit into 64 bits")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if not isinstance(name, str) or "\0" in name:
                raise FormatError(f"{name!r} is not a valid name of a value")
            name.encode()
            _check_storable(item, depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for item in value:
            _check_storable(item, depth + 1)
    elif not isinstance(value, None | float | bytes):
        raise FormatError(f"a value of type {type(value).__name__} cannot be stored")


def _add(builder: Builder, value: object) -> None:
    if value is None:
        builder.Null()
    elif isinstance(value, bool):
        builder.Bool(value)
    elif isinstance(value, int):
        (builder.UInt if value >> 63 > 0 else builder.Int)(value)
    elif isinstance(value, float):
        # If the builder chooses the width, it fails for numbers beyond 32-bit floats.
        builder.Float(value, 8)
    elif isinstance(value, str):
        builder.String(value)
    elif isinstance(value, bytes):
        builder.Blob(value)
    elif isinstance(value, Mapping):
        with builder.Map():
            for name, item in value.items():
                builder.Key(name.encode())
                _add(builder, item)
    elif isinstance(value, Sequence):
        with builder.Vector():
            for item in value:
                _add(builder, item)


def decode_msgpack(data: bytes) -> object:
    import msgpack

    limits.require("VALUE_BYTES", len(data), limits.VALUE_BYTES, "the size of a value in bytes is")
    try:
        value: object = msgpack.unpackb(data, raw=False, object_pairs_hook=_mapping)
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"the MessagePack value is damaged: {_cause(error)}", offset=0) from error
    require_plain(value)
    return value


def require_plain(value: object) -> None:
    """Raise `FormatError` for other types than JSON and bytes, and for deep nesting."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif not isinstance(item, None | bool | int | float | str | bytes):
                raise FormatError(f"unexpected value of type {type(item).__name__}")
        if not below:
            return
        level = below
    raise FormatError(f"a value nests deeper than {MAX_DEPTH}")


def _mapping(pairs: list[tuple[object, object]]) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for name, value in pairs:
        if not isinstance(name, str):
            raise FormatError(f"a MessagePack map has the key {name!r}, which is not text")
        if name in mapping:
            raise FormatError(f"a MessagePack map has the key {name!r} twice")
        mapping[name] = value
    return mapping


def encode_msgpack(value: object) -> bytes:
    import msgpack

    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True)
    except Exception as error:
        raise FormatError(f"the value cannot be stored: {_cause(error)}") from error
    decode_msgpack(packed)
    return packed


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def decode_metadata(items: Sequence[MetadataItem] | None, spec_version: int) -> dict[str, object]:
    decode = decode_msgpack if spec_version == 1 else decode_flexbuffers
    metadata: dict[str, object] = {}
    size = sum(len(item.value) for item in items or ())
    limits.require("VALUE_BYTES", size, limits.VALUE_BYTES, "the size of the metadata in bytes is")
    for item in items or ():
        if item.name in metadata:
            raise FormatError(f"the metadata has two values named {item.name!r}")
        try:
            metadata[item.name] = decode(item.value)
        except FormatError as error:
            raise FormatError(f"the metadata value {item.name!r} is damaged: {error}") from error
    return metadata


def encode_metadata(mapping: Mapping[str, object], spec_version: int) -> tuple[MetadataItem, ...]:
    """Return the items sorted by the UTF-8 bytes of the name, as the specification demands."""
    encode = encode_msgpack if spec_version == 1 else encode_flexbuffers
    for name, value in mapping.items():
        try:
            name.encode()
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(f"the metadata value {name!r} is not JSON: {error}") from error
    return tuple(
        MetadataItem(name, encode(value))
        for name, value in sorted(mapping.items(), key=lambda item: item[0].encode())
    )


def plain(value: object) -> object:
    """Return the value with bytes as `base64:…`, and NaN and infinity as text, for JSON."""
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
