"""Render the checks of `icectl doctor` as a table with hints."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from icectl.ops.doctor import Diagnosis, State
from icectl.render.blocks import Block, Column, Role, Table
from icectl.render.text import format_count

_ROLES: dict[State, Role] = {"ok": "good", "warning": "warning", "failed": "bad", "absent": "dim"}
_COLUMNS = (
    Column("STATE", itemgetter(0)),
    Column("CHECK", itemgetter(1), "title"),
    Column("DETAIL", itemgetter(2), wraps=True),
)


def render_diagnosis(diagnosis: Diagnosis) -> Iterator[Block]:
    rows: list[tuple[object, ...]] = []
    for check in diagnosis.checks:
        rows.append(((check.state, _ROLES[check.state]), check.name, check.detail))
        if check.hint is not None:
            rows.append((None, None, (check.hint, "dim")))
    yield Table(_COLUMNS, rows)
    failed = sum(check.state == "failed" for check in diagnosis.checks)
    warnings = sum(check.state == "warning" for check in diagnosis.checks)
    counts = ((failed, "check failed", "checks failed"), (warnings, "warning", "warnings"))
    summary = ", ".join(format_count(n, one, many) for n, one, many in counts if n)
    yield summary or "All checks passed."
