"""Read the many snapshots of a repo info file as columns, with the same checks as one by one."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from icectl.errors import FormatError
from icectl.format.columns import ColumnReader, Positions, spread
from icectl.format.reader import Reader
from icectl.format.repo import parent_error
from icectl.format.schema import METADATA_ITEM, SNAPSHOT_INFO, RawSnapshotInfo
from icectl.model.ids import SnapshotId
from icectl.model.manifest import Spans
from icectl.model.repo import SnapshotInfo, SnapshotInfoColumns

_ID_SIZE = 12


def read_snapshot_infos(reader: Reader, start: int, count: int) -> SnapshotInfoColumns:
    """The vector of SnapshotInfo at `start`, which was checked; all its tables are checked here."""
    columns = ColumnReader(reader)
    ids = np.empty((count, _ID_SIZE), np.uint8)
    parents = np.zeros(count, np.int32)
    flushed_at = np.zeros(count, np.uint64)
    num_metadata = np.full(count, -1, np.int64)
    has_logs = np.zeros(count, np.bool_)
    messages = Spans(reader.data, np.empty(count, np.uint32), np.empty(count, np.uint32))
    reader.spend_elements(count, start)
    tables = columns.follow(np.arange(start, start + 4 * count, 4, dtype=np.int64))
    for rows, positions, plan in columns.tables(SNAPSHOT_INFO, tables):
        id_, parent, flushed, message, metadata, logs = plan.places
        ids[rows] = columns.structs(positions + id_, _ID_SIZE)
        if parent:
            parents[rows] = columns.words(positions + parent).view(np.int32)
        if flushed:
            flushed_at[rows] = columns.longs(positions + flushed)
        messages.start[rows], messages.length[rows] = columns.strings(
            positions + message, "a message"
        )
        if metadata:
            num_metadata[rows] = _check_metadata(columns, positions + metadata)
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

    return SnapshotInfoColumns(
        listed,
        parents.tolist(),
        flushed_at.tolist(),
        messages,
        num_metadata.tolist(),
        np.flatnonzero(has_logs).tolist(),
        read,
    )


def _check_metadata(columns: ColumnReader, slots: Positions) -> NDArray[np.uint32]:
    """Return the number of items of each list."""
    starts, counts = columns.vectors(slots, 4, "a list of metadata")
    items = spread(starts, counts, 4)
    if not len(items):
        return counts
    columns.reader.spend_elements(len(items), int(items[0]))
    for _, positions, plan in columns.tables(METADATA_ITEM, columns.follow(items)):
        name, value = plan.places
        columns.strings(positions + name, "a name")
        columns.vectors(positions + value, 1, "a value")
    return counts
