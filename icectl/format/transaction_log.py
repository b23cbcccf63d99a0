"""Transaction logs of spec versions 1 and 2; chunk coordinates are columns."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from icectl import limits
from icectl.errors import FormatError
from icectl.format.envelope import (
    FileType,
    decode_flatbuffers_envelope,
    decode_header,
    decompress,
    decompress_partial,
    encode_envelope,
)
from icectl.format.reader import Reader
from icectl.format.schema import (
    CHUNK_INDICES,
    TRANSACTION_LOG,
    RawArrayUpdatedChunks,
    RawTransactionLog,
)
from icectl.format.writer import Writer, refuse_unknown
from icectl.model.ids import SnapshotId
from icectl.model.snapshot import path_sort_key
from icectl.model.transaction_log import ArrayUpdatedChunks, TransactionLog

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW_CHUNKS = 8


def decode_transaction_log(data: bytes) -> TransactionLog:
    envelope = decode_flatbuffers_envelope(data, FileType.TRANSACTION_LOG)
    assert envelope.header is not None
    reader = Reader(envelope.payload, file_size=envelope.file_size)
    raw: RawTransactionLog = reader.read_root(TRANSACTION_LOG)
    updated_chunks = _decode_updated_chunks(reader, raw.updated_chunks)
    return TransactionLog(
        envelope.header.spec_version,
        *raw._replace(updated_chunks=updated_chunks),
        unknown_fields=reader.unknown_fields,
    )


def decode_transaction_log_id(start: bytes, *, is_whole: bool = False) -> SnapshotId | None:
    """Return the id stored in a file, from its first bytes; None if they do not include it.

    The bytes after the id are not checked.
    """
    found = decode_header(start)
    if found is None:
        raise FormatError("not an Icechunk metadata file", offset=0)
    header, size = found
    if header.file_type != FileType.TRANSACTION_LOG:
        raise FormatError("the header does not say transaction log", offset=size - 2)
    payload: bytes | bytearray = start[size:]
    if header.compression:
        payload = decompress(start, size) if is_whole else decompress_partial(start, size)[0]
    reader = Reader(payload)
    try:
        position = reader.follow(0)
        place = reader.places(TRANSACTION_LOG, position)[0]
    except (FormatError, struct.error) as error:
        if is_whole:
            raise FormatError("the payload is not FlatBuffers", offset=size) from error
        return None
    return SnapshotId(bytes(payload[position + place : position + place + 12]))


def _decode_updated_chunks(
    reader: Reader, raw: tuple[RawArrayUpdatedChunks, ...]
) -> tuple[ArrayUpdatedChunks, ...]:
    if not raw:
        return ()  # importing numpy takes longer than reading a small log
    import numpy as np

    from icectl.format.columns import ColumnReader

    arrays = []
    for array in raw:
        start, count = array.chunks
        if count <= FEW_CHUNKS:
            arrays.append(ArrayUpdatedChunks(array.node_id, _read_few_chunks(reader, start, count)))
            continue
        columns = ColumnReader(reader)
        chunks = np.empty((count, 0), np.uint32)
        dimensions = None
        for rows, positions, places in columns.groups(CHUNK_INDICES, start, count):
            coords = columns.coordinates(positions + places[0], dimensions)
            if dimensions is None:
                dimensions = coords.shape[1]
                chunks = np.empty((count, dimensions), np.uint32)
            chunks[rows] = coords
        arrays.append(ArrayUpdatedChunks(array.node_id, chunks))
    return tuple(arrays)


def _read_few_chunks(reader: Reader, start: int, count: int) -> NDArray[np.uint32]:
    """The same for a few chunks, for which array operations are slower."""
    import numpy as np

    rows: list[tuple[int, ...]] = []
    for slot in range(start, start + 4 * count, 4):
        table = reader.follow(slot)
        first, dimensions = reader.read_vector(table + reader.places(CHUNK_INDICES, table)[0], 4, 4)
        limits.require("DIMENSIONS", dimensions, limits.DIMENSIONS, "the number of dimensions is")
        if rows and len(rows[0]) != dimensions:
            message = f"a coordinate does not have {len(rows[0])} dimensions"
            raise FormatError(message, offset=first)
        rows.append(struct.unpack_from(f"<{dimensions}I", reader.data, first))
    return np.array(rows, np.uint32).reshape(count, len(rows[0]) if rows else 0)


def encode_transaction_log(log: TransactionLog) -> bytes:
    """Encode a log, with every list in the order of the specification."""
    refuse_unknown(log.unknown_fields, "transaction log")
    values: dict[str, Any] = {field: getattr(log, field) for field in RawTransactionLog._fields}
    for name in RawTransactionLog._fields[1:7]:
        values[name] = tuple(sorted(values[name]))
    if log.updated_chunks:
        from icectl.format.column_writer import coordinate_tables

        values["updated_chunks"] = tuple(
            RawArrayUpdatedChunks(
                array.node_id, coordinate_tables(array.chunks[coordinate_order(array.chunks)])
            )
            for array in sorted(log.updated_chunks, key=lambda array: array.node_id)
        )
    if log.moved_nodes is not None:
        values["moved_nodes"] = tuple(
            sorted(log.moved_nodes, key=lambda move: path_sort_key(move.to))
        )
    payload = Writer().write_root(TRANSACTION_LOG, RawTransactionLog(**values))
    return encode_envelope(payload, FileType.TRANSACTION_LOG, log.spec_version)


def coordinate_order(coordinates: NDArray[np.uint32]) -> NDArray[np.intp]:
    """Return the indexes that sort the rows lexicographically."""
    import numpy as np

    if coordinates.shape[1] == 0:
        return np.arange(len(coordinates))
    return np.lexsort(coordinates.T[::-1])
