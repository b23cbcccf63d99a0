"""Arrow arrays from numpy columns, without a Python object for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icectl.errors import FormatError
from icectl.model.ids import ALPHABET
from icectl.model.manifest import Spans
from icectl.tables.schemas import INTEGER, INTEGERS, TEXT, TIME

LARGEST = np.uint64(2**63 - 1)
ROWS_IN_BATCH = 65536
_LETTERS = np.frombuffer(ALPHABET.encode(), np.uint8)


def batches_of(
    schema: Any, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> Iterator[Any]:
    """Batches from Python rows, for tables that stay small."""
    chosen = pa.schema([schema.field(name) for name in columns])
    waiting: list[Mapping[str, Any]] = []
    for row in rows:
        waiting.append({name: _storable(value) for name, value in row.items()})
        if len(waiting) == ROWS_IN_BATCH:
            yield pa.RecordBatch.from_pylist(waiting, schema=chosen)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=chosen)


def joined(batches: Iterable[Any]) -> Iterator[Any]:
    """The same rows in batches of about `ROWS_IN_BATCH`."""
    waiting: list[Any] = []
    rows = 0
    for batch in batches:
        if rows + batch.num_rows > ROWS_IN_BATCH and waiting:
            yield _join(waiting)
            waiting, rows = [], 0
        waiting.append(batch)
        rows += batch.num_rows
    if waiting:
        yield _join(waiting)


def _join(batches: list[Any]) -> Any:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def texts(values: Sequence[str]) -> Any:
    try:
        return pa.array(values, TEXT)
    except UnicodeEncodeError:
        return pa.array([_storable(value) for value in values], TEXT)


def _storable(value: Any) -> Any:
    """A text without what Arrow cannot store: a name on local disk may be no UTF-8."""
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="backslashreplace").decode()
    return value


def id_texts(ids: NDArray[np.uint8]) -> Any:
    """The base32 texts of (n, size) bytes."""
    count, size = ids.shape
    length = -(-size * 8 // 5)
    wide = np.zeros((size + 1, count), np.uint16)
    wide[:size] = ids.T
    letters = np.empty((count, length), np.uint8)
    for place in range(length):
        byte, bit = divmod(place * 5, 8)
        letters[:, place] = _LETTERS[(wide[byte] << 8 | wide[byte + 1]) >> (11 - bit) & 31]
    offsets = np.arange(count + 1, dtype=np.int32) * length
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))


def spans_binary(spans: Spans) -> Any:
    """The bytes of each row, as an Arrow array of binary values."""
    lengths = spans.length.astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(offsets[-1]) + np.repeat(spans.start - offsets[:-1], lengths)
    values = np.frombuffer(spans.data, np.uint8)[places]
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    )


def spans_texts(spans: Spans, what: str) -> Any:
    try:
        return spans_binary(spans).cast(TEXT)
    except pa.ArrowInvalid:
        raise FormatError(f"{what} is not UTF-8") from None


def masked(array: Any, present: NDArray[np.bool_]) -> Any:
    """The array with nulls where nothing is present."""
    if present.all():
        return array
    rows = np.where(present, np.arange(len(present)), -1)
    return array.take(pa.array(rows, mask=~present))


def coordinate_lists(coordinates: NDArray[np.uint32]) -> Any:
    count, dimensions = coordinates.shape
    offsets = np.arange(count + 1, dtype=np.int32) * dimensions
    values = pa.array(np.ascontiguousarray(coordinates).reshape(-1).astype(np.int64))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=INTEGERS)


def integers(column: NDArray[np.uint64]) -> Any:
    return pa.array(np.minimum(column, LARGEST).astype(np.int64), INTEGER)


def times_of_seconds(seconds: NDArray[np.uint32]) -> Any:
    """Times; null where it is 0."""
    micros = seconds.astype(np.int64) * 1_000_000
    return pa.array(micros, INTEGER, mask=seconds == 0).cast(TIME)


def repeated(value: str | None, count: int) -> Any:
    return pa.nulls(count, TEXT) if value is None else pa.repeat(pa.scalar(value, TEXT), count)
