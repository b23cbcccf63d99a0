"""Limits that keep memory and time in proportion to the stored size of a file.

A file of a few kilobytes can decompress to gigabytes, point at the same bytes a million times, or
claim a million dimensions. Each limit is far above what the official package writes, measured
on its most repetitive repositories: a million references to one file, ten thousand groups with
equal attributes, arrays of 32 dimensions, hundreds of commits with equal metadata. Their
snapshots have up to 0.25 tables per byte and decompress to up to 270 times their size.

A file that exceeds a limit is refused with `LimitExceededError`, which names the limit.
"""

from __future__ import annotations

from typing import Final

from icectl.errors import LimitExceededError

KIB: Final = 2**10
MIB: Final = 2**20

FILE_BYTES: Final = 2**30
"""Stored size of a metadata file."""

PAYLOAD_BYTES: Final = 2**31 - 1
"""Size of a decompressed payload: a flatbuffer cannot be larger, its offsets have 31 bits."""
PAYLOAD_BYTES_ALWAYS: Final = 64 * MIB
"""Every file may decompress to this size."""
PAYLOAD_RATIO: Final = 2_000
"""Beyond that, a file may decompress to this many bytes per stored byte."""

TABLES_ALWAYS: Final = 16 * KIB
TABLES_PER_BYTE: Final = 2
"""Flatbuffers tables that become Python objects, per stored byte of the file."""
ELEMENTS_ALWAYS: Final = 256 * KIB
ELEMENTS_PER_BYTE: Final = 16
"""The same for ids, numbers and strings in vectors. Forked histories repeat lists of ids."""
VTABLES: Final = 1024
"""Vtables of one kind of table in a file; writers share them and need a handful."""
VTABLE_FIELDS: Final = 256
"""Fields in one vtable, known and unknown; tables in the specification have up to 14."""
READS_PER_BYTE: Final = 4
"""Average number of reads per byte of a payload; shared data is read more than once."""

PROBLEMS: Final = 1_000
"""Problems that `inspect-file` collects from one damaged file."""

DIMENSIONS: Final = 1024
"""Dimensions of an array. NumPy allows 64."""
LOCATION_BYTES: Final = 64 * KIB
"""Decompressed size of one virtual location; longer than any URL."""
LOCATIONS_BYTES_ALWAYS: Final = 64 * MIB
LOCATIONS_RATIO: Final = 64
"""Decompressed size of all compressed locations of an array: LOCATIONS_BYTES_ALWAYS, or this many
bytes per stored byte. Each distinct location takes 20 bytes or more."""

VALUE_BYTES: Final = 4 * MIB
"""Encoded size of a configuration, or of all metadata of one commit."""
ZARR_JSON_BYTES: Final = 16 * MIB
"""Size of the `zarr.json` of one node."""
CONFIG_YAML_BYTES: Final = 512 * KIB
REF_BYTES: Final = MIB

CHUNK_BYTES_ALWAYS: Final = 128 * MIB
CHUNK_RATIO: Final = 1_000
"""Decoded size of a chunk under `validate --decode`: CHUNK_BYTES_ALWAYS, or this many bytes per
stored byte. Larger chunks are reported as not decoded."""

MESSAGE_CHARACTERS: Final = 4_000
"""Length of an error message or of the detail of a finding; longer ones are shortened."""


def require(limit: str, value: int, most: int, what: str, *, offset: int | None = None) -> None:
    """Raise `LimitExceededError` if `value` is more than `most`, the value of `limit`."""
    if value > most:
        raise LimitExceededError(limit, f"{what} {value:,}, more than {most:,}", offset=offset)


def shorten(text: str, most: int = MESSAGE_CHARACTERS) -> str:
    """Return the text, without its middle if it has more than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} characters) ... {text[-half:]}"
