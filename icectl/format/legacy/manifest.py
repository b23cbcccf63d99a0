"""Manifests of the MessagePack generations, with one row for each reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from icectl.errors import FormatError
from icectl.format.legacy.layouts import read_fields
from icectl.format.legacy.payload import (
    binary,
    coordinates,
    items,
    object_id,
    record,
    take,
    text,
    unsigned,
    variant,
)
from icectl.model.ids import ChunkId, ManifestId, NodeId

_NATIVE = (("id", "offset", "length"),)
_VIRTUAL = (
    ("location", "offset", "length", "checksum"),
    ("location", "offset", "length"),
)


@dataclass(frozen=True, slots=True)
class LegacyRef:
    node_id: NodeId
    coordinates: tuple[int, ...]
    kind: Literal["native", "inline", "virtual"]
    offset: int
    length: int
    chunk_id: ChunkId | None = None
    location: str | None = None
    inline: bytes | None = None
    etag: str | None = None
    last_modified: int | None = None
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class LegacyManifest:
    id: ManifestId | None
    """None if the generation does not store the id in the file."""
    refs: tuple[LegacyRef, ...]
    """In the order of the file."""


def decode_legacy_manifest(payload: bytes | bytearray) -> LegacyManifest:
    fields = read_fields(payload, "manifest")
    manifest_id = object_id(ManifestId, fields["id"]) if "id" in fields else None
    refs = tuple(
        _reference(node_id, index, content)
        for node_id, index, content in _chunks(take(fields, "chunks", "the manifest"))
    )
    if len({(ref.node_id, ref.coordinates) for ref in refs}) != len(refs):
        raise FormatError("the manifest has two references for one chunk")
    return LegacyManifest(manifest_id, refs)


def _chunks(chunks: object) -> Iterator[tuple[NodeId, tuple[int, ...], object]]:
    """Yield node, coordinates and payload, from one map for all nodes or one map per node."""
    for key, value in items(chunks, "the list of chunks"):
        # A list that starts with bytes is a wrapped node id; those generations nest the maps.
        if isinstance(key, list) and len(key) == 2 and not isinstance(key[0], bytes):
            yield object_id(NodeId, key[0]), coordinates(key[1], "a chunk coordinate"), value
        else:
            node = object_id(NodeId, key)
            for index, content in items(value, "the chunks of a node"):
                yield node, coordinates(index, "a chunk coordinate"), content


def _reference(node_id: NodeId, index: tuple[int, ...], payload: object) -> LegacyRef:
    choice, content = variant(payload, "a chunk reference")
    if choice == "Inline":
        data = binary(content, "an inline chunk")
        return LegacyRef(node_id, index, "inline", 0, len(data), inline=data)
    if choice == "Ref":
        fields = record(content, _NATIVE, "a native chunk reference")
        chunk_id = object_id(ChunkId, take(fields, "id", "a native chunk reference"))
        return LegacyRef(node_id, index, "native", *_range(fields), chunk_id=chunk_id)
    if choice == "Virtual":
        fields = record(content, _VIRTUAL, "a virtual chunk reference")
        etag, last_modified = _checksum(fields.get("checksum"))
        return LegacyRef(
            node_id,
            index,
            "virtual",
            *_range(fields),
            location=_location(take(fields, "location", "a virtual chunk reference")),
            etag=etag,
            last_modified=last_modified,
        )
    raise FormatError(f"unknown kind of chunk reference: {choice!r}")


def _range(fields: dict[str, object]) -> tuple[int, int]:
    what = "the range of a chunk reference"
    return (
        unsigned(take(fields, "offset", what), what, 64),
        unsigned(take(fields, "length", what), what, 64),
    )


def _location(value: object) -> str:
    if isinstance(value, str):
        return value
    choice, location = variant(value, "a chunk location")
    if choice != "Absolute":
        raise FormatError(f"unknown kind of chunk location: {choice!r}")
    return text(location, "a chunk location")


def _checksum(value: object) -> tuple[str | None, int | None]:
    if value is None:
        return None, None
    choice, content = variant(value, "a checksum")
    if choice == "ETag":
        return text(content, "an etag"), None
    if choice == "LastModified":
        return None, unsigned(content, "a modification time", 32)
    raise FormatError(f"unknown kind of checksum: {choice!r}")
