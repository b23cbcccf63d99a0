"""Write Arrow record batches as Parquet, CSV or JSON Lines into a directory.

Parquet keeps the types of the schema. CSV and JSON Lines have times as RFC 3339; in CSV a list
is its JSON text and a null is empty.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from icectl.errors import IcectlError
from icectl.pipeline.engine import TableFiles
from icectl.pipeline.progress import Progress
from icectl.pipeline.read_ahead import read_ahead

PARTS_AHEAD = 2
BATCHES_AHEAD = 4


def read_parts(
    read: Callable[[Any], Iterator[Any]],
    parts: Iterable[Any],
    count_part: Callable[[], None] = lambda: None,
) -> Iterator[Any]:
    """Every batch of a table, parts in their order; the first batches of some parts ahead."""

    def begin(part: Any) -> tuple[list[Any], Iterator[Any]]:
        batches = read(part)
        return list(islice(batches, BATCHES_AHEAD)), batches

    for _, (first, rest) in read_ahead(begin, parts, ahead=PARTS_AHEAD):
        yield from first
        yield from rest
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
    with file.open("wb") as lines:
        for batch in batches:
            lines.write(_json_lines(_to_texts(batch, _textual(schema, lists=False))))


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
            columns.append(_json_texts(column))
    return pa.RecordBatch.from_arrays(columns, schema=plain)


def _json_lines(batch: Any) -> Any:
    """The rows as objects, without a Python object for each."""
    import pyarrow as pa
    from pyarrow import compute

    parts: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        parts += [f"{',' if parts else '{'}{json.dumps(name)}:", _json_texts(column, "null")]
    lines = compute.binary_join_element_wise(*parts, "}\n", "").cast(pa.large_string())
    # Nothing is between the values of an array: they are the text of the file.
    return b"" if not len(lines) else lines.buffers()[2]


def _json_texts(column: Any, null: str | None = None) -> Any:
    """The JSON text of each value; `null`, if given, in place of a null."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_list(column.type):
        values = _json_texts(column.flatten(), "null")
        lengths = compute.fill_null(compute.list_value_length(column), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), compute.cumulative_sum(lengths)])
        lists = pa.ListArray.from_arrays(offsets, values)
        texts = compute.binary_join_element_wise("[", compute.binary_join(lists, ","), "]", "")
        texts = compute.if_else(column.is_null(), pa.scalar(None, pa.string()), texts)
    elif not pa.types.is_string(column.type):
        texts = column.cast(pa.string())
    elif compute.any(compute.match_substring_regex(column, r'[\x00-\x1f"\\]')).as_py():
        values = column.to_pylist()
        texts = pa.array(
            [None if one is None else json.dumps(one, ensure_ascii=False) for one in values]
        )
    else:
        texts = compute.binary_join_element_wise('"', column, '"', "")
    return texts if null is None else compute.fill_null(texts, null)


_WRITERS: dict[str, Callable[[Path, Any, Iterator[Any]], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
}
