"""The kinds of fields in the schemas: how to place, read and write each of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from icectl.errors import FormatError
from icectl.format.reader import Field, Kind, Reader, Table
from icectl.model.ids import ObjectId

if TYPE_CHECKING:
    from icectl.format.writer import Writer


class Scalar(Kind):
    def __init__(self, code: str, default: int | bool = 0) -> None:
        self._struct = struct.Struct("<" + code)
        self.size = self.align = self._struct.size
        self.default = default

    def read(self, reader: Reader, position: int) -> Any:
        return self._struct.unpack_from(reader.data, position)[0]

    def write(self, writer: Writer, position: int, value: Any) -> None:
        self._struct.pack_into(writer.out, position, value)


class Struct(Kind):
    """Bytes of fixed size in the table; `build` converts them to a value and `split` back."""

    def __init__(
        self,
        layout: str,
        align: int,
        build: Callable[..., Any],
        split: Callable[[Any], tuple[Any, ...]],
    ) -> None:
        self._struct = struct.Struct("<" + layout)
        self.size = self._struct.size
        self.align = align
        self.build = build
        self.split = split

    def read(self, reader: Reader, position: int) -> Any:
        return self.build(*self._struct.unpack_from(reader.data, position))

    def write(self, writer: Writer, position: int, value: Any) -> None:
        self._struct.pack_into(writer.out, position, *self.split(value))

    def read_all(self, reader: Reader, start: int, count: int) -> tuple[Any, ...]:
        view = memoryview(reader.data)[start : start + count * self.size]
        return tuple(self.build(*parts) for parts in self._struct.iter_unpack(view))

    def pack_all(self, values: tuple[Any, ...]) -> bytes:
        return b"".join(self._struct.pack(*self.split(value)) for value in values)

    def plain(self, value: Any) -> Any:
        return plain_struct(value)


def object_id(id_type: type[ObjectId], size: int) -> Struct:
    return Struct(f"{size}s", 1, id_type, lambda value: (value,))


class String(Kind):
    def read(self, reader: Reader, position: int) -> str:
        return reader.read_string(position)

    def write(self, writer: Writer, position: int, value: str) -> None:
        writer.point_here(position, 4)
        writer.append_string(value)


class Bytes(Kind):
    def read(self, reader: Reader, position: int) -> bytes:
        start, count = reader.read_vector(position, 1, 1)
        return bytes(reader.data[start : start + count])

    def write(self, writer: Writer, position: int, value: bytes) -> None:
        writer.point_here(position, 4)
        writer.append_bytes(value)


class Scalars(Kind):
    def __init__(self, code: str) -> None:
        self._code = code
        self._size = struct.calcsize("<" + code)

    def read(self, reader: Reader, position: int) -> tuple[int, ...]:
        start, count = reader.read_vector(position, self._size, self._size)
        reader.spend_elements(count, start)
        return struct.unpack_from(f"<{count}{self._code}", reader.data, start)

    def write(self, writer: Writer, position: int, value: tuple[int, ...]) -> None:
        writer.point_here(position, 4)
        writer.out += struct.pack(f"<I{len(value)}{self._code}", len(value), *value)


class Structs(Kind):
    def __init__(self, element: Struct) -> None:
        self.element = element

    def read(self, reader: Reader, position: int) -> tuple[Any, ...]:
        start, count = reader.read_vector(position, self.element.size, self.element.align)
        reader.spend_elements(count, start)
        return self.element.read_all(reader, start, count)

    def write(self, writer: Writer, position: int, value: tuple[Any, ...]) -> None:
        # The elements after the length must be aligned, not the length.
        writer.point_here(position, max(4, self.element.align), shift=4)
        writer.out += struct.pack("<I", len(value))
        writer.out += self.element.pack_all(value)

    def plain(self, value: Any) -> Any:
        return None if value is None else [plain_struct(element) for element in value]


class Strings(Kind):
    def read(self, reader: Reader, position: int) -> tuple[str, ...]:
        start, count = reader.read_vector(position, 4, 4)
        reader.spend_elements(count, start)
        return tuple(reader.read_string(start + 4 * index) for index in range(count))

    def write(self, writer: Writer, position: int, value: tuple[str, ...]) -> None:
        for slot, element in zip(writer.append_slots(position, len(value)), value, strict=True):
            writer.point_here(slot, 4)
            writer.append_string(element)


class Tables(Kind):
    def __init__(self, table: Table) -> None:
        self.table = table

    def read(self, reader: Reader, position: int) -> tuple[Any, ...]:
        start, count = reader.read_vector(position, 4, 4)
        reader.spend_elements(count, start)
        table, follow, read_table = self.table, reader.follow, reader.read_table
        if reader.problems is None:
            return tuple(
                read_table(table, follow(slot)) for slot in range(start, start + 4 * count, 4)
            )
        elements = []
        for slot in range(start, start + 4 * count, 4):
            try:
                elements.append(read_table(table, follow(slot)))
            except FormatError as error:
                reader.note(error)
        return tuple(elements)

    def write(self, writer: Writer, position: int, value: tuple[Any, ...]) -> None:
        for slot, element in zip(writer.append_slots(position, len(value)), value, strict=True):
            writer.write_table(self.table, slot, element)


class TableField(Kind):
    def __init__(self, table: Table) -> None:
        self.table = table

    def read(self, reader: Reader, position: int) -> Any:
        return reader.read_table(self.table, reader.follow(position))

    def write(self, writer: Writer, position: int, value: Any) -> None:
        writer.write_table(self.table, position, value)


class Union(Kind):
    """Two slots: the type code of the member, and the offset of its table."""

    slots = 2

    def __init__(self, members: Sequence[Table], unknown: Callable[[int], Any]) -> None:
        self.members = tuple(members)
        self.unknown = unknown

    def step(
        self, offsets: tuple[int, ...], field: Field, table: Table
    ) -> tuple[int, Callable[[Reader, int], Any]] | None:
        tag_offset, value_offset = offsets
        name = f"{table.name}.{field.name}"

        def read(reader: Reader, position: int) -> Any:
            code = reader.data[position + tag_offset] if tag_offset else 0
            if (code == 0) != (value_offset == 0):
                raise FormatError(
                    f"{name} has a tag without a value or vice versa", offset=position
                )
            if code == 0:
                raise FormatError(f"{name} is missing", offset=position)
            target = reader.follow(position + value_offset)
            if code > len(self.members):
                key = (f"{name} member", code)
                reader.unknown[key] = reader.unknown.get(key, 0) + 1
                return self.unknown(code)
            member = self.members[code - 1]
            value = reader.read_table(member, target)
            return value if reader.problems is None else {"type": member.name, **value}

        return (0, read) if tag_offset or value_offset else None

    def parts(self, slot: int, value: Any) -> tuple[tuple[int, Kind, Any], ...]:
        code = 1 + [member.build for member in self.members].index(type(value))
        return ((slot, _TAG, code), (slot + 1, TableField(self.members[code - 1]), value))

    def plain(self, value: Any) -> Any:
        if value is None or isinstance(value, dict):
            return value
        return {"type": "unknown", "type_code": value.type_code}


_TAG = Scalar("B")


class Span(Kind):
    """First byte and length of a vector with too many tables or structs to read one by one."""

    default: tuple[int, int] | None = (0, 0)

    def __init__(self, size: int = 4, align: int = 4, *, optional: bool = False) -> None:
        self._element = (size, align)
        if optional:
            self.default = None

    def read(self, reader: Reader, position: int) -> tuple[int, int]:
        return reader.read_vector(position, *self._element)

    def write(self, writer: Writer, position: int, value: Callable[[Writer, int], None]) -> None:
        value(writer, position)

    def plain(self, value: Any) -> Any:
        return {"count": value[1]}


def plain_struct(value: Any) -> Any:
    if value is None or isinstance(value, ObjectId):
        return value
    return {name.rstrip("_"): getattr(value, name) for name in value.__slots__}
