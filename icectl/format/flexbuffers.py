"""A FlexBuffers reader that checks every offset, width and length before using it.

The reader of the flatbuffers runtime trusts the bytes, so a damaged value can loop, exhaust memory
or be decoded wrongly. This reader charges elements and text against the size of the buffer, so
data that refers to itself repeatedly cannot multiply. It charges shared keys and strings, which
writers do produce, once.
"""

from __future__ import annotations

import struct
from itertools import pairwise

from icectl import limits
from icectl.errors import FormatError

MAX_DEPTH = 64

(_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING) = range(6)
(_INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _VECTOR) = range(6, 11)
(_VECTOR_INT, _VECTOR_UINT, _VECTOR_FLOAT, _VECTOR_KEY, _VECTOR_STRING) = range(11, 16)
_FIXED_FIRST, _FIXED_LAST = 16, 24
_BLOB, _BOOL, _VECTOR_BOOL = 25, 26, 36

_FORMATS = {
    _INT: {1: "b", 2: "h", 4: "i", 8: "q"},
    _UINT: {1: "B", 2: "H", 4: "I", 8: "Q"},
    _FLOAT: {2: "e", 4: "f", 8: "d"},
}
_SCALAR_VECTORS = {_VECTOR_INT: _INT, _VECTOR_UINT: _UINT, _VECTOR_FLOAT: _FLOAT}
_INDIRECT = {_INDIRECT_INT: _INT, _INDIRECT_UINT: _UINT, _INDIRECT_FLOAT: _FLOAT}


def decode_flexbuffers(data: bytes) -> object:
    """Return the value: None, bool, int, float, str, bytes, list or dict."""
    if len(data) < 3:
        raise FormatError("the FlexBuffers value is shorter than 3 bytes", offset=0)
    limits.require("VALUE_BYTES", len(data), limits.VALUE_BYTES, "the size of a value in bytes is")
    width, packed = data[-1], data[-2]
    if width not in (1, 2, 4, 8):
        raise FormatError(
            f"the FlexBuffers root has the invalid width {width}", offset=len(data) - 1
        )
    reader = _Reader(data)
    return reader.value(len(data) - 2 - width, width, packed, 0)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.elements_left = len(data)
        self.text_left = len(data)
        self.texts: dict[tuple[int, int], str] = {}
        self.keys: dict[int, str] = {}

    def numbers(self, position: int, width: int, kind: int, count: int) -> tuple[int | float, ...]:
        format_ = _FORMATS[kind].get(width)
        if format_ is None:
            raise FormatError(f"a FlexBuffers number cannot be {width} bytes wide", offset=position)
        self.within(position, width * count)
        return struct.unpack_from(f"<{count}{format_}", self.data, position)

    def unsigned(self, position: int, width: int) -> int:
        self.within(position, width)
        return int.from_bytes(self.data[position : position + width], "little")

    def within(self, position: int, size: int) -> None:
        if position < 0 or position + size > len(self.data):
            raise FormatError("a FlexBuffers value is outside the buffer", offset=max(position, 0))

    def follow(self, position: int, width: int) -> int:
        """Return the position that the offset at `position` refers to; offsets point back."""
        target = position - self.unsigned(position, width)
        if target < 0:
            raise FormatError("a FlexBuffers offset points outside the buffer", offset=position)
        return target

    def charge_elements(self, count: int, position: int) -> None:
        self.elements_left -= count
        if self.elements_left < 0:
            raise FormatError("a FlexBuffers value has more elements than bytes", offset=position)

    def charge_text(self, size: int, position: int) -> None:
        self.text_left -= size
        if self.text_left < 0:
            raise FormatError("FlexBuffers strings overlap each other", offset=position)

    def value(self, position: int, width: int, packed: int, depth: int) -> object:
        """The value whose slot of `width` bytes is at `position`."""
        kind, child_width = packed >> 2, 1 << (packed & 3)
        self.charge_elements(1, position)
        if kind == _NULL:
            self.within(position, width)
            return None
        if kind in _FORMATS:
            return self.numbers(position, width, kind, 1)[0]
        if kind == _BOOL:
            return self.boolean(position, width)
        target = self.follow(position, width)
        if kind == _KEY:
            return self.key(target)
        if kind == _STRING:
            return self.string(target, child_width)
        if kind in _INDIRECT:
            return self.numbers(target, child_width, _INDIRECT[kind], 1)[0]
        if kind == _BLOB:
            size = self.unsigned(target - child_width, child_width)
            self.within(target, size)
            self.charge_text(size, target)
            return self.data[target : target + size]
        if depth >= MAX_DEPTH:
            raise FormatError(f"a FlexBuffers value nests deeper than {MAX_DEPTH}", offset=position)
        if kind == _MAP:
            return self.map(target, child_width, depth + 1)
        if kind == _VECTOR:
            return self.vector(target, child_width, depth + 1)
        return self.typed_vector(target, child_width, kind)

    def boolean(self, position: int, width: int) -> bool:
        value = self.unsigned(position, width)
        if value > 1:
            raise FormatError(f"a FlexBuffers boolean has the value {value}", offset=position)
        return value == 1

    def key(self, target: int) -> str:
        known = self.keys.get(target)
        if known is None:
            end = self.data.find(b"\0", target, target + self.text_left + 1)
            if end < 0:
                raise FormatError("a FlexBuffers key is not terminated", offset=target)
            self.charge_text(end - target, target)
            known = self.keys[target] = self.text(target, end)
        return known

    def string(self, target: int, width: int) -> str:
        known = self.texts.get((target, width))
        if known is None:
            size = self.unsigned(target - width, width)
            self.within(target, size + 1)
            if self.data[target + size] != 0:
                raise FormatError("a FlexBuffers string is not terminated", offset=target)
            self.charge_text(size, target)
            known = self.texts[target, width] = self.text(target, target + size)
        return known

    def text(self, start: int, end: int) -> str:
        try:
            return self.data[start:end].decode()
        except UnicodeDecodeError as error:
            raise FormatError("a FlexBuffers string is not UTF-8", offset=start) from error

    def length(self, target: int, width: int) -> int:
        length = self.unsigned(target - width, width)
        if length * width > len(self.data):
            raise FormatError("a FlexBuffers vector is outside the buffer", offset=target)
        return length

    def vector(self, target: int, width: int, depth: int) -> list[object]:
        length = self.length(target, width)
        types = target + length * width
        self.within(target, length * (width + 1))
        return [
            self.value(target + index * width, width, self.data[types + index], depth)
            for index in range(length)
        ]

    def map(self, target: int, width: int, depth: int) -> dict[str, object]:
        keys = self.follow(target - 3 * width, width)
        keys_width = self.unsigned(target - 2 * width, width)
        if keys_width not in (1, 2, 4, 8):
            raise FormatError("a FlexBuffers map has keys of an invalid width", offset=target)
        length = self.length(target, width)
        if self.length(keys, keys_width) != length:
            raise FormatError(
                "a FlexBuffers map has unequal numbers of keys and values", offset=target
            )
        names = [
            self.key(self.follow(keys + index * keys_width, keys_width)) for index in range(length)
        ]
        encoded = [name.encode() for name in names]
        if any(left >= right for left, right in pairwise(encoded)):
            raise FormatError("the keys of a FlexBuffers map are not sorted", offset=target)
        return dict(zip(names, self.vector(target, width, depth), strict=True))

    def typed_vector(self, target: int, width: int, kind: int) -> list[object]:
        if _FIXED_FIRST <= kind <= _FIXED_LAST:
            extra, scalar = divmod(kind - _FIXED_FIRST, 3)
            self.charge_elements(extra + 2, target)
            return list(self.numbers(target, width, scalar + _INT, extra + 2))
        length = self.length(target, width)
        self.charge_elements(length, target)
        if kind in _SCALAR_VECTORS:
            return list(self.numbers(target, width, _SCALAR_VECTORS[kind], length))
        slots = range(target, target + length * width, width)
        if kind == _VECTOR_BOOL:
            return [self.boolean(slot, width) for slot in slots]
        if kind == _VECTOR_KEY:
            return [self.key(self.follow(slot, width)) for slot in slots]
        if kind == _VECTOR_STRING:
            # The deprecated type does not store the width of its sizes, which is one byte.
            return [self.string(self.follow(slot, width), 1) for slot in slots]
        raise FormatError(f"{kind} is not a FlexBuffers type", offset=target)
