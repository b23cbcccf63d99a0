"""The steps of a repair, and the findings that they leave."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.ops.repair import RepairResult
from icectl.render.sizes import format_count
from icectl.render.style import PLAIN, Style
from icectl.render.text import escape_controls
from icectl.render.validate import render_finding


def render_repair(result: RepairResult, style: Style = PLAIN) -> Iterator[str]:
    for step in result.steps:
        state = style.paint("done", "good") if step.done else style.paint("planned", "warning")
        yield f"{state}  {style.paint(escape_controls(step.object), 'path')}: {step.summary}"
        for loss in step.loses:
            yield f"    loses {escape_controls(loss)}"
    for finding in result.left:
        yield from render_finding(finding, style)
    if not result.steps:
        yield "Nothing here can be repaired." if result.left else "Nothing needs repair."
    if result.left:
        yield f"{format_count(len(result.left), 'finding')} left; see `icectl validate --explain`."
