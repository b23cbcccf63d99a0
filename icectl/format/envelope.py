"""The envelope of a metadata file: header, compression, and what generation it belongs to.

The generation is recognised by the content: a header or none, its length, and the structure of
the payload. The specification's header has 39 bytes; an early draft had 27.
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
"""Of compression, as the official writers have it."""
IDENTIFIER = b"Ichk"
"""At payload[4:8] of what official writers make. No reader needs it."""
IMPLEMENTATION = f"icectl-{__version__}"

USUAL_RATIO = 32
SMALL_PAYLOAD = 2**16
# So much compressed input at once that even a bomb cannot unfold to much more than the limit.
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
    """Which family of writers a file comes from."""

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
    """As it is stored."""


def decode_header(data: bytes) -> tuple[Header, int] | None:
    """The header and its length, or None for a file without one (the first generation)."""
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
                f"the file is of spec version {spec_version}, which this icectl does not know",
                hint="a newer icectl may; if no newer writer was at work, the file is damaged",
            )
        if spec_version not in (1, 2):
            raise FormatError(
                f"the header names spec version {spec_version}", offset=SPEC_VERSION_OFFSET
            )
        if file_type not in FileType.__members__.values():
            raise FormatError(f"the header names file type {file_type}", offset=37)
        raise FormatError(f"the header names compression {compression}", offset=38)
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
    """Header, generation and decompressed payload of any metadata file."""
    found = decode_header(data)
    if found is None:
        # Positional msgpack begins with a small array or map.
        if not data or not 0x80 <= data[0] <= 0x9F:
            raise FormatError("this is no Icechunk metadata file", offset=0)
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
    """The generation of a file with a header, by the structure of its decompressed payload.

    A payload that is cut off behind its root table is recognised, too.
    """
    if spec_version == 2:
        return Generation.V2
    if payload[4:8] == IDENTIFIER or _has_root_table(payload):
        return Generation.V1
    if _is_msgpack(payload):
        return Generation.ALPHA_BINARY
    raise FormatError("the payload is neither flatbuffers nor msgpack", offset=0)


def _has_root_table(payload: bytes | bytearray) -> bool:
    """Whether the payload begins with the offset of a flatbuffers table and its vtable."""
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
    """Whether the payload is exactly one array or map in MessagePack."""
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
    """The envelope of a flatbuffers file that must be of one kind."""
    envelope = decode_envelope(data)
    if envelope.header is None or envelope.generation is Generation.ALPHA_BINARY:
        raise UnsupportedError(
            f"the file is of the generation {envelope.generation}",
            hint="Repositories of this generation can be read, not changed.",
        )
    if envelope.header.file_type != file_type:
        raise FormatError(
            f"the header says {_type_name(envelope.header.file_type)}, "
            f"expected {_type_name(file_type)}",
            offset=37,
        )
    return envelope


def _type_name(file_type: int) -> str:
    return FileType(file_type).name.lower().replace("_", " ")


def decompress(data: bytes, start: int) -> bytes | bytearray:
    """The one zstd frame from `start` to the end, with a hard limit on what it unfolds to."""
    import zstandard

    # In one piece when it fits the room that nearly all files need: memory that is not touched
    # costs nothing. Otherwise, and to tell what is wrong, piece by piece.
    frame = memoryview(data)[start:]
    room = min(max(SMALL_PAYLOAD, USUAL_RATIO * len(frame)), _limit(len(frame)))
    try:
        if zstandard.frame_content_size(frame) <= room:
            return _decompressor().decompress(frame, max_output_size=room, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError):
        pass
    payload, problem = decompress_what_there_is(data, start)
    if problem is not None:
        raise problem
    return payload


def _decompressor() -> zstandard.ZstdDecompressor:
    """One for each thread: making it takes longer than decompressing a small file."""
    import zstandard

    if not hasattr(_own, "decompressor"):
        _own.decompressor = zstandard.ZstdDecompressor()
    found: zstandard.ZstdDecompressor = _own.decompressor
    return found


def _limit(compressed: int) -> int:
    most = max(limits.PAYLOAD_BYTES_ALWAYS, limits.PAYLOAD_RATIO * compressed)
    return min(limits.PAYLOAD_BYTES, most)


def decompress_what_there_is(data: bytes, start: int) -> tuple[bytearray, FormatError | None]:
    """The payload as far as it can be had, and what kept it from being all.

    A decompressor of its own each time: one shared between threads corrupts data.
    """
    import zstandard

    limit = _limit(len(data) - start)
    stream = zstandard.ZstdDecompressor().decompressobj(write_size=2**18)
    view = memoryview(data)
    payload = bytearray()
    for position in range(start, len(data), _SLICE):
        if stream.eof:
            return payload, FormatError("there are bytes behind the zstd frame", offset=position)
        try:
            payload += stream.decompress(view[position : position + _SLICE])
        except (zstandard.ZstdError, MemoryError) as error:
            return payload, FormatError(f"zstd: {error}", offset=position)
        if len(payload) > limit:
            return payload, LimitExceededError(
                "PAYLOAD_RATIO",
                f"{len(data) - start:,} bytes unfold to more than {limit:,}",
                offset=position,
            )
    if not stream.eof:
        return payload, FormatError("the zstd frame is cut off", offset=len(data))
    if stream.unused_data:
        end = len(data) - len(stream.unused_data)
        return payload, FormatError("there are bytes behind the zstd frame", offset=end)
    return payload, None


def is_packed_anew(data: bytes) -> bool:
    """Whether compressing the payload again, at any level, gives the same bytes.

    Frames carry no checksum. A flipped bit mostly leaves a frame that no compressor would make,
    unless it stands in a literal. What another version of zstd made may differ as well.
    """
    import zstandard

    payload = decode_envelope(data).payload
    frame = memoryview(data)[HEADER_SIZE:]
    for level in sorted(range(1, 10 if len(payload) > 2**20 else 23), key=lambda one: one != LEVEL):
        if zstandard.ZstdCompressor(level=level).compress(payload) == frame:
            return True
        # Writers before 2.3 did not know the size beforehand.
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
        raise ValueError(f"implementation name of {len(name)} bytes")
    header = MAGIC + name.ljust(24) + bytes((spec_version, file_type, 1))
    return header + zstandard.ZstdCompressor(level=level).compress(payload)
