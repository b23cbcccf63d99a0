"""The fields of the top-level structure of a legacy file, and their order.

The layout alone determines the kind of a file without a header: no two layouts match the same
payload. The shape of a layout has one pattern for each field: i(nteger), t(ext), b(ytes), l(ist),
m(ap), n(othing).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from icectl.errors import FormatError
from icectl.format.legacy.payload import Pairs, unpack

Kind = Literal["snapshot", "manifest", "transaction_log", "attributes"]

_ID = "[tbl]"


@dataclass(frozen=True, slots=True)
class Layout:
    kind: Kind
    shape: str
    names: tuple[str, ...]


_HISTORY = (
    *("total_parents", "short_term_parents", "short_term_history"),
    *("metadata", "started_at", "properties", "nodes"),
)
_FILES = ("manifest_files", "attribute_files")
_CHANGES = (
    *("new_groups", "new_arrays", "deleted_groups", "deleted_arrays"),
    *("updated_user_attributes", "updated_zarr_metadata", "updated_chunks"),
)
_EARLY_CHANGES = (
    *("new_groups", "new_arrays", "updated_user_attributes", "updated_zarr_metadata"),
    *("updated_chunks", "deleted_paths", "deleted_groups", "deleted_arrays"),
)
_VERSION, _FLAGS = "format_version", "format_flags"

LAYOUTS = (
    Layout("snapshot", "iilltmm", _HISTORY),
    Layout("snapshot", "imlliilltmm", (_VERSION, _FLAGS, *_FILES, *_HISTORY)),
    Layout("snapshot", "lliilltmm", (*_FILES, *_HISTORY)),
    Layout(
        "snapshot",
        f"{_ID}(?:n|{_ID})ttmllm",
        ("id", "parent_id", "flushed_at", "message", "metadata", *_FILES, "nodes"),
    ),
    Layout("manifest", "m", ("chunks",)),
    Layout("manifest", "imm", (_VERSION, _FLAGS, "chunks")),
    Layout("manifest", f"im{_ID}m", (_VERSION, _FLAGS, "id", "chunks")),
    Layout("manifest", f"{_ID}m", ("id", "chunks")),
    Layout("transaction_log", "immllmlmm", (_VERSION, *_EARLY_CHANGES)),
    Layout("transaction_log", "illllllm", (_VERSION, *_CHANGES)),
    Layout("transaction_log", "llllllm", _CHANGES),
)

_SIGNATURES: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("snapshot", frozenset({"metadata", "nodes"})),
    ("transaction_log", frozenset({"new_groups", "new_arrays", "updated_chunks"})),
    ("manifest", frozenset({"chunks"})),
)


def guess_legacy_kind(payload: bytes | bytearray) -> Kind:
    """Return the kind of the file, determined by its content."""
    return read_top(payload)[0]


def read_fields(payload: bytes | bytearray, kind: Kind) -> dict[str, object]:
    """Return the fields of the top-level structure by name; the file must be of this kind."""
    found, fields = read_top(payload)
    if found != kind:
        raise FormatError(f"expected a {kind}, but the content looks like a {found}")
    return fields


def read_top(payload: bytes | bytearray) -> tuple[Kind, dict[str, object]]:
    value = unpack(payload)
    if isinstance(value, dict):
        for kind, signature in _SIGNATURES:
            if signature <= value.keys():
                return kind, value
        return "attributes", value
    if isinstance(value, list) and not isinstance(value, Pairs):
        shape = "".join(map(_letter, value)) if len(value) < 16 else ""
        for layout in LAYOUTS:
            if re.fullmatch(layout.shape, shape):
                return layout.kind, dict(zip(layout.names, value, strict=True))
    raise FormatError("the content does not match the layout of any known writer", offset=0)


def _letter(value: object) -> str:
    if isinstance(value, dict | Pairs):
        return "m"
    for kind, letter in ((bool, "?"), (int, "i"), (str, "t"), (bytes, "b"), (list, "l")):
        if isinstance(value, kind):
            return letter
    return "n" if value is None else "?"
