"""Limits on what icectl reads: memory and time stay in proportion to the size of a file on disk.

A file of a few kilobytes can unfold to gigabytes, point at the same bytes a million times, or
claim a million dimensions. Each limit is far above what the official package writes, measured
on its most repetitive repositories: a million references to one file, ten thousand groups with
equal attributes, arrays of 32 dimensions, hundreds of commits with equal metadata. There a
snapshot has up to 0.25 tables for each byte of its file and unfolds up to 270 times.

A file that exceeds one is refused with `LimitExceededError`, whose message names the limit.
"""

from __future__ import annotations

from typing import Final

from icectl.errors import LimitExceededError

KIB: Final = 2**10
MIB: Final = 2**20

FILE_BYTES: Final = 2**30
"""Of a metadata file as it is stored."""

PAYLOAD_BYTES: Final = 2**31 - 1
"""Of a decompressed payload: a flatbuffer cannot be larger, its offsets have 31 bits."""
PAYLOAD_BYTES_ALWAYS: Final = 64 * MIB
"""So much every file may unfold to, and above that ..."""
PAYLOAD_RATIO: Final = 2_000
"""... so many bytes for each stored byte."""

TABLES_ALWAYS: Final = 16 * KIB
TABLES_PER_BYTE: Final = 2
"""Tables of a flatbuffer that become one object each, for each stored byte of the file."""
ELEMENTS_ALWAYS: Final = 256 * KIB
ELEMENTS_PER_BYTE: Final = 16
"""Ids, numbers and strings in vectors, likewise. Forked histories repeat lists of ids."""
VTABLES: Final = 1024
"""Layouts of one kind of table in a file; writers share them and need a handful."""
VTABLE_FIELDS: Final = 256
"""Fields in one of them, known and unknown; a table of the specification has up to 14."""
READS_PER_BYTE: Final = 4
"""How often the bytes of a payload may be read on average, by references to shared data."""

PROBLEMS: Final = 1_000
"""Noted by `inspect-file` about one damaged file."""

DIMENSIONS: Final = 1024
"""Of an array. NumPy has 64."""
LOCATION_BYTES: Final = 64 * KIB
"""Of one virtual location, decompressed; longer than any URL."""
LOCATIONS_BYTES_ALWAYS: Final = 64 * MIB
LOCATIONS_RATIO: Final = 64
"""Of all locations of an array that a manifest compresses: so much, or so many bytes for each
stored byte. A distinct one takes 20 bytes or more."""

VALUE_BYTES: Final = 4 * MIB
"""Of a configuration, or of all metadata of one commit, encoded."""
ZARR_JSON_BYTES: Final = 16 * MIB
"""Of the `zarr.json` of one node."""
CONFIG_YAML_BYTES: Final = 512 * KIB
REF_BYTES: Final = MIB

CHUNK_BYTES_ALWAYS: Final = 128 * MIB
CHUNK_RATIO: Final = 1_000
"""What a chunk may decode to under `validate --decode`: so much, or so many bytes for each
stored byte. Larger ones are reported as not decoded."""

MESSAGE_CHARACTERS: Final = 4_000
"""Of an error message or of the detail of a finding; the rest is left out."""


def require(limit: str, value: int, most: int, what: str, *, offset: int | None = None) -> None:
    """`LimitExceededError` when `value` is more than `most`, the limit of this name."""
    if value > most:
        raise LimitExceededError(limit, f"{what} {value:,}, more than {most:,}", offset=offset)


def shorten(text: str, most: int = MESSAGE_CHARACTERS) -> str:
    """The text, cut in the middle where it is longer than a message may be."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} characters) ... {text[-half:]}"
