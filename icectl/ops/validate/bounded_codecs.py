"""Codecs of zarr that stop when a chunk unfolds to more than its array says.

zarr's own allocate what the bytes claim. These take their place by zarr's own configuration,
inside shards as well, look at the bytes first, and then let the original decode them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import struct
import zlib
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

from icectl import limits

SLACK = limits.MIB
"""What headers and shard indexes may add."""
PIECE = 512
"""Of compressed input at once: even in zstd it unfolds to 16 MB at most."""

Measure = Callable[[bytes, int], int]
"""How many bytes the data unfolds to, looking no further than the given number."""


class BoundExceededError(ValueError):
    """The bytes of a chunk unfold to more than its array says."""


class Budget:
    """What one chunk may still unfold to, over all its codecs and inner chunks."""

    def __init__(self) -> None:
        self.left = 0
        self.lock = Lock()
        """To be held while a chunk is decoded: all codecs share the budget."""

    def spend(self, size: int, most: int) -> None:
        if size > min(most, self.left):
            raise BoundExceededError("its bytes unfold to more than its zarr.json says")
        self.left -= size


def decoded_bytes(shape: tuple[int, ...], dtype: Any) -> int | None:
    """What a chunk of the shape takes; None where elements differ in size."""
    native = dtype.to_native_dtype()
    if native.hasobject or native.kind == "T":
        return None
    return math.prod(shape) * int(native.itemsize)


@cache
def budget() -> Budget:
    """The budget of all bounded codecs of this process, which decodes one chunk at a time."""
    _install(found := Budget())
    return found


def _install(shared: Budget) -> None:
    import zarr
    from zarr.registry import get_codec_class, register_codec

    for name, check in _CHECKS.items():
        try:
            codec = get_codec_class(name)
        except Exception:  # not in this version of zarr: an array that needs it fails as ever
            continue
        bounded = _bounded(codec, check, shared)
        register_codec(name, bounded)
        zarr.config.set({f"codecs.{name}": f"{bounded.__module__}.{bounded.__qualname__}"})


def _bounded(
    codec: Any, check: Callable[[Budget, bytes, Any], bytes | None], shared: Budget
) -> Any:
    def decode(self: Any, data: Any, spec: Any) -> Any:
        decoded = check(shared, data.to_bytes(), spec)
        return None if decoded is None else spec.prototype.buffer.from_bytes(decoded)

    class Bounded(codec):  # type: ignore[misc]
        def _decode_sync(self, data: Any, spec: Any) -> Any:
            decoded = decode(self, data, spec)
            return super()._decode_sync(data, spec) if decoded is None else decoded

        async def _decode_single(self, data: Any, spec: Any) -> Any:
            decoded = decode(self, data, spec)
            return await super()._decode_single(data, spec) if decoded is None else decoded

    # zarr compares names, and chooses by module and name.
    Bounded.__name__ = Bounded.__qualname__ = codec.__name__
    return Bounded


def _most(shared: Budget, spec: Any) -> int:
    size = decoded_bytes(spec.shape, spec.dtype)
    return shared.left if size is None else min(shared.left, 2 * size + SLACK)


def _by(measure: Measure) -> Callable[[Budget, bytes, Any], bytes | None]:
    def check(shared: Budget, data: bytes, spec: Any) -> None:
        most = _most(shared, spec)
        shared.spend(measure(data, most), most)

    return check


def _gunzip(shared: Budget, data: bytes, spec: Any) -> bytes:
    """Decoded here: the size is not to be had for less."""
    most = _most(shared, spec)
    decoded = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    shared.spend(len(decoded), most)
    return decoded


def _count_strings(shared: Budget, data: bytes, spec: Any) -> None:
    """The chunk begins with the number of its elements, for which a list is made."""
    count = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
    if count > math.prod(spec.shape):
        raise BoundExceededError(f"it claims {count:,} elements, its shape is {spec.shape}")


def _of_zstd(data: bytes, most: int) -> int:
    import zstandard

    try:
        size = zstandard.frame_content_size(data)
        if size >= 0:
            return size
        stream = zstandard.ZstdDecompressor().decompressobj()
        total = 0
        for position in range(0, len(data), PIECE):
            if stream.eof or total > most:
                break
            total += len(stream.decompress(data[position : position + PIECE]))
    except zstandard.ZstdError:
        return 0  # for the codec to say
    return total


def _of_stream(new: Callable[[], Any]) -> Measure:
    def measure(data: bytes, most: int) -> int:
        stream, total, rest = new(), 0, data
        try:
            while total <= most and not stream.eof:
                part = stream.decompress(rest, limits.MIB)
                rest = getattr(stream, "unconsumed_tail", b"")
                if not part and not rest:
                    break
                total += len(part)
        except (zlib.error, OSError, lzma.LZMAError, EOFError):
            return 0  # for the codec to say
        return total

    return measure


def _at(offset: int) -> Measure:
    def measure(data: bytes, most: int) -> int:
        return int.from_bytes(data[offset : offset + 4], "little")

    return measure


_CHECKS: dict[str, Callable[[Budget, bytes, Any], bytes | None]] = {
    "zstd": _by(_of_zstd),
    "numcodecs.zstd": _by(_of_zstd),
    "gzip": _gunzip,
    "numcodecs.gzip": _gunzip,
    "numcodecs.zlib": _by(_of_stream(zlib.decompressobj)),
    "numcodecs.bz2": _by(_of_stream(bz2.BZ2Decompressor)),
    "numcodecs.lzma": _by(_of_stream(lzma.LZMADecompressor)),
    "blosc": _by(_at(4)),
    "numcodecs.blosc": _by(_at(4)),
    "numcodecs.lz4": _by(_at(0)),
    "vlen-utf8": _count_strings,
    "vlen-bytes": _count_strings,
}
