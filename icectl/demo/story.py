"""The history of the demo repository: six weeks of sea surface temperature.

The story is data, so the official package and icectl's encoders write the same repository:
observations on main, a release, a reprocessing on its own branch, a bad commit that was reset, an
abandoned experiment, and a writer that crashed. The last three leave garbage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

LATITUDES, LONGITUDES = 36, 72
CHUNKS = (1, 18, 36)
DAY = 86_400_000_000
INLINE_THRESHOLD = 512
"""The largest size of an inline chunk; the default of the official package."""


@dataclass(frozen=True, slots=True)
class NewGroup:
    path: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewArray:
    """A new array, filled with `values` if there are any."""

    path: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    data_type: str
    dimension_names: tuple[str, ...]
    values: NDArray[Any] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Append:
    """Append a row along the first dimension, in which chunks have length 1."""

    path: str
    row: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replace one row."""

    path: str
    index: int
    row: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Move:
    """Move a node. A commit with a move must contain only moves."""

    source: str
    target: str


Change = NewGroup | NewArray | Append | Overwrite | Move


@dataclass(frozen=True, slots=True)
class Commit:
    message: str
    changes: tuple[Change, ...]
    branch: str = "main"
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Abandon:
    """Write chunks without committing them."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class CreateBranch:
    name: str


@dataclass(frozen=True, slots=True)
class DeleteBranch:
    name: str


@dataclass(frozen=True, slots=True)
class ResetMain:
    """Reset main to the parent of its tip."""


@dataclass(frozen=True, slots=True)
class CreateTag:
    name: str


Action = Commit | Abandon | CreateBranch | DeleteBranch | ResetMain | CreateTag


@dataclass(frozen=True, slots=True)
class Step:
    at: int
    """Microseconds since 1970-01-01 UTC."""
    action: Action


def plan_story(now: int) -> tuple[int, tuple[Step, ...]]:
    """Return the time of creation and all later steps; the last step was yesterday."""
    midnight = now // DAY * DAY

    def at(days: int, minutes: int = 0) -> int:
        return midnight - days * DAY + minutes * 60_000_000

    steps = (
        Step(at(42, 5), Commit("Create the grid", _grid())),
        *(Step(at(days, 390), _observations(at(days))) for days in (41, 38, 35)),
        Step(at(34, 600), CreateTag("release-1.0")),
        Step(at(33, 540), CreateBranch("reprocessing")),
        Step(at(33, 560), _reprocess("Calibrate with the buoys", 0.25)),
        Step(at(28, 390), _observations(at(28))),
        Step(at(26, 480), _reprocess("Mask coastal pixels", -1.5)),
        Step(at(21, 390), _observations(at(21))),
        Step(at(20, 390), _observations(at(20), "Add observations (sensor 7 drifts)", 9.0)),
        Step(at(20, 720), ResetMain()),
        Step(at(17, 540), CreateBranch("anomalies")),
        Step(at(17, 560), Commit("Try monthly anomalies", _anomalies(), "anomalies")),
        Step(at(16, 610), DeleteBranch("anomalies")),
        Step(at(14, 390), _observations(at(14))),
        Step(
            at(12, 480),
            Commit("Move sea ice into a group of its own", (Move("/ice", "/ocean/ice"),)),
        ),
        Step(at(9, 395), Abandon((Append("/ocean/temperature", _temperature(90, 0.0)),))),
        *(
            Step(at(days, 390), _observations(at(days), ice="/ocean/ice"))
            for days in (5, 4, 3, 2, 1)
        ),
    )
    return at(42), steps


def _grid() -> tuple[Change, ...]:
    latitudes = np.linspace(-87.5, 87.5, LATITUDES, dtype=np.float32)
    longitudes = np.linspace(-177.5, 177.5, LONGITUDES, dtype=np.float32)
    empty = (0, LATITUDES, LONGITUDES)
    names = ("time", "latitude", "longitude")
    return (
        NewGroup("/", {"title": "Sea surface temperature, 5 degree grid"}),
        NewGroup("/grid"),
        NewGroup("/ocean"),
        NewArray("/grid/latitude", (LATITUDES,), (LATITUDES,), "float32", ("latitude",), latitudes),
        NewArray(
            "/grid/longitude", (LONGITUDES,), (LONGITUDES,), "float32", ("longitude",), longitudes
        ),
        NewArray("/ocean/time", (0,), (1,), "int64", ("time",), None, {"units": "days"}),
        NewArray("/ocean/temperature", empty, CHUNKS, "float32", names, None, {"units": "degC"}),
        NewArray("/ice", empty, CHUNKS, "uint8", names, None, {"units": "percent"}),
    )


def _observations(
    moment: int, message: str = "Add observations", offset: float = 0.0, ice: str = "/ice"
) -> Commit:
    day = moment // DAY
    date = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date().isoformat()
    changes = (
        Append("/ocean/time", np.array(day, np.int64)),
        Append("/ocean/temperature", _temperature(day, offset)),
        Append(ice, _ice(day)),
    )
    return Commit(f"{message} of {date}", changes, metadata={"pipeline": "daily", "date": date})


def _reprocess(message: str, offset: float) -> Commit:
    rows = tuple(
        Overwrite("/ocean/temperature", index, _temperature(index, offset)) for index in (0, 1)
    )
    return Commit(message, rows, "reprocessing", {"ticket": "SST-118"})


def _anomalies() -> tuple[Change, ...]:
    shape = (4, LATITUDES, LONGITUDES)
    values = np.stack([_temperature(month, 0.5) for month in range(4)])
    names = ("month", "latitude", "longitude")
    return (NewArray("/ocean/anomaly", shape, CHUNKS, "float32", names, values),)


def _temperature(day: int, offset: float) -> NDArray[np.float32]:
    latitude = np.linspace(-1, 1, LATITUDES)[:, None] * np.pi / 2
    longitude = np.linspace(0, 2 * np.pi, LONGITUDES)[None, :]
    season = np.sin(2 * np.pi * day / 365)
    degrees = 28 * np.cos(latitude) - 2 + 3 * season * np.sin(latitude) + np.cos(3 * longitude)
    return np.asarray(degrees + offset, np.float32)


def _ice(day: int) -> NDArray[np.uint8]:
    """Never return 0, the fill value: Zarr does not write chunks with only fill values."""
    return np.where(_temperature(day, 0.0) < -1.0, 95, 1).astype(np.uint8)
