"""Decode and encode manifests as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from icectl import limits
from icectl.errors import FormatError
from icectl.format.envelope import (
    Envelope,
    FileType,
    decode_flatbuffers_envelope,
    encode_envelope,
)
from icectl.format.reader import Reader
from icectl.format.schema import CHUNK_REF, MANIFEST, RawArrayManifest, RawManifest
from icectl.format.transaction_log import coordinate_order
from icectl.format.writer import Writer, refuse_unknown
from icectl.model.ids import ManifestId, NodeId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from icectl.format.columns import ColumnReader, Positions, Rows

# The index of each field of ChunkRef in the schema.
_FIELDS = {field.name: place for place, field in enumerate(CHUNK_REF.fields)}
_LENGTH, _ETAG, _EXTRA = (_FIELDS[name] for name in ("length", "checksum_etag", "extra"))
_RANGE = (_FIELDS["offset"], _LENGTH)
FEW_REFS = 64
LISTED_TWICE = "a chunk reference is listed twice"
_KIND_FIELDS = (
    (RefKind.NATIVE, "chunk_id"),
    (RefKind.INLINE, "inline"),
    (RefKind.VIRTUAL, "location"),
    (RefKind.VIRTUAL_COMPRESSED, "compressed_location"),
)


def decode_manifest(data: bytes, *, with_coordinates: bool = True) -> Manifest:
    """Decode a manifest. `with_coordinates=False` neither checks nor returns coordinates."""
    return _decode_columns(*_decode_root(data), with_coordinates)


class FewArrayRefs(NamedTuple):
    """The references of one array without coordinates; inline ones summed up."""

    node_id: NodeId
    chunk_ids: list[bytes]
    lengths: list[int]
    num_inline: int
    inlined_bytes: int


class FewRefs(NamedTuple):
    """A manifest of few references, none of them virtual."""

    id: ManifestId
    arrays: list[FewArrayRefs]


def decode_sizes(data: bytes) -> Manifest | FewRefs:
    """Decode a manifest without coordinates; array operations are slow for a few references."""
    envelope, reader, raw = _decode_root(data)
    if sum(array.refs[1] for array in raw.arrays) <= FEW_REFS:
        arrays = [few for array in raw.arrays if (few := _sum_few(reader, array)) is not None]
        if len(arrays) == len(raw.arrays):
            _check_compression(raw)
            return FewRefs(raw.id, arrays)
    return _decode_columns(envelope, reader, raw, False)


def _decode_root(data: bytes) -> tuple[Envelope, Reader, RawManifest]:
    envelope = decode_flatbuffers_envelope(data, FileType.MANIFEST)
    reader = Reader(envelope.payload, file_size=envelope.file_size)
    return envelope, reader, reader.read_root(MANIFEST)


def _check_compression(raw: RawManifest) -> None:
    if raw.compression_algorithm not in (0, 1):
        raise FormatError(f"unknown compression of locations: {raw.compression_algorithm}")


def _decode_columns(
    envelope: Envelope, reader: Reader, raw: RawManifest, with_coordinates: bool
) -> Manifest:
    # Imported late: numpy may be loading on another thread while this one decompresses.
    from icectl.format.columns import ColumnReader

    columns = ColumnReader(reader)
    arrays = tuple(
        ArrayManifest(
            array.node_id,
            _decode_refs(
                columns, columns.groups(CHUNK_REF, *array.refs), array.refs[1], with_coordinates
            ),
            array.extra,
        )
        for array in raw.arrays
    )
    return _manifest(envelope, reader, raw, arrays)


def _manifest(
    envelope: Envelope, reader: Reader, raw: RawManifest, arrays: tuple[ArrayManifest, ...]
) -> Manifest:
    assert envelope.header is not None
    _check_compression(raw)
    return Manifest(
        envelope.header.spec_version,
        raw.id,
        arrays,
        raw.location_dictionary,
        raw.compression_algorithm,
        raw.extra,
        reader.unknown_fields,
        envelope.file_size,
    )


class OpenManifest:
    """A manifest whose references are decoded when they are asked for."""

    def __init__(self, data: bytes) -> None:
        from icectl.format.columns import ColumnReader

        envelope, reader, self._raw = _decode_root(data)
        self._columns = ColumnReader(reader)
        self.manifest = _manifest(envelope, reader, self._raw, ())
        """Without its arrays."""

    @property
    def id(self) -> ManifestId:
        return self.manifest.id

    def spans(self, node_id: NodeId) -> list[tuple[int, int]]:
        """The vectors of the array's references, usually one: first byte and length."""
        return [array.refs for array in self._raw.arrays if array.node_id == node_id]

    def rows(self, span: tuple[int, int], first: int, count: int) -> ChunkRefs:
        groups = self._columns.groups(CHUNK_REF, span[0] + 4 * first, count)
        return _decode_refs(self._columns, groups, count, True)

    def find(self, span: tuple[int, int], wanted: NDArray[np.uint32]) -> ChunkRefs | None:
        """The references at these coordinates that exist, found as a reader finds them.

        They do not keep the payload in memory. None if they have another number of dimensions.
        """
        import numpy as np

        start, count = span
        if count and self.rows(span, 0, 1).coordinates.shape[1] != wanted.shape[1]:
            return None
        low = np.zeros(len(wanted), np.int64)
        high = np.full(len(wanted), count if len(wanted) else 0, np.int64)
        while (low < high).any():
            middle = (low + high) // 2
            is_less, _ = self._compare(start, np.minimum(middle, count - 1), wanted)
            is_open = low < high
            low = np.where(is_open & is_less, middle + 1, low)
            high = np.where(is_open & ~is_less, middle, high)
        inside = low < count
        found = low[inside]
        if len(found):
            found = found[self._compare(start, found, wanted[inside])[1]]
        positions = self._columns.follow(start + 4 * found)
        groups = (
            (rows, group, plan.places)
            for rows, group, plan in self._columns.tables(CHUNK_REF, positions)
        )
        return _decode_refs(self._columns, groups, len(found), True).detached()

    def _compare(
        self, start: int, rows: NDArray[np.int64], wanted: NDArray[np.uint32]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows of the vector are before the wanted coordinates, and which are equal."""
        import numpy as np

        index = np.empty(wanted.shape, np.uint32)
        # The search itself bounds how often it looks at a table.
        reader = self._columns.reader
        allowed = reader.budget, reader.tables
        positions = self._columns.follow(start + 4 * rows)
        for chosen, group, plan in self._columns.tables(CHUNK_REF, positions):
            place = plan.places[_FIELDS["index"]]
            index[chosen] = self._columns.coordinates(group + place, wanted.shape[1])
        reader.budget, reader.tables = allowed
        is_less, is_equal = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
        for found, sought in zip(index.T, wanted.T, strict=True):
            is_less |= is_equal & (found < sought)
            is_equal &= found == sought
        return is_less, is_equal


@dataclass(frozen=True, slots=True, eq=False)
class NativeRefs:
    """The chunk files that a manifest refers to; garbage collection needs nothing else."""

    id: ManifestId
    num_chunk_refs: int
    """The number of references of all kinds."""
    chunk_id: NDArray[np.uint8]
    """(n, 12)"""
    end: NDArray[np.uint64] | None
    """Offset plus length, the minimum size of the chunk file. Saturates at the largest uint64."""


def decode_native_refs(data: bytes, *, with_sizes: bool = True) -> NativeRefs:
    """Decode the native references of all arrays; skip the content of other references.

    A reference that is listed twice is damage: an offset that was changed to that of a neighbour
    hides the reference that belongs there.
    """
    _, reader, raw = _decode_root(data)
    count = sum(array.refs[1] for array in raw.arrays)
    gather = _gather_few if count <= FEW_REFS else _gather_many
    return NativeRefs(raw.id, count, *gather(reader, raw, with_sizes))


def _gather_many(
    reader: Reader, raw: RawManifest, with_sizes: bool
) -> tuple[NDArray[np.uint8], NDArray[np.uint64] | None]:
    import numpy as np

    from icectl.format.columns import ColumnReader

    columns = ColumnReader(reader)
    count = sum(array.refs[1] for array in raw.arrays)
    # Filled in place, with half the width of the reader's positions: these arrays determine the
    # peak memory at a million rows.
    ids = np.empty((count, 12), np.uint8)
    tables = np.empty(count, np.uint32)
    ends: list[NDArray[np.uint64]] = []
    first = native = 0
    for array in raw.arrays:
        own = tables[first : first + array.refs[1]]
        first += len(own)
        for chosen, positions, places in columns.groups(CHUNK_REF, *array.refs):
            own[chosen] = positions
            rows = len(positions)
            if _kind(places, int(positions[0]))[0] is not RefKind.NATIVE:
                continue
            place = positions + places[_FIELDS["chunk_id"]]
            ids[native : native + rows] = columns.structs(place, 12)
            native += rows
            if not with_sizes:
                continue
            offset, length = (
                columns.longs(positions + places[_FIELDS[name]])
                if places[_FIELDS[name]]
                else np.zeros(rows, np.uint64)
                for name in ("offset", "length")
            )
            end = offset + length
            ends.append(np.where(end < offset, np.uint64(2**64 - 1), end))
    # Writers place tables in ascending or descending order, which rules out duplicates.
    if not ((tables[1:] > tables[:-1]).all() or (tables[1:] < tables[:-1]).all()):
        tables.sort()
        if (tables[1:] == tables[:-1]).any():
            raise FormatError(LISTED_TWICE)
    return (
        ids[:native],
        np.concatenate([np.empty(0, np.uint64), *ends]) if with_sizes else None,
    )


def _gather_few(
    reader: Reader, raw: RawManifest, with_sizes: bool
) -> tuple[NDArray[np.uint8], NDArray[np.uint64] | None]:
    """The same for a few references, for which array operations are slower."""
    import numpy as np

    data = reader.data
    ids: list[bytes | bytearray] = []
    ends: list[int] = []
    tables: set[int] = set()
    count = 0
    for array in raw.arrays:
        count += array.refs[1]
        for position, places, kind, place in _few_tables(reader, array):
            tables.add(position)
            if kind is not RefKind.NATIVE:
                continue
            place += position
            ids.append(data[place : place + 12])
            if with_sizes:
                ends.append(min(sum(_long(data, position, places[at]) for at in _RANGE), 2**64 - 1))
    if len(tables) < count:
        raise FormatError(LISTED_TWICE)
    return (
        np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 12),
        np.array(ends, np.uint64) if with_sizes else None,
    )


def _sum_few(reader: Reader, array: RawArrayManifest) -> FewArrayRefs | None:
    """None if there is a virtual reference."""
    data = reader.data
    ids: list[bytes] = []
    lengths: list[int] = []
    num_inline = inlined_bytes = 0
    for position, places, kind, place in _few_tables(reader, array):
        if kind is RefKind.NATIVE:
            ids.append(bytes(data[position + place : position + place + 12]))
            lengths.append(_long(data, position, places[_LENGTH]))
        elif kind is RefKind.INLINE:
            num_inline += 1
            inlined_bytes += reader.read_vector(position + place, 1, 1)[1]
        else:
            return None
        if places[_ETAG]:
            reader.read_string(position + places[_ETAG])
        if places[_EXTRA]:
            reader.read_vector(position + places[_EXTRA], 1, 1)
    return FewArrayRefs(array.node_id, ids, lengths, num_inline, inlined_bytes)


def _few_tables(
    reader: Reader, array: RawArrayManifest
) -> Iterator[tuple[int, Sequence[int], RefKind, int]]:
    """Yield the position of each reference, the offset of each field, its kind and its content."""
    kinds: dict[Sequence[int], tuple[RefKind, int]] = {}
    start, count = array.refs
    for slot in range(start, start + 4 * count, 4):
        position = reader.follow(slot)
        places = reader.places(CHUNK_REF, position)
        found = kinds.get(places)
        if found is None:
            kind, name = _kind(places, position)
            found = kinds[places] = kind, places[_FIELDS[name]]
        yield position, places, *found


def _long(data: bytes | bytearray, position: int, place: int) -> int:
    position += place
    return int.from_bytes(data[position : position + 8], "little") if place else 0


def _kind(places: Sequence[int], position: int) -> tuple[RefKind, str]:
    present = [(kind, name) for kind, name in _KIND_FIELDS if places[_FIELDS[name]]]
    if len(present) != 1:
        names = " and ".join(name for _, name in present) or "no id, location or data"
        raise FormatError(f"a chunk reference has {names}", offset=position)
    return present[0]


def _decode_refs(
    columns: ColumnReader,
    groups: Iterable[tuple[Rows, Positions, Sequence[int]]],
    count: int,
    with_coordinates: bool,
) -> ChunkRefs:
    import numpy as np

    payload = columns.reader.data
    kinds = np.empty(count, np.uint8)
    chunk_ids = np.zeros((count, 12), np.uint8)
    offsets = np.zeros(count, np.uint64)
    lengths = np.zeros(count, np.uint64)
    content = Spans(payload, np.zeros(count, np.uint32), np.zeros(count, np.uint32))
    coordinates = np.empty((count, 0), np.uint32)
    dimensions: int | None = None
    optional: dict[str, Spans] = {}
    last_modified = None

    for rows, positions, places in groups:
        kind, name = _kind(places, int(positions[0]))
        kinds[rows] = kind
        if with_coordinates:
            index = columns.coordinates(positions + places[_FIELDS["index"]], dimensions)
            if dimensions is None:
                dimensions = index.shape[1]
                coordinates = np.empty((count, dimensions), np.uint32)
            coordinates[rows] = index
        place = places[_FIELDS[name]]
        if kind is RefKind.NATIVE:
            chunk_ids[rows] = columns.structs(positions + place, 12)
        else:
            starts, sizes = columns.vectors(
                positions + place, 1, name, terminated=kind is RefKind.VIRTUAL
            )
            content.start[rows] = starts
            content.length[rows] = sizes
        if place := places[_FIELDS["offset"]]:
            offsets[rows] = columns.longs(positions + place)
        if place := places[_FIELDS["length"]]:
            lengths[rows] = columns.longs(positions + place)
        if place := places[_FIELDS["checksum_last_modified"]]:
            if last_modified is None:
                last_modified = np.zeros(count, np.uint32)
            last_modified[rows] = columns.words(positions + place)
        for name in ("checksum_etag", "extra"):
            if place := places[_FIELDS[name]]:
                spans = optional.setdefault(
                    name, Spans(payload, np.zeros(count, np.uint32), np.zeros(count, np.uint32))
                )
                starts, sizes = columns.vectors(
                    positions + place, 1, name, terminated=name == "checksum_etag"
                )
                spans.start[rows] = starts
                spans.length[rows] = sizes
    return ChunkRefs(
        coordinates,
        kinds,
        chunk_ids,
        offsets,
        lengths,
        content,
        optional.get("checksum_etag"),
        last_modified,
        optional.get("extra"),
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest, with arrays and references in the order of the specification."""
    import numpy as np

    from icectl.format.column_writer import chunk_ref_tables

    refuse_unknown(manifest.unknown_fields, "manifest")
    arrays = []
    for array in sorted(manifest.arrays, key=lambda array: array.node_id):
        order = coordinate_order(array.refs.coordinates)
        refs = array.refs
        if (np.diff(order) != 1).any():
            refs = refs.take(order)
        arrays.append(RawArrayManifest(array.node_id, chunk_ref_tables(refs), array.extra))
    raw = RawManifest(
        manifest.id,
        tuple(arrays),
        manifest.location_dictionary,
        manifest.compression_algorithm,
        manifest.extra,
    )
    payload = Writer().write_root(MANIFEST, raw)
    return encode_envelope(payload, FileType.MANIFEST, manifest.spec_version)


def decode_locations(manifest: Manifest, refs: ChunkRefs) -> list[str | None]:
    """Return the decompressed location of each virtual reference; None for other references."""
    rows = (refs.kind >= RefKind.VIRTUAL).nonzero()[0].tolist()
    encoded = [refs.content[row] for row in rows]
    compressed = (refs.kind == RefKind.VIRTUAL_COMPRESSED)[rows].tolist()
    # Many chunks are in the same file, so each location is decompressed only once.
    distinct = dict.fromkeys(zip(compressed, encoded, strict=True), "")
    frames = [data for packed, data in distinct if packed and manifest.compression_algorithm]
    plain = dict(zip(frames, _decompress_locations(manifest, frames), strict=True))
    for packed, data in distinct:
        try:
            distinct[packed, data] = (plain[data] if packed and data in plain else data).decode()
        except UnicodeDecodeError:
            raise FormatError("the location of a chunk reference is not UTF-8") from None
    locations: list[str | None] = [None] * len(refs)
    for row, key in zip(rows, zip(compressed, encoded, strict=True), strict=True):
        locations[row] = distinct[key]
    return locations


def _decompress_locations(manifest: Manifest, frames: list[bytes]) -> list[bytes]:
    if not frames:
        return []
    import zstandard

    try:
        sizes = [zstandard.frame_content_size(frame) for frame in frames]
        most = limits.LOCATION_BYTES
        limits.require("LOCATION_BYTES", max(sizes), most, "the size of a location in bytes is")
        most = max(limits.LOCATIONS_BYTES_ALWAYS, limits.LOCATIONS_RATIO * manifest.file_size)
        total = sum(sizes)
        limits.require("LOCATIONS_RATIO", total, most, "the size of all locations in bytes is")
        dictionary = zstandard.ZstdCompressionDict(manifest.location_dictionary or b"")
        decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
        if min(sizes) > 0:
            batch = decompressor.multi_decompress_to_buffer([*frames])
            return [batch[row].tobytes() for row in range(len(batch))]
        locations = []
        total = 0
        for frame in frames:  # some frames do not contain their size
            location = decompressor.decompress(frame, max_output_size=limits.LOCATION_BYTES)
            locations.append(location)
            total += len(location)
            limits.require("LOCATIONS_RATIO", total, most, "the size of all locations in bytes is")
        return locations
    except (zstandard.ZstdError, ValueError, MemoryError) as error:
        raise FormatError(f"a location cannot be decompressed: {error}") from None
