"""Codecs of zarr that stop when a chunk decompresses to more than its array can hold.

zarr's own codecs allocate as much as the bytes claim. These replace them through zarr's
configuration, inside shards as well: they inspect the bytes first, then call the original codec.
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
"""Allowance for headers and shard indexes."""
PIECE = 512
"""Bytes of compressed input per step: with zstd, these decompress to 16 MB at most."""

Measure = Callable[[bytes, int], int]
"""The decompressed size of the data, measured no further than the given number of bytes."""


class BoundExceededError(ValueError):
    """The bytes of a chunk decompress to more than its array can hold."""


class Budget:
    """The bytes that one chunk may still decompress to, over all its codecs and inner chunks."""

    def __init__(self) -> None:
        self.left = 0
        self.lock = Lock()
        """Held while a chunk is decoded, because all codecs share the budget."""

    def spend(self, size: int, most: int) -> None:
        if size > min(most, self.left):
            raise BoundExceededError("its bytes decompress to more than its zarr.json allows")
        self.left -= size


def decoded_bytes(shape: tuple[int, ...], dtype: Any) -> int | None:
    """The size of a chunk of this shape; None if elements differ in size."""
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
        except Exception:  # not in this version of zarr: an array that needs it fails anyway
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

    # zarr compares names, and selects by module and name.
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
    """Decodes the data, since there is no cheaper way to find its size."""
    most = _most(shared, spec)
    decoded = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    shared.spend(len(decoded), most)
    return decoded


def _count_strings(shared: Budget, data: bytes, spec: Any) -> None:
    """The chunk begins with the number of its elements, and the codec allocates that many."""
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
        return 0  # the codec reports it
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
            return 0  # the codec reports it
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
