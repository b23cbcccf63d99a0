"""Snapshot files, spec versions 1 and 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icectl.errors import FormatError
from icectl.format.envelope import (
    Envelope,
    FileType,
    decode_flatbuffers_envelope,
    encode_envelope,
)
from icectl.format.reader import Reader
from icectl.format.schema import SNAPSHOT, RawSnapshot
from icectl.format.writer import Writer, refuse_unknown
from icectl.model.node_table import ColumnNodeTable, NodeTable
from icectl.model.snapshot import Snapshot

if TYPE_CHECKING:
    from icectl.model.node_columns import SnapshotColumns

SMALL_PAYLOAD = 2**18


def decode_snapshot(data: bytes) -> Snapshot:
    return decode_payload(decode_flatbuffers_envelope(data, FileType.SNAPSHOT))


def decode_payload(envelope: Envelope) -> Snapshot:
    assert envelope.header is not None
    reader = Reader(envelope.payload, file_size=envelope.file_size)
    raw: RawSnapshot = reader.read_root(SNAPSHOT)
    for node in raw.nodes:
        if not node.path.startswith("/"):
            raise FormatError(f"the node path {node.path!r} is not absolute")
    return Snapshot(envelope.header.spec_version, *raw, unknown_fields=reader.unknown_fields)


def decode_in_either_form(data: bytes) -> Snapshot | SnapshotColumns:
    """Decode a snapshot as columns if it is large; importing numpy takes longer than a small one.

    For callers that need only what both have, or only the checks.
    """
    envelope = decode_flatbuffers_envelope(data, FileType.SNAPSHOT)
    if len(envelope.payload) <= SMALL_PAYLOAD:
        return decode_payload(envelope)
    from icectl.format.node_columns import decode_columns

    return decode_columns(envelope)


def decode_node_table(data: bytes) -> NodeTable:
    found = decode_in_either_form(data)
    return NodeTable.of(found) if isinstance(found, Snapshot) else ColumnNodeTable(found)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot, with every list in the order that the official reader needs."""
    refuse_unknown(snapshot.unknown_fields, "snapshot")
    values = {field: getattr(snapshot, field) for field in RawSnapshot._fields}
    # The specification demands component-wise order, but every official release sorts and
    # searches by the bytes of the full path: with the other order it would not find some nodes.
    values["nodes"] = tuple(sorted(snapshot.nodes, key=lambda node: node.path.encode()))
    values["metadata"] = tuple(sorted(snapshot.metadata, key=lambda item: item.name.encode()))
    values["manifest_files"] = tuple(sorted(snapshot.manifest_files, key=lambda info: info.id))
    if snapshot.manifest_files_v2 is not None:
        values["manifest_files_v2"] = tuple(
            sorted(snapshot.manifest_files_v2, key=lambda info: info.id)
        )
    payload = Writer().write_root(SNAPSHOT, RawSnapshot(**values))
    return encode_envelope(payload, FileType.SNAPSHOT, snapshot.spec_version)
