"""Read the many snapshots of a repo info file as columns, with the same checks as one by one."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from icectl.errors import FormatError, LimitExceededError
from icectl.format.columns import ColumnReader, Positions
from icectl.format.reader import Reader
from icectl.format.repo import parent_error
from icectl.format.schema import METADATA_ITEM, SNAPSHOT_INFO, RawSnapshotInfo
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotColumns, SnapshotInfo

_ID_SIZE = 12


def read_snapshot_columns(reader: Reader, start: int, count: int) -> SnapshotColumns:
    """The vector of SnapshotInfo at `start`, which was checked; all its tables are checked here."""
    columns = ColumnReader(reader)
    ids = np.empty((count, _ID_SIZE), np.uint8)
    parents = np.zeros(count, np.int32)
    flushed_at = np.zeros(count, np.uint64)
    has_logs = np.zeros(count, np.bool_)
    _spend(reader, count, start)
    for rows, positions, offsets in columns.groups(SNAPSHOT_INFO, start, count):
        id_, parent, flushed, message, metadata, logs = offsets
        ids[rows] = columns.structs(positions + id_, _ID_SIZE)
        if parent:
            parents[rows] = columns.words(positions + parent).view(np.int32)
        if flushed:
            flushed_at[rows] = columns.longs(positions + flushed)
        _check_strings(columns, positions + message)
        if metadata:
            _check_metadata(columns, positions + metadata)
        if logs:
            first, lengths = columns.vectors(positions + logs, _ID_SIZE, "a list of logs")
            reader.spend_elements(int(lengths.sum(dtype=np.int64)), int(first[0]))
            has_logs[rows] = lengths > 0
    new_id = partial(bytes.__new__, SnapshotId)
    listed: list[SnapshotId] = [*map(new_id, ids.view(f"V{_ID_SIZE}").reshape(-1).tolist())]
    if len(set(listed)) < count:
        raise FormatError("the repo info lists a snapshot twice")
    astray = np.flatnonzero((parents < -1) | (parents >= count))
    if len(astray):
        row = int(astray[0])
        raise parent_error(listed[row], int(parents[row]), count)

    # What was checked once may be read as often as anybody asks.
    checked = Reader(reader.data)
    checked.budget = checked.tables = checked.elements = math.inf  # type: ignore[assignment]

    def read(row: int) -> SnapshotInfo:
        raw: RawSnapshotInfo = checked.read_table(SNAPSHOT_INFO, checked.follow(start + 4 * row))
        parent = None if raw.parent_offset == -1 else listed[raw.parent_offset]
        return SnapshotInfo(raw.id, parent, *raw[2:])

    return SnapshotColumns(
        listed, parents.tolist(), flushed_at.tolist(), np.flatnonzero(has_logs).tolist(), read
    )


def _check_metadata(columns: ColumnReader, slots: Positions) -> None:
    starts, lengths = columns.vectors(slots, 4, "a list of metadata")
    counts = lengths.astype(np.int64)
    total = int(counts.sum())
    if not total:
        return
    _spend(columns.reader, total, int(starts[0]))
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    items = np.repeat(starts, counts) + 4 * within
    for _, positions, (name, value) in columns.groups_at(METADATA_ITEM, items):
        _check_strings(columns, positions + name)
        columns.vectors(positions + value, 1, "a value")


def _check_strings(columns: ColumnReader, slots: Positions) -> None:
    starts, lengths = columns.vectors(slots, 1, "a string", terminated=True)
    data = columns.reader.data
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        try:
            data[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise FormatError("a string is not valid UTF-8", offset=start + error.start) from None


def _spend(reader: Reader, tables: int, position: int) -> None:
    """Charge tables that may become Python objects."""
    reader.spend_elements(tables, position)
    reader.tables -= tables
    if reader.tables < 0:
        raise LimitExceededError(
            "TABLES_PER_BYTE", "the file has too many tables for its size", offset=position
        )
