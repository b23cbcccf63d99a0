"""The charts: Vega specifications, shared by the page of `report` and by `stats --plot`.

Each takes rows of a JSON document, and its transforms add up and sort, so that the page and the
plot draw the same numbers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from math import log2
from typing import Any

from icectl.errors import UnsupportedError
from icectl.ops.stats.result import StatsResult
from icectl.render.json import to_json
from icectl.render.text import SIZE_UNITS, escape_controls, format_time

PLOT_WIDTH = 800
_FONT = {"font": "Arial, Liberation Sans, Helvetica, sans-serif"}
"""These have the same widths: text is measured here, and drawn by whatever shows the chart."""
PLOT_THEME = {"background": "white", **_FONT, "style": {"guide-label": _FONT}, "text": _FONT}
KINDS = ("svg", "png")
LATEST = 221_845_392_000_000_000
"""Charts show later times as the year 9000: a damaged or hostile file may contain any number."""


def load_vega() -> Any:
    """The package with Vega, as JavaScript and as a renderer; `UnsupportedError` without it."""
    try:
        import vl_convert
    except ImportError:
        raise UnsupportedError(
            "drawing charts needs the package vl-convert-python, which is not installed",
            hint="run pip install 'icectl[report]'",
        ) from None
    return vl_convert


def read_charts() -> dict[str, Any]:
    """Every specification by its name, and the `themes`."""
    folder = resources.files(__package__) / "charts"
    return {
        file.name.partition(".")[0]: json.loads(file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".json")
    }


def plot_stats(result: StatsResult, kind: str) -> bytes:
    """Draw the growth over time, or without it the bytes by array."""
    charts = read_charts()
    if result.growth is None:
        language, spec = "vega", charts["arrays"]
        shown = (replace(one, path=escape_controls(one.path)) for one in result.arrays)
        spec["data"][0]["values"] = to_json(shown)
    else:
        language, spec = "vegalite", _fill_growth(charts["growth"], result)
    theme = {**charts["themes"]["light"], **PLOT_THEME}
    draw = getattr(load_vega(), f"{language}_to_{kind}")
    drawn = draw({**spec, "width": PLOT_WIDTH, "padding": 10, "config": theme})
    return drawn.encode() if isinstance(drawn, str) else drawn


def _fill_growth(spec: dict[str, Any], result: StatsResult) -> dict[str, Any]:
    power = min(len(SIZE_UNITS) - 1, int(log2(max(1, result.total_bytes)) / 10))
    values = {"divisor": 1024**power, "unitName": SIZE_UNITS[power]}
    times = {one.id: min(one.flushed_at, LATEST) for one in result.snapshots or ()}
    growth = [
        {
            "path": None if one.path is None else escape_controls(one.path),
            "new_bytes": one.new_bytes,
            "flushed_at": format_time(times[one.id]),
        }
        for one in result.growth or ()
    ]
    if growth:
        # The last commit shows its bytes only if the area goes on after it, by whole milliseconds.
        first, last = min(times.values()), max(times.values())
        end = last + ((last - first) // 40_000 * 1000 or 1_000_000)
        growth.append({**growth[0], "new_bytes": 0, "flushed_at": format_time(end)})
    area, _hovering = spec["layer"]
    return {
        **spec,
        "layer": [area],
        "params": [{**one, "value": values[one["name"]]} for one in spec["params"]],
        "datasets": {"growth": to_json(growth)},
    }
