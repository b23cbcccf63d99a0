"""Rows of any columns: the result of `icectl sql`, and what `icectl export` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from icectl.ops.tables.export import ExportResult
from icectl.render.json import to_json
from icectl.render.sizes import format_count
from icectl.render.style import Style
from icectl.render.tables import Column, render_table
from icectl.render.text import escape_controls


def render_rows(
    columns: Sequence[Mapping[str, str]], rows: Iterable[Mapping[str, object]], style: Style
) -> Iterator[str]:
    """A table with the columns' own names; lists as JSON."""
    drawn = [
        Column(column["name"], right=column["type"] in ("bigint", "int", "double"), shrink=True)
        for column in columns
    ]
    values = ([_cell(row[column["name"]]) for column in columns] for row in rows)
    return render_table(drawn, values, style)


def _cell(value: object) -> object:
    plain = to_json(value)
    if isinstance(plain, list | dict):
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return plain


def render_export(result: ExportResult, _style: Style) -> Iterator[str]:
    for table in result.tables:
        rows = "" if table.num_rows is None else f", {format_count(table.num_rows, 'row')}"
        yield f"{table.table}: {escape_controls(table.path)}{rows}"
