"""Write Arrow record batches as Parquet, CSV or JSON Lines into a directory.

Parquet keeps the types of the schema. CSV and JSON Lines have times as RFC 3339; in CSV a list
is its JSON text and a null is empty.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from icectl.errors import IcectlError
from icectl.pipeline.engine import TableFiles
from icectl.pipeline.progress import Progress
from icectl.pipeline.read_ahead import read_ahead

PARTS_AHEAD = 2


def read_parts(
    read: Callable[[Any], Iterator[Any]],
    parts: Iterable[Any],
    count_part: Callable[[], None] = lambda: None,
) -> Iterator[Any]:
    """Every batch of a table, parts in their order, some of them ahead."""
    for _, batches in read_ahead(lambda part: list(read(part)), parts, ahead=PARTS_AHEAD):
        yield from batches
        count_part()


def write_directory(files: TableFiles, progress: Progress) -> int:
    """Write one file and return its number of rows; an unfinished directory is removed."""
    target = Path(files.target)
    unfinished = target.with_name(f".{target.name}.unfinished")
    rows = 0
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        file = unfinished / f"part-00000.{files.format}"
        with progress.phase(files.label, len(files.parts), "parts") as counter:

            def counted() -> Iterator[Any]:
                nonlocal rows
                for batch in read_parts(files.read, files.parts, counter.advance):
                    rows += batch.num_rows
                    yield batch

            _WRITERS[files.format](file, files.schema, counted())
        if target.exists():
            target.rmdir()
        unfinished.rename(target)
    except OSError as error:
        raise IcectlError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return rows


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
