"""Render the rows of `icectl sql` and the result of `icectl export`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from icectl.ops.export import ExportResult
from icectl.render.blocks import Block, Column, Table
from icectl.render.json import to_json
from icectl.render.text import format_count


def render_rows(
    columns: Sequence[Mapping[str, str]], rows: Iterable[Mapping[str, object]]
) -> Iterator[Block]:
    """Render a table with the names of the columns as titles and lists as JSON."""
    drawn = [
        Column(
            column["name"],
            itemgetter(column["name"]),
            right=column["type"] in ("bigint", "int", "double"),
            wraps=True,
        )
        for column in columns
    ]
    yield Table(drawn, ({name: _cell(value) for name, value in row.items()} for row in rows))


def _cell(value: object) -> object:
    plain = to_json(value)
    if isinstance(plain, list | dict):
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return plain


def render_export(result: ExportResult) -> Iterator[Block]:
    for table in result.tables:
        rows = "" if table.num_rows is None else f", {format_count(table.num_rows, 'row')}"
        yield f"{table.table}: {table.path}{rows}"
