"""The checks of `icectl doctor` as a table with what to do below."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.ops.doctor import Diagnosis, State
from icectl.render.sizes import format_count
from icectl.render.style import Role, Style
from icectl.render.text import escape_controls

_ROLES: dict[State, Role] = {"ok": "good", "warning": "warning", "failed": "bad", "absent": "dim"}


def render_diagnosis(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    width = max(len(check.name) for check in diagnosis.checks)
    for check in diagnosis.checks:
        state = style.paint(f"{check.state:<7}", _ROLES[check.state])
        yield f"{state}  {check.name:<{width}}  {escape_controls(check.detail)}"
        if check.hint is not None:
            yield " " * (width + 11) + style.paint(escape_controls(check.hint), "dim")
    failed = sum(check.state == "failed" for check in diagnosis.checks)
    warnings = sum(check.state == "warning" for check in diagnosis.checks)
    counts = ((failed, "check failed", "checks failed"), (warnings, "warning", "warnings"))
    told = ", ".join(format_count(n, one, many) for n, one, many in counts if n)
    yield told or "Everything that was checked is in order."
