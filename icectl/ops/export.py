"""Tables as files: `DIRECTORY/TABLE/part-….FORMAT`, the same on either engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from icectl.errors import RefusedError, UnsupportedError, UsageError
from icectl.pipeline.engine import Engine, TableFiles
from icectl.pipeline.progress import Progress

if TYPE_CHECKING:
    from icectl.tables.scan import Partition, TableScan

FORMATS = ("parquet", "csv", "jsonl")


@dataclass(frozen=True, slots=True)
class ExportedTable:
    table: str
    path: str
    num_rows: int | None
    """None if the engine does not count them."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    location: str
    engine: str
    format: str
    tables: tuple[ExportedTable, ...]


def require_pyarrow() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise UnsupportedError(
            "the tables need pyarrow, which is not installed",
            hint="pip install 'icectl[spark]', or pip install pyarrow",
        )


def check_target(directory: str | Path) -> None:
    """`RefusedError` for a directory that is not empty: a table is never written into one."""
    target = Path(directory)
    try:
        occupied = target.exists() and (not target.is_dir() or any(target.iterdir()))
    except OSError as error:
        raise UsageError(f"{target} cannot be used: {error.strerror}") from None
    if occupied:
        raise RefusedError(
            f"{target} is there already", hint="choose another directory, or remove it first"
        )


def export_table(
    engine: Engine,
    scan: TableScan,
    partitions: Sequence[Partition],
    to: str,
    format_: str,
    progress: Progress,
) -> ExportedTable:
    """Write one table to a directory below `to`, which is a path or a URL."""
    if "://" in to:
        target = f"{to.rstrip('/')}/{scan.table}"
    else:
        target = str(Path(to, scan.table))
        check_target(target)
    label = f"exporting {scan.table}"
    files = TableFiles(label, partitions, scan.read, scan.schema, target, format_)
    return ExportedTable(scan.table, target, engine.write_table(files, progress))
