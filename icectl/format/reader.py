"""A flatbuffers reader that checks everything before using it.

The flatbuffers runtime has no verifier: it silently reads at negative offsets and past the end.
This reader checks every offset, vtable, vector, string, union tag and required field, as the
specification demands: bounds, alignment, no overlap of the fields of a table, strings in UTF-8
with a terminating zero byte. It checks a vtable once and compiles it into a plan for all tables
with that vtable.

Objects may be shared, so a small file can refer to one large vector a thousand times; a budget of
bytes read limits the cost. The stored size of the file limits the number of tables, and of vector
elements that become Python objects.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icectl import limits
from icectl.errors import FormatError, LimitExceededError
from icectl.model.values import UnknownField

if TYPE_CHECKING:
    from icectl.format.writer import Writer

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    required: bool = False


class Table:
    """The schema of one table: its fields in order, a function that builds a value from them, and
    one that splits a value into fields (by default, the attributes with the fields' names)."""

    __slots__ = ("build", "fields", "name", "plans", "slots", "take")

    def __init__(
        self,
        name: str,
        build: Callable[..., Any],
        fields: Sequence[Field],
        take: Callable[[Any], Sequence[Any]] | None = None,
    ) -> None:
        self.name = name
        self.build = build
        self.plans: dict[bytes, Plan] = {}
        self.take = take or self._attributes
        self.fields = tuple(fields)
        self.slots = sum(field.kind.slots for field in fields)

    def _attributes(self, value: Any) -> Sequence[Any]:
        return [
            getattr(value, "from_" if field.name == "from" else field.name) for field in self.fields
        ]


class Kind:
    """A kind of field: its size and alignment in a table, and how to read and write it."""

    slots = 1
    size = 4
    align = 4
    default: Any = None

    def read(self, reader: Reader, position: int) -> Any:
        raise NotImplementedError

    def write(self, writer: Writer, position: int, value: Any) -> None:
        raise NotImplementedError

    def step(
        self, offsets: tuple[int, ...], field: Field, table: Table
    ) -> tuple[int, Callable[[Reader, int], Any]] | None:
        """Return the offset of the field for these vtable entries, and how to read it."""
        return (offsets[0], self.read) if offsets[0] else None

    def parts(self, slot: int, value: Any) -> tuple[tuple[int, Kind, Any], ...]:
        """Return the slots of the table that the value fills, and the content of each."""
        return ((slot, self, value),)

    def plain(self, value: Any) -> Any:
        """Return the value as JSON types."""
        return value


@dataclass(frozen=True, slots=True)
class Plan:
    """The positions of the fields in tables with the same vtable."""

    table_size: int
    phase: int | None
    """The position of the table modulo 8 that aligns its 8-byte fields."""
    defaults: tuple[Any, ...]
    steps: tuple[tuple[int, int, Callable[[Reader, int], Any]], ...]
    unknown: tuple[int, ...]
    places: tuple[int, ...]
    """The offset of each field; 0 if it is absent."""
    slots: tuple[int, ...]
    """The offset of each slot of the vtable; a union has two."""


MAX_PLANS = 512
"""Plans to cache for each table; real writers need a handful."""


class Reader:
    """Reads tables of one payload.

    With `problems`, the reader builds plain dictionaries, collects problems in that list and
    continues with the rest of the file; without it, the reader raises the first problem.
    """

    __slots__ = (
        *("_plans", "budget", "data", "elements", "problems", "size", "tables", "unknown"),
    )

    def __init__(
        self,
        data: bytes | bytearray,
        problems: list[FormatError] | None = None,
        *,
        file_size: int | None = None,
    ) -> None:
        self.data = data
        self.size = len(data)
        self.budget = limits.READS_PER_BYTE * self.size + 65536
        stored = self.size if file_size is None else file_size
        self.tables = limits.TABLES_ALWAYS + limits.TABLES_PER_BYTE * stored
        self.elements = limits.ELEMENTS_ALWAYS + limits.ELEMENTS_PER_BYTE * stored
        """The number of bytes that may still be read."""
        self.problems = problems
        self.unknown: dict[tuple[str, int], int] = {}
        self._plans: dict[tuple[int, int], Plan] = {}

    @property
    def unknown_fields(self) -> tuple[UnknownField, ...]:
        return tuple(
            UnknownField(table, slot, count)
            for (table, slot), count in sorted(self.unknown.items())
        )

    def read_root(self, table: Table) -> Any:
        if self.size < 8:
            raise FormatError("the payload is too short for a flatbuffer", offset=0)
        return self.read_table(table, self.follow(0))

    def spend(self, amount: int, position: int) -> None:
        self.budget -= amount
        if self.budget < 0:
            raise LimitExceededError(
                "READS_PER_BYTE", "the file refers to shared data too often", offset=position
            )

    def spend_tables(self, count: int, position: int) -> None:
        """Charge tables that become Python objects, or rows of a snapshot's columns."""
        self.tables -= count
        if self.tables < 0:
            raise LimitExceededError(
                "TABLES_PER_BYTE", "the file has too many tables for its size", offset=position
            )

    def spend_elements(self, count: int, position: int) -> None:
        """Charge elements that become Python objects."""
        self.elements -= count
        if self.elements < 0:
            raise LimitExceededError(
                "ELEMENTS_PER_BYTE", "the file has too many elements for its size", offset=position
            )

    def note(self, problem: FormatError) -> None:
        """Collect the problem; raise it if it is an exceeded limit."""
        assert self.problems is not None
        if isinstance(problem, LimitExceededError):
            raise problem
        limits.require("PROBLEMS", len(self.problems) + 1, limits.PROBLEMS, "the problem count is")
        self.problems.append(problem)

    def follow(self, position: int) -> int:
        """Return the target of the offset at `position`; at least four bytes follow it."""
        offset: int = _U32.unpack_from(self.data, position)[0]
        target = position + offset
        if offset < 4 or target > self.size - 4:
            raise FormatError(f"an offset points to byte {target}, out of bounds", offset=position)
        if target & 3:
            raise FormatError(f"an offset points to byte {target}, not aligned", offset=position)
        return target

    def read_vector(self, position: int, size: int, align: int) -> tuple[int, int]:
        """Return first byte and length of the vector whose offset is at `position`."""
        target = self.follow(position)
        count: int = _U32.unpack_from(self.data, target)[0]
        start = target + 4
        if start + count * size > self.size:
            raise FormatError(f"a vector of {count} elements is out of bounds", offset=target)
        if count and start % align:
            raise FormatError("the elements of a vector are not aligned", offset=target)
        self.spend(count * size + 4, target)
        return start, count

    def read_string(self, position: int) -> str:
        start, count = self.read_vector(position, 1, 1)
        end = start + count
        if end >= self.size or self.data[end]:
            raise FormatError("a string does not end in a zero byte", offset=start)
        try:
            return self.data[start:end].decode()
        except UnicodeDecodeError as error:
            raise FormatError("a string is not valid UTF-8", offset=start + error.start) from None

    def read_table(self, table: Table, position: int) -> Any:
        """Return the table at `position`, which `follow` has checked."""
        plan = self.plan(table, position - _I32.unpack_from(self.data, position)[0], position)
        if position + plan.table_size > self.size:
            raise FormatError(f"a {table.name} does not fit into the file", offset=position)
        if plan.phase is not None and position & 7 != plan.phase:
            raise FormatError(f"a field of {table.name} is not aligned", offset=position)
        self.spend(plan.table_size, position)
        self.spend_tables(1, position)
        if plan.unknown:
            self.note_unknown(table, plan, 1)
        values = list(plan.defaults)
        if self.problems is None:
            for index, offset, read in plan.steps:
                values[index] = read(self, position + offset)
            return table.build(*values)
        for index, offset, read in plan.steps:
            try:
                values[index] = read(self, position + offset)
            except FormatError as error:
                self.note(_located(error, table.name, table.fields[index].name))
        return {
            field.name: field.kind.plain(value)
            for field, value in zip(table.fields, values, strict=True)
        }

    def places(self, table: Table, position: int) -> Sequence[int]:
        """Return the checked offset of each field of the table at `position`; 0 if absent."""
        plan = self.plan(table, position - _I32.unpack_from(self.data, position)[0], position)
        if position + plan.table_size > self.size:
            raise FormatError(f"a {table.name} does not fit into the file", offset=position)
        if plan.phase is not None and position & 7 != plan.phase:
            raise FormatError(f"a field of {table.name} is not aligned", offset=position)
        self.spend(plan.table_size, position)
        return plan.places

    def note_unknown(self, table: Table, plan: Plan, count: int) -> None:
        for slot in plan.unknown:
            self.unknown[table.name, slot] = self.unknown.get((table.name, slot), 0) + count

    def plan(self, table: Table, vtable: int, position: int) -> Plan:
        """Return the plan of a vtable; `position` is that of a table which uses it."""
        plan = self._plans.get((id(table), vtable))
        if plan is None:
            count = len(self._plans) + 1
            limits.require("VTABLES", count, limits.VTABLES, "the vtable count is", offset=position)
            plan = self._recall(table, vtable, position)
            self._plans[id(table), vtable] = plan
        return plan

    def _recall(self, table: Table, vtable: int, position: int) -> Plan:
        """Return a cached plan if there is one: files of one writer have equal vtables."""
        if self.problems is not None or not 0 <= vtable <= self.size - 4:
            return self._compile(table, vtable, position)
        size = _U16.unpack_from(self.data, vtable)[0]
        words = bytes(self.data[vtable : vtable + size])
        plan = table.plans.get(words) if len(words) == size and not vtable & 1 else None
        if plan is None:
            plan = self._compile(table, vtable, position)
            if len(table.plans) < MAX_PLANS:
                table.plans[words] = plan
        return plan

    def _compile(self, table: Table, vtable: int, position: int) -> Plan:
        if not 0 <= vtable <= self.size - 4 or vtable & 1:
            raise FormatError(f"the vtable of {table.name} is out of bounds", offset=position)
        vtable_size = _U16.unpack_from(self.data, vtable)[0]
        table_size = _U16.unpack_from(self.data, vtable + 2)[0]
        if vtable_size < 4 or vtable_size & 1 or vtable + vtable_size > self.size:
            raise FormatError(f"the vtable of {table.name} has an invalid size", offset=vtable)
        if table_size < 4:
            raise FormatError(f"the size of {table.name} is invalid", offset=vtable)
        count = (vtable_size - 4) // 2
        limits.require(
            "VTABLE_FIELDS", count, limits.VTABLE_FIELDS, f"the number of fields of {table.name} is"
        )
        offsets = struct.unpack_from(f"<{count}H", self.data, vtable + 4)
        offsets += (0,) * (table.slots - len(offsets))
        defaults: list[Any] = []
        steps: list[tuple[int, int, Callable[[Reader, int], Any]]] = []
        taken: list[tuple[int, int]] = []
        phases: set[int] = set()
        places = [0] * len(table.fields)
        slot = 0
        for index, field in enumerate(table.fields):
            kind = field.kind
            for part, offset in enumerate(offsets[slot : slot + kind.slots]):
                if not offset:
                    continue
                size, align = (1, 1) if part < kind.slots - 1 else (kind.size, kind.align)
                if offset < 4 or offset + size > table_size:
                    raise FormatError(
                        f"the vtable puts {table.name}.{field.name} outside the table",
                        offset=vtable + 4 + 2 * (slot + part),
                    )
                if align == 8:
                    phases.add(-offset & 7)
                elif offset % align:
                    raise FormatError(
                        f"{table.name}.{field.name} is not aligned",
                        offset=vtable + 4 + 2 * (slot + part),
                    )
                taken.append((offset, offset + size))
            defaults.append(kind.default)
            step = kind.step(offsets[slot : slot + kind.slots], field, table)
            if step:
                steps.append((index, *step))
                places[index] = step[0]
            elif field.required:
                problem = FormatError(f"{table.name}.{field.name} is missing", offset=vtable)
                if self.problems is None:
                    raise problem
                self.note(problem)
            slot += kind.slots
        taken.sort()
        for (_, end), (start, _) in itertools.pairwise(taken):
            if start < end:
                raise FormatError(f"fields of {table.name} overlap", offset=vtable)
        if len(phases) > 1:
            raise FormatError(f"a field of {table.name} is not aligned", offset=vtable)
        return Plan(
            table_size,
            phases.pop() if phases else None,
            tuple(defaults),
            tuple(steps),
            tuple(
                number
                for number, offset in enumerate(offsets[table.slots :], table.slots)
                if offset
            ),
            tuple(places),
            offsets[: table.slots],
        )


def _located(error: FormatError, table: str, field: str) -> FormatError:
    if not isinstance(error, LimitExceededError) and not error.reason.startswith(table):
        return FormatError(f"{table}.{field}: {error.reason}", offset=error.offset)
    return error
