"""Metrics as OpenMetrics text, which the textfile collector of node_exporter accepts as well.

`REPOSITORY` and `MAINTENANCE` name all metrics; names and labels change only by addition. Every
metric has the label `repository`. No sample has a timestamp, which that collector refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from icectl.model.repo import Availability
from icectl.ops.metrics import MaintenanceMetrics, RepositoryMetrics

Values = Iterable[tuple[tuple[str, ...], float | None]]
"""The values of the labels after `repository`, and the number; None is left out."""
Measured = tuple[str, RepositoryMetrics | None, MaintenanceMetrics | None]
"""The label `repository` and what is known about that repository."""
UNITS = ("seconds", "bytes")


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    help: str
    read: str | Callable[[Any], Values]
    """The attribute with the number, or a function for a metric with labels."""
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        return next((unit for unit in UNITS if self.name.endswith(f"_{unit}")), "")

    def values(self, measured: object) -> Values:
        if callable(self.read):
            return self.read(measured)
        for attribute in self.read.split("."):
            measured = None if measured is None else getattr(measured, attribute)
        return (((), cast("float | None", measured)),)

    def convert(self, number: float) -> float:
        """Times are microseconds in icectl, and seconds in metrics."""
        return number / 1e6 if self.name.endswith("_timestamp_seconds") else number


def _availability(metrics: RepositoryMetrics) -> Values:
    names: dict[int, str] = {one: one.name.lower() for one in Availability}
    names.setdefault(metrics.availability, "unknown")
    return (((name,), one == metrics.availability) for one, name in names.items())


def _chunk_bytes(metrics: RepositoryMetrics) -> Values:
    names = ("native", "virtual", "inlined") if metrics.deep is not None else ()
    return (((name,), getattr(metrics.deep, f"{name}_bytes")) for name in names)


def _by_kind(what: str, number: str) -> Callable[[RepositoryMetrics], Values]:
    """Read this number of each kind of objects, or of garbage."""

    def read(metrics: RepositoryMetrics) -> Values:
        kinds = getattr(metrics.deep, what, None) or ()
        return (((one.kind,), getattr(one, number)) for one in kinds)

    return read


REPOSITORY = (
    Metric(
        "icectl_repository_spec_version", "Version of the Icechunk specification.", "spec_version"
    ),
    Metric(
        "icectl_repository_availability",
        "1 for the current availability of the repository, 0 for the others.",
        _availability,
        ("availability",),
    ),
    Metric(
        "icectl_branch_newest_commit_timestamp_seconds",
        "Time of the newest commit of the branch.",
        lambda of: (((one.name,), one.flushed_at) for one in of.branches),
        ("branch",),
    ),
    Metric("icectl_branches", "Branches.", lambda of: [((), len(of.branches))]),
    Metric("icectl_tags", "Tags.", "num_tags"),
    Metric(
        "icectl_deleted_tags",
        "Names of deleted tags, which cannot be used again.",
        "num_deleted_tags",
    ),
    Metric("icectl_snapshots", "Snapshots in the repo file.", "num_snapshots"),
    Metric(
        "icectl_operations",
        "Operations in the ops log of the repo file; older ones are in its backups.",
        "num_operations",
    ),
    Metric(
        "icectl_last_operation_timestamp_seconds",
        "Time of the newest operation.",
        "last_operation_at",
    ),
    Metric(
        "icectl_last_gc_timestamp_seconds",
        "Time of the newest garbage collection that the ops log of the repo file records.",
        "last_gc_at",
    ),
    Metric(
        "icectl_last_expiration_timestamp_seconds",
        "Time of the newest expiration that the ops log of the repo file records.",
        "last_expiration_at",
    ),
    Metric("icectl_repo_file_size_bytes", "Size of the repo file.", "repo_size_bytes"),
    Metric(
        "icectl_backups", "Backups of the repo file in overwritten/.", "overwritten.num_backups"
    ),
    Metric(
        "icectl_backups_size_bytes",
        "Size of the backups of the repo file.",
        "overwritten.size_bytes",
    ),
    Metric(
        "icectl_chunk_size_bytes",
        "Size of the chunks reachable from a branch or tag, as in icectl stats.",
        _chunk_bytes,
        ("kind",),
    ),
    Metric(
        "icectl_chunks",
        "Chunks reachable from a branch or tag, as in icectl stats.",
        "deep.num_chunks",
    ),
    Metric("icectl_objects", "Objects in the storage.", _by_kind("objects", "count"), ("kind",)),
    Metric(
        "icectl_objects_size_bytes",
        "Size of the objects in the storage.",
        _by_kind("objects", "bytes"),
        ("kind",),
    ),
    Metric(
        "icectl_garbage_objects",
        "Objects that gc would delete.",
        _by_kind("garbage", "count"),
        ("kind",),
    ),
    Metric(
        "icectl_garbage_size_bytes",
        "Size of the objects that gc would delete.",
        _by_kind("garbage", "bytes"),
        ("kind",),
    ),
    Metric(
        "icectl_garbage_cutoff_timestamp_seconds",
        "Only objects created before this time count as garbage.",
        "deep.garbage_cutoff_at",
    ),
)

MAINTENANCE = (
    Metric(
        "icectl_maintenance_exit_code", "Exit code of the last run of icectl maintain.", "exit_code"
    ),
    Metric(
        "icectl_maintenance_last_run_timestamp_seconds",
        "Time of the last run of icectl maintain.",
        "last_run_at",
    ),
    Metric(
        "icectl_maintenance_duration_seconds",
        "Duration of each step of the last run.",
        lambda of: (((step,), seconds) for step, seconds in of.duration_seconds.items()),
        ("step",),
    ),
    Metric(
        "icectl_maintenance_deleted_objects",
        "Objects that the last run deleted.",
        lambda of: (((kind,), count) for kind, count in (of.deleted_objects or {}).items()),
        ("kind",),
    ),
    Metric(
        "icectl_maintenance_deleted_bytes",
        "Size of the objects that the last run deleted.",
        "deleted_bytes",
    ),
    Metric(
        "icectl_maintenance_failed_objects",
        "Objects that the last run could not delete.",
        "failed_objects",
    ),
    Metric(
        "icectl_maintenance_findings",
        "Findings of validate in the last run.",
        lambda of: (((one.code, one.severity), one.count) for one in of.findings),
        ("code", "severity"),
    ),
)


class _Measurements(Collector):
    def __init__(self, measured: Sequence[Measured], escape: Callable[[str], str]) -> None:
        self._measured = measured
        self._escape = escape

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for metrics, position in ((REPOSITORY, 1), (MAINTENANCE, 2)):
            for metric in metrics:
                labels = ("repository", *metric.labels)
                family = GaugeMetricFamily(
                    metric.name, metric.help, labels=labels, unit=metric.unit
                )
                for one in self._measured:
                    for values, number in metric.values(one[position]) if one[position] else ():
                        if number is not None:
                            texts = map(self._text, (one[0], *values))
                            family.add_metric([*texts], metric.convert(number))
                if family.samples:
                    yield family

    def _text(self, value: str) -> str:
        # The name of a directory need not be UTF-8.
        return self._escape(value.encode(errors="backslashreplace").decode())


def render_metrics(
    measured: Sequence[Measured], escape: Callable[[str], str] = lambda text: text
) -> str:
    """The text for all repositories; `escape` is applied to the values of labels."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Measurements(measured, escape))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()
