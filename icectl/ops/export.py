"""Tables as files: `DIRECTORY/TABLE/part-….FORMAT`, the same on either engine.

Parquet keeps the types of the schema. CSV and JSON Lines have times as RFC 3339; in CSV a list
is its JSON text and a null is empty.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icectl.errors import IcectlError, RefusedError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from icectl.tables.scan import Partition, TableScan

FORMATS = ("parquet", "csv", "jsonl")


@dataclass(frozen=True, slots=True)
class ExportedTable:
    table: str
    path: str
    num_rows: int | None
    """None where the engine does not count them."""


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
    """A table is never written into a directory that has something in it."""
    target = Path(directory)
    try:
        occupied = target.exists() and (not target.is_dir() or any(target.iterdir()))
    except OSError as error:
        raise UsageError(f"{target} cannot be used: {error.strerror}") from None
    if occupied:
        raise RefusedError(
            f"{target} is there already", hint="choose another directory, or remove it first"
        )


def export_locally(
    scan: TableScan,
    partitions: list[Partition],
    directory: Path,
    format_: str,
    advance: Callable[[int], None],
) -> ExportedTable:
    """Write the table from this process; what is unfinished does not stay."""
    from icectl.tables.scan import read_table

    rows = 0

    def counted(batches: Iterable[Any]) -> Iterator[Any]:
        nonlocal rows
        for batch in batches:
            rows += batch.num_rows
            advance(batch.num_rows)
            yield batch

    target = directory / scan.table
    check_target(target)
    unfinished = directory / f".{scan.table}.unfinished"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        file = unfinished / f"part-00000.{format_}"
        _WRITERS[format_](file, scan.schema, counted(read_table(scan, partitions)))
        if target.exists():
            target.rmdir()
        unfinished.rename(target)
    except OSError as error:
        raise IcectlError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return ExportedTable(scan.table, str(target), rows)


def _write_parquet(file: Path, schema: Any, batches: Iterator[Any]) -> None:
    from pyarrow.parquet import ParquetWriter

    # Opened here: pyarrow takes a name such as `s3:x` for a URL, and none that is not UTF-8.
    with file.open("wb") as sink, ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(file: Path, schema: Any, batches: Iterator[Any]) -> None:
    from pyarrow.csv import CSVWriter

    plain = _textual(schema, lists=True)
    with file.open("wb") as sink, CSVWriter(sink, plain) as writer:
        for batch in batches:
            writer.write_batch(_to_texts(batch, plain))


def _write_jsonl(file: Path, schema: Any, batches: Iterator[Any]) -> None:
    plain = _textual(schema, lists=False)
    with file.open("w", encoding="utf-8") as lines:
        for batch in batches:
            for row in _to_texts(batch, plain).to_pylist():
                lines.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def _textual(schema: Any, *, lists: bool) -> Any:
    """The schema with texts for times, and for lists where they must be."""
    import pyarrow as pa

    def textual(type_: Any) -> bool:
        return pa.types.is_timestamp(type_) or (lists and pa.types.is_list(type_))

    return pa.schema(
        [(field.name, pa.string() if textual(field.type) else field.type) for field in schema]
    )


def _to_texts(batch: Any, plain: Any) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    columns = []
    for column, field in zip(batch.columns, plain, strict=True):
        if column.type == field.type:
            columns.append(column)
        elif pa.types.is_timestamp(column.type):
            columns.append(compute.strftime(column, "%Y-%m-%dT%H:%M:%SZ"))
        else:
            texts = [
                None
                if value is None
                else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
                for value in column.to_pylist()
            ]
            columns.append(pa.array(texts, pa.string()))
    return pa.RecordBatch.from_arrays(columns, schema=plain)


_WRITERS: dict[str, Callable[[Path, Any, Iterator[Any]], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
}
