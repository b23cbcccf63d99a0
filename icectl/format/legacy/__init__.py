"""Decoders for the generations before FlatBuffers, which used MessagePack.

Every decoder takes the decompressed payload without header and raises only `FormatError`.
icectl does not write these generations.
"""

from icectl.format.legacy.layouts import guess_legacy_kind
from icectl.format.legacy.manifest import LegacyManifest, LegacyRef, decode_legacy_manifest
from icectl.format.legacy.snapshot import decode_legacy_snapshot
from icectl.format.legacy.transaction_log import (
    decode_legacy_attributes,
    decode_legacy_transaction_log,
)

__all__ = [
    "LegacyManifest",
    "LegacyRef",
    "decode_legacy_attributes",
    "decode_legacy_manifest",
    "decode_legacy_snapshot",
    "decode_legacy_transaction_log",
    "guess_legacy_kind",
]
