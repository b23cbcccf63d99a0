"""Render the steps of a repair and the remaining findings."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.ops.repair import RepairResult
from icectl.render.blocks import Block, Part
from icectl.render.sizes import format_count
from icectl.render.validate import render_finding


def render_repair(result: RepairResult) -> Iterator[Block]:
    for step in result.steps:
        state: Part = ("done", "good") if step.done else ("planned", "warning")
        yield (state, "  ", (step.object, "path"), f": {step.summary}")
        for loss in step.loses:
            yield f"    loses {loss}"
    for finding in result.left:
        yield from render_finding(finding)
    if not result.steps:
        yield "Nothing here can be repaired." if result.left else "Nothing needs repair."
    if result.left:
        count = format_count(len(result.left), "finding")
        yield f"{count} left; see `icectl validate --explain {result.left[0].code}`."
