"""Build `zarr.json` for generations that stored the Zarr metadata as structures."""

from __future__ import annotations

import json
import math

from icectl.errors import FormatError
from icectl.format.legacy.payload import (
    json_mapping,
    record,
    sequence,
    take,
    text,
    unsigned,
    variant,
)
from icectl.format.values import require_plain
from icectl.model.snapshot import DimensionShape

_METADATA = (
    (
        *("shape", "data_type", "chunk_shape", "chunk_key_encoding", "fill_value", "codecs"),
        *("storage_transformers", "dimension_names"),
    ),
)
_EXTENSION = (("name", "configuration"),)
_SEPARATORS = {"Slash": "/", "Dot": ".", "Default": "/"}


class ArrayMetadata:
    """The metadata of one array: the values that the snapshot needs, and the Zarr document."""

    def __init__(self, value: object) -> None:
        what = "the metadata of an array"
        fields = record(value, _METADATA, what)
        shape = _lengths(take(fields, "shape", what), "the shape of an array")
        chunk_shape = _lengths(take(fields, "chunk_shape", what), "the shape of the chunks")
        if len(shape) != len(chunk_shape) or 0 in chunk_shape:
            raise FormatError("the chunk shape of an array does not match its shape")
        self.shape = tuple(map(DimensionShape, shape, chunk_shape))
        self.dimension_names = _dimension_names(fields.get("dimension_names"), len(shape))
        encoding, _ = variant(take(fields, "chunk_key_encoding", what), "a chunk key encoding")
        if encoding not in _SEPARATORS:
            raise FormatError(f"unknown chunk key encoding {encoding!r}")
        self.document: dict[str, object] = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": _data_type(take(fields, "data_type", what)),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
            "chunk_key_encoding": {
                "name": "default",
                "configuration": {"separator": _SEPARATORS[encoding]},
            },
            "fill_value": _fill_value(take(fields, "fill_value", what)),
            "codecs": _extensions(take(fields, "codecs", what), "the codecs of an array"),
        }
        transformers = fields.get("storage_transformers")
        if transformers is not None:
            self.document["storage_transformers"] = _extensions(
                transformers, "the storage transformers of an array"
            )
        if self.dimension_names is not None:
            self.document["dimension_names"] = list(self.dimension_names)


def encode_zarr_json(document: dict[str, object], user_attributes: object) -> bytes:
    """Return the document, with the user attributes unless they are in a separate file."""
    if user_attributes is not None:
        choice, content = variant(user_attributes, "the attributes of a node")
        if choice == "Inline":
            attributes = json_mapping(content, "the attributes of a node")
            document = document | {"attributes": attributes}
        elif choice != "Ref":
            raise FormatError(f"unknown kind of attributes: {choice!r}")
    try:
        return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"the metadata of a node is not JSON: {error}") from error


def _lengths(value: object, what: str) -> list[int]:
    return [unsigned(length, what, 64) for length in sequence(value, what)]


def _dimension_names(value: object, dimensions: int) -> tuple[str | None, ...] | None:
    if value is None:
        return None
    what = "the dimension names of an array"
    names = tuple(None if name is None else text(name, what) for name in sequence(value, what))
    if len(names) != dimensions:
        raise FormatError(f"{what} do not match its shape")
    return names


def _data_type(value: object) -> str:
    name, size = variant(value, "a data type")
    if size is None:
        return name
    if name != "rawbits":
        raise FormatError(f"{name!r} is not a data type with a size")
    return f"r{unsigned(size, 'the size of a data type', 32)}"


def _fill_value(value: object) -> object:
    _, content = variant(value, "a fill value")
    if isinstance(content, list):
        require_plain(content)
        return [_number(item) for item in content]
    return _number(content)


def _number(value: object) -> object:
    """Return numbers that JSON lacks as the text that Zarr uses for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _extensions(value: object, what: str) -> list[dict[str, object]]:
    extensions: list[dict[str, object]] = []
    for item in sequence(value, what):
        fields = record(item, _EXTENSION, what)
        extension: dict[str, object] = {"name": text(take(fields, "name", what), what)}
        if fields.get("configuration") is not None:
            extension["configuration"] = json_mapping(fields["configuration"], what)
        extensions.append(extension)
    return extensions
