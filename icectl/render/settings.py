"""Render status, configuration, metadata and feature flags."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from icectl.ops.settings import FeatureFlag, NamedValue, StatusReport
from icectl.render.blocks import Block, Column, Role, Table
from icectl.render.json import to_json
from icectl.render.operations import format_availability
from icectl.render.text import escape_controls, format_time_short


def render_status(report: StatusReport) -> Iterator[Block]:
    name = format_availability(report.availability).replace("_", "-")
    role: Role = "good" if report.availability == 0 else "warning"
    since = "" if report.set_at is None else f", since {format_time_short(report.set_at)}"
    yield ((name, role), since)
    if report.reason is not None:
        yield f"reason: {report.reason}"
    yield f"{report.location}: {report.generation}, spec {report.spec_version}"


def render_mapping(values: Mapping[str, object]) -> Iterator[Block]:
    """Yield `name: value` lines with dotted names for nested values, and values as JSON."""
    for name, value in _flatten(values, ""):
        yield ((name, "title"), f": {format_value(value)}")


def render_named_value(value: NamedValue) -> Iterator[Block]:
    """Yield only the value, for use in a shell: text unchanged, other values as JSON."""
    yield (value.value if isinstance(value.value, str) else format_value(value.value))


def render_flags(flags: Iterable[FeatureFlag]) -> Iterator[Block]:
    columns = (
        Column("FLAG", lambda flag: flag.name or "(unknown)", "title"),
        Column("ID", lambda flag: flag.id, right=True),
        Column("STATE", lambda flag: "on" if flag.enabled else "off"),
        Column("SET", lambda flag: "default" if flag.setting is None else "here"),
    )
    yield Table(columns, flags)


def format_value(value: object) -> str:
    return escape_controls(json.dumps(to_json(value), ensure_ascii=False))


def _flatten(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value
