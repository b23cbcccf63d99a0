"""Tables with fields that icectl does not know."""

from __future__ import annotations

from collections import namedtuple

from icectl.format.reader import Field, Table


def newer(table: Table, *fields: Field) -> tuple[Table, type]:
    """The table as a newer writer would have it, with fields that we do not know."""
    names = [field.name for field in (*table.fields, *fields)]
    built = namedtuple(table.name, names)
    return Table(table.name, built, [*table.fields, *fields]), built
