"""A flatbuffers writer that writes front to back, with the same schemas as the reader.

A table precedes everything that it refers to, because offsets only point forward. Vtables are
shared. Scalars with their default value and fields that are None are omitted, as usual.
"""

from __future__ import annotations

import struct
from typing import Any

from icectl.errors import UnsupportedError
from icectl.format.envelope import IDENTIFIER
from icectl.format.reader import Kind, Table
from icectl.limits import PAYLOAD_BYTES
from icectl.model.values import UnknownField

_U32 = struct.Struct("<I")


def refuse_unknown(unknown_fields: tuple[UnknownField, ...], kind: str) -> None:
    """Raise an error if there are unknown fields, which can be neither copied nor dropped."""
    if unknown_fields:
        names = ", ".join(f"{field.table} field {field.slot}" for field in unknown_fields)
        raise UnsupportedError(
            f"the {kind} contains fields of a newer format version ({names}), which a change"
            " would lose",
            hint="upgrade icectl to change this repository",
        )


class Writer:
    __slots__ = ("_vtables", "out")

    def __init__(self) -> None:
        self.out = bytearray(4) + IDENTIFIER
        self._vtables: dict[bytes, int] = {}

    def write_root(self, table: Table, value: Any) -> bytes:
        self.write_table(table, 0, value)
        self.align(8)
        if len(self.out) > PAYLOAD_BYTES:
            raise UnsupportedError(f"a {table.name} of {len(self.out)} bytes is too large")
        return bytes(self.out)

    def align(self, alignment: int, shift: int = 0) -> None:
        """Append zero bytes until the byte `shift` after the end is aligned."""
        self.out += bytes(-(len(self.out) + shift) % alignment)

    def point_here(self, position: int, alignment: int, shift: int = 0) -> None:
        """Align the end, and make the offset at `position` point to it."""
        self.align(alignment, shift)
        _U32.pack_into(self.out, position, len(self.out) - position)

    def append_bytes(self, data: bytes) -> None:
        self.out += _U32.pack(len(data))
        self.out += data

    def append_string(self, text: str) -> None:
        self.append_bytes(text.encode())
        self.out.append(0)

    def append_slots(self, position: int, count: int) -> range:
        """Append a vector of offsets for `position`; return the positions of its elements."""
        self.point_here(position, 4)
        start = len(self.out) + 4
        self.out += _U32.pack(count) + bytes(4 * count)
        return range(start, start + 4 * count, 4)

    def write_table(self, table: Table, position: int, value: Any) -> None:
        """Write the table for the offset at `position`, and everything it refers to."""
        parts: list[tuple[int, Kind, Any]] = []
        slot = 0
        for field, part in zip(table.fields, table.take(value), strict=True):
            kind = field.kind
            if part is None and field.required:
                raise ValueError(f"{table.name}.{field.name} is required")
            if part is not None and part is not kind.default and part != kind.default:
                parts.extend(kind.parts(slot, part))
            slot += kind.slots
        # After the four bytes that refer to the vtable, wide fields come first: this avoids gaps.
        parts.sort(key=lambda entry: -entry[1].align)
        vtable = [0] * (max((entry[0] for entry in parts), default=-1) + 1)
        offset, placed = 4, []
        for part_slot, kind, part in parts:
            offset += -offset % min(kind.align, 4)
            vtable[part_slot] = offset
            placed.append((offset, kind, part))
            offset += kind.size
        wide = bool(parts) and parts[0][1].align == 8
        packed = struct.pack(f"<{len(vtable) + 2}H", 2 * len(vtable) + 4, offset, *vtable)
        known = self._vtables.get(packed)
        if known is None:
            self.align(2)
            known = self._vtables[packed] = len(self.out)
            self.out += packed
        self.point_here(position, 8 if wide else 4, shift=4 if wide else 0)
        start = len(self.out)
        self.out += struct.pack("<i", start - known) + bytes(offset - 4)
        for offset, kind, part in placed:
            kind.write(self, start + offset, part)
