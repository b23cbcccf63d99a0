"""The envelope of a metadata file: header, compression and generation.

The content determines the generation: whether there is a header, its length, and the structure of
the payload. The header has 39 bytes in the specification; in an early draft it had 27.
"""

from __future__ import annotations

import enum
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icectl import __version__, limits
from icectl.errors import FormatError, LimitExceededError, UnsupportedError

if TYPE_CHECKING:
    import zstandard

MAGIC = "ICE🧊CHUNK".encode()
HEADER_SIZE = 39
SPEC_VERSION_OFFSET = 36
DRAFT_HEADER_SIZE = 27
LEVEL = 3
"""The compression level of the official writers."""
IDENTIFIER = b"Ichk"
"""Official writers put it at payload[4:8]. No reader needs it."""
IMPLEMENTATION = f"icectl-{__version__}"

USUAL_RATIO = 32
SMALL_PAYLOAD = 2**16
# Input bytes per step: few enough that even a decompression bomb cannot exceed the limit by much.
_SLICE = 512

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_VTABLE = struct.Struct("<HH")

_own = threading.local()


class FileType(enum.IntEnum):
    SNAPSHOT = 1
    MANIFEST = 2
    ATTRIBUTES = 3
    TRANSACTION_LOG = 4
    CHUNK = 5
    REPO_INFO = 6


class Generation(enum.StrEnum):
    """The family of writers that created a file."""

    ALPHA_RAW = "alpha-raw"
    ALPHA_BINARY = "alpha-binary"
    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True, slots=True)
class Header:
    implementation: str
    spec_version: int
    file_type: int
    compression: int


@dataclass(frozen=True, slots=True)
class Envelope:
    generation: Generation
    header: Header | None
    payload: bytes | bytearray
    """Decompressed."""
    file_size: int = 0
    """The stored size."""


def decode_header(data: bytes) -> tuple[Header, int] | None:
    """Return the header and its length, or None if there is none (the first generation)."""
    if len(data) < len(MAGIC) or data[: len(MAGIC)] != MAGIC:
        return None
    if len(data) >= HEADER_SIZE and _looks_like_header(data, 36):
        size = HEADER_SIZE
    elif len(data) >= DRAFT_HEADER_SIZE and _looks_like_header(data, 24):
        size = DRAFT_HEADER_SIZE
    elif len(data) < HEADER_SIZE:
        raise FormatError("the file ends inside its header", offset=len(data))
    else:
        spec_version, file_type, compression = data[36:39]
        if spec_version > 2 and _is_known(file_type, compression):
            raise UnsupportedError(
                f"the file has spec version {spec_version}, which is not supported",
                hint="upgrade icectl; if no newer Icechunk wrote the file, it is damaged",
            )
        if spec_version not in (1, 2):
            raise FormatError(
                f"the header has the unknown spec version {spec_version}",
                offset=SPEC_VERSION_OFFSET,
            )
        if file_type not in FileType.__members__.values():
            raise FormatError(f"the header has the unknown file type {file_type}", offset=37)
        raise FormatError(f"the header has the unknown compression {compression}", offset=38)
    try:
        implementation = data[len(MAGIC) : size - 3].decode().rstrip(" ")
    except UnicodeDecodeError as error:
        raise FormatError(
            "the implementation name in the header is not UTF-8", offset=len(MAGIC) + error.start
        ) from None
    return Header(implementation, data[size - 3], data[size - 2], data[size - 1]), size


def _looks_like_header(data: bytes, position: int) -> bool:
    spec_version, file_type, compression = data[position : position + 3]
    return spec_version in (1, 2) and _is_known(file_type, compression)


def _is_known(file_type: int, compression: int) -> bool:
    return 1 <= file_type <= 6 and compression in (0, 1)


def decode_envelope(data: bytes) -> Envelope:
    """Decode header, generation and decompressed payload of any metadata file."""
    found = decode_header(data)
    if found is None:
        # The MessagePack generations begin with a small array or map.
        if not data:
            raise FormatError("the file is empty")
        if not 0x80 <= data[0] <= 0x9F:
            raise FormatError("not an Icechunk metadata file", offset=0)
        return Envelope(Generation.ALPHA_RAW, None, data, len(data))
    header, size = found
    payload: bytes | bytearray
    payload = decompress(data, size) if header.compression else data[size:]
    if not payload:
        raise FormatError("the payload is empty", offset=size)
    generation = detect_generation(payload, header.spec_version)
    if generation is Generation.ALPHA_BINARY:
        from icectl.format.legacy.payload import check_elements

        check_elements(payload, len(data))
    return Envelope(generation, header, payload, len(data))


def detect_generation(payload: bytes | bytearray, spec_version: int) -> Generation:
    """Return the generation of a file with a header, from its decompressed payload.

    The payload may be truncated after its root table.
    """
    if spec_version == 2:
        return Generation.V2
    if payload[4:8] == IDENTIFIER or _has_root_table(payload):
        return Generation.V1
    if _is_msgpack(payload):
        return Generation.ALPHA_BINARY
    raise FormatError("the payload is neither FlatBuffers nor MessagePack", offset=0)


def _has_root_table(payload: bytes | bytearray) -> bool:
    """Return whether the payload begins with the offset of a table that has a vtable."""
    size = len(payload)
    if size < 8:
        return False
    root = _U32.unpack_from(payload)[0]
    if not 4 <= root <= size - 4 or root % 4:
        return False
    vtable = root - _I32.unpack_from(payload, root)[0]
    if not 4 <= vtable <= size - 4 or vtable % 2:
        return False
    vtable_size, table_size = _VTABLE.unpack_from(payload, vtable)
    is_vtable = vtable_size >= 4 and vtable_size % 2 == 0 and vtable + vtable_size <= size
    return bool(is_vtable and table_size >= 4 and root + table_size <= size)


def _is_msgpack(payload: bytes | bytearray) -> bool:
    """Return whether the payload is exactly one MessagePack array or map."""
    if not payload or not 0x80 <= payload[0] <= 0x9F:
        return False
    import msgpack

    unpacker = msgpack.Unpacker(max_buffer_size=len(payload))
    unpacker.feed(payload)
    try:
        unpacker.skip()
    except (msgpack.UnpackException, ValueError):
        return False
    return bool(unpacker.tell() == len(payload))


def decode_flatbuffers_envelope(data: bytes, file_type: FileType) -> Envelope:
    """Decode the envelope; raise an error unless it is a flatbuffers file of this type."""
    envelope = decode_envelope(data)
    if envelope.header is None or envelope.generation is Generation.ALPHA_BINARY:
        raise UnsupportedError(
            f"this operation does not support files of generation {envelope.generation}",
            hint="repositories of this generation are read-only; copy the data to a new repository"
            " to change it",
        )
    if envelope.header.file_type != file_type:
        raise FormatError(
            f"expected a {_type_name(file_type)}, but the header says "
            f"{_type_name(envelope.header.file_type)}",
            offset=37,
        )
    return envelope


def _type_name(file_type: int) -> str:
    return FileType(file_type).name.lower().replace("_", " ")


def decompress(data: bytes, start: int) -> bytes | bytearray:
    """Decompress the single zstd frame from `start` to the end, with a limit on its size."""
    import zstandard

    # Nearly all files fit into this room and are decompressed in one call: memory that is not
    # touched costs nothing. Other files, and damaged ones, are decompressed step by step.
    frame = memoryview(data)[start:]
    room = min(max(SMALL_PAYLOAD, USUAL_RATIO * len(frame)), _limit(len(frame)))
    try:
        if zstandard.frame_content_size(frame) <= room:
            return _decompressor().decompress(frame, max_output_size=room, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError):
        pass
    payload, problem = decompress_partial(data, start)
    if problem is not None:
        raise problem
    return payload


def _decompressor() -> zstandard.ZstdDecompressor:
    """Return the thread's decompressor: creating one takes longer than reading a small file."""
    import zstandard

    if not hasattr(_own, "decompressor"):
        _own.decompressor = zstandard.ZstdDecompressor()
    found: zstandard.ZstdDecompressor = _own.decompressor
    return found


def _limit(compressed: int) -> int:
    most = max(limits.PAYLOAD_BYTES_ALWAYS, limits.PAYLOAD_RATIO * compressed)
    return min(limits.PAYLOAD_BYTES, most)


def decompress_partial(data: bytes, start: int) -> tuple[bytearray, FormatError | None]:
    """Return the part of the payload that can be decompressed, and the problem that ended it.

    Each call creates a decompressor: sharing one between threads corrupts data.
    """
    import zstandard

    limit = _limit(len(data) - start)
    stream = zstandard.ZstdDecompressor().decompressobj(write_size=2**18)
    view = memoryview(data)
    payload = bytearray()
    for position in range(start, len(data), _SLICE):
        if stream.eof:
            return payload, FormatError("there are bytes after the zstd frame", offset=position)
        try:
            payload += stream.decompress(view[position : position + _SLICE])
        except (zstandard.ZstdError, MemoryError) as error:
            return payload, FormatError(f"zstd: {error}", offset=position)
        if len(payload) > limit:
            return payload, LimitExceededError(
                "PAYLOAD_RATIO",
                f"{len(data) - start:,} bytes decompress to more than {limit:,}",
                offset=position,
            )
    if not stream.eof:
        return payload, FormatError("the zstd frame is truncated", offset=len(data))
    if stream.unused_data:
        end = len(data) - len(stream.unused_data)
        return payload, FormatError("there are bytes after the zstd frame", offset=end)
    return payload, None


def is_packed_anew(data: bytes) -> bool:
    """Return whether compressing the payload again, at any level, gives the same bytes.

    Frames have no checksum, but a flipped bit outside of literals usually results in a frame that
    no compressor would create. Other versions of zstd may also create different frames.
    """
    import zstandard

    payload = decode_envelope(data).payload
    frame = memoryview(data)[HEADER_SIZE:]
    for level in sorted(range(1, 10 if len(payload) > 2**20 else 23), key=lambda one: one != LEVEL):
        if zstandard.ZstdCompressor(level=level).compress(payload) == frame:
            return True
        # Writers before 2.3 compressed a stream, whose size is not in the frame.
        stream = zstandard.ZstdCompressor(level=level).compressobj()
        if stream.compress(payload) + stream.flush() == frame:
            return True
    return False


def encode_envelope(
    payload: bytes | bytearray,
    file_type: FileType,
    spec_version: int,
    *,
    implementation: str = IMPLEMENTATION,
    level: int = LEVEL,
) -> bytes:
    import zstandard

    name = implementation.encode()
    if len(name) > 24:
        raise ValueError(f"the implementation name has {len(name)} bytes, more than 24")
    header = MAGIC + name.ljust(24) + bytes((spec_version, file_type, 1))
    return header + zstandard.ZstdCompressor(level=level).compress(payload)
