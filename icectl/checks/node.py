"""A node of a snapshot compared with its own zarr.json, and its extents with its grid. Pure.

Results are cached, since most nodes are the same in many snapshots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from icectl import limits
from icectl.checks import rules
from icectl.checks.rules import Rule
from icectl.errors import LimitExceededError
from icectl.model.snapshot import (
    ArrayNodeData,
    GroupNodeData,
    ManifestRef,
    NodeSnapshot,
    UnknownNodeData,
)

NODES_CACHED = 2**16
_IRRELEVANT_TO_CODECS = ("shape", "dimension_names", "attributes")


@lru_cache(NODES_CACHED)
def check_node(node: NodeSnapshot) -> tuple[tuple[Rule, str], ...]:
    """The broken rules, each with its detail."""
    data = node.node_data
    extents = (
        _check_extents(data.manifests, data.num_chunks) if isinstance(data, ArrayNodeData) else ()
    )
    return (*_check(node), *extents)


def _check(node: NodeSnapshot) -> Iterator[tuple[Rule, str]]:
    if not is_canonical(node.path):
        yield rules.NODE_PATH, f"{node.path!r}"
    if isinstance(node.node_data, UnknownNodeData):
        yield rules.NODE_UNKNOWN, unknown_kind(node.node_data)
        return
    try:
        metadata = load_zarr_json(node.user_data)
    except LimitExceededError as error:
        yield rules.ZARR_METADATA, error.reason
        return
    except (ValueError, RecursionError) as error:
        yield rules.ZARR_METADATA, f"it is not JSON: {error}"
        return
    if not isinstance(metadata, dict):
        yield rules.ZARR_METADATA, "it is not a JSON object"
        return
    expected = "group" if isinstance(node.node_data, GroupNodeData) else "array"
    if metadata.get("node_type") != expected:
        yield (
            rules.ZARR_METADATA,
            f"its node_type is {metadata.get('node_type')!r}, expected {expected!r}",
        )
    elif metadata.get("zarr_format") != 3:
        yield rules.ZARR_METADATA, f"its zarr_format is {metadata.get('zarr_format')!r}"
    elif isinstance(node.node_data, ArrayNodeData):
        yield from _check_array(node.node_data, metadata)


def unknown_kind(data: UnknownNodeData) -> str:
    return f"a node of kind {data.type_code}"


def load_zarr_json(data: bytes) -> Any:
    limits.require("ZARR_JSON_BYTES", len(data), limits.ZARR_JSON_BYTES, "its bytes are")
    return json.loads(data)


def is_canonical(path: str) -> bool:
    if path == "/":
        return True
    return path.startswith("/") and all(part not in ("", ".", "..") for part in path[1:].split("/"))


def _check_array(data: ArrayNodeData, metadata: dict[str, Any]) -> Iterator[tuple[Rule, str]]:
    shape = list(data.array_shape)
    if metadata.get("shape") != shape:
        yield rules.ZARR_SHAPE, f"shape {shape}, in zarr.json {metadata.get('shape')}"
        return
    names = metadata.get("dimension_names")
    if _present(data.dimension_names) != _present(names):
        own = None if data.dimension_names is None else list(data.dimension_names)
        yield rules.ZARR_SHAPE, f"dimension names {own}, in zarr.json {names}"
    if not _is_named(metadata.get("chunk_grid")):
        yield rules.ZARR_METADATA, f"its chunk_grid is {metadata.get('chunk_grid')!r}"
    codecs = metadata.get("codecs")
    if not isinstance(codecs, list) or not codecs or not all(map(_is_named, codecs)):
        yield rules.ZARR_METADATA, f"its codecs are {codecs!r}"
    chunks = regular_chunks(metadata)
    if chunks is None or data.shape_v2 is None:
        return
    if len(chunks) != len(shape) or not all(type(size) is int and size > 0 for size in chunks):
        yield rules.ZARR_METADATA, f"chunks of shape {chunks} for an array of shape {shape}"
        return
    grid = tuple(-(-length // size) for length, size in zip(shape, chunks, strict=True))
    if grid != data.num_chunks:
        yield rules.ZARR_SHAPE, f"{data.num_chunks} chunks, according to zarr.json {grid}"


def _present(names: Any) -> Any:
    """The names as official writers store them: empty names, and lists of them, are absent."""
    if not isinstance(names, list | tuple):
        return names
    return [name or None for name in names] if any(names) else None


@lru_cache(NODES_CACHED)
def decoding_part(zarr_json: bytes) -> bytes:
    """The document without the frequently changed fields that do not affect decoding."""
    try:
        document = load_zarr_json(zarr_json)
    except (ValueError, RecursionError, LimitExceededError):
        return zarr_json
    if not isinstance(document, dict):
        return zarr_json
    kept = {name: value for name, value in document.items() if name not in _IRRELEVANT_TO_CODECS}
    return json.dumps(kept).encode()


def _is_named(extension: object) -> bool:
    """Whether this is what zarr calls an extension: a name, or an object with a name."""
    name = extension.get("name") if isinstance(extension, dict) else extension
    return isinstance(name, str)


def regular_chunks(metadata: dict[str, Any]) -> list[int] | None:
    """The chunk shape of a regular grid; None for any other kind of grid."""
    grid = metadata.get("chunk_grid")
    if not isinstance(grid, dict) or grid.get("name") != "regular":
        return None
    configuration = grid.get("configuration")
    chunks = configuration.get("chunk_shape") if isinstance(configuration, dict) else None
    return chunks if isinstance(chunks, list) else []


def _check_extents(
    manifests: tuple[ManifestRef, ...], num_chunks: tuple[int, ...]
) -> Iterator[tuple[Rule, str]]:
    for manifest in manifests:
        ranges = [(extent.from_, extent.to) for extent in manifest.extents]
        if len(ranges) != len(num_chunks) or any(start >= end for start, end in ranges):
            yield (
                rules.EXTENTS_SHAPE,
                f"{_shown(manifest)} in an array of {len(num_chunks)} dimensions",
            )
            return
        if any(end > count for (_, end), count in zip(ranges, num_chunks, strict=True)):
            yield rules.EXTENTS_GRID, f"{_shown(manifest)} in a grid of {list(num_chunks)} chunks"
    pair = _first_overlap(manifests)
    if pair is not None:
        yield rules.EXTENTS_OVERLAP, f"{_shown(pair[0])} and {_shown(pair[1])}"


def _shown(manifest: ManifestRef) -> str:
    ranges = ", ".join(f"{extent.from_}:{extent.to}" for extent in manifest.extents)
    return f"{manifest.object_id} covers [{ranges}]"


def _first_overlap(manifests: tuple[ManifestRef, ...]) -> tuple[ManifestRef, ManifestRef] | None:
    """Sweeps along the dimension with the most distinct starts."""
    if len(manifests) < 2:
        return None
    dimensions = range(len(manifests[0].extents))
    if not dimensions:
        return manifests[0], manifests[1]
    axis = max(dimensions, key=lambda d: len({m.extents[d].from_ for m in manifests}))
    ordered = sorted(manifests, key=lambda one: one.extents[axis].from_)
    starts, ends = (
        np.array([[getattr(one, name) for one in manifest.extents] for manifest in ordered])
        for name in ("from_", "to")
    )
    inside = np.empty(0, np.intp)
    for number in range(len(ordered)):
        inside = inside[ends[inside, axis] > starts[number, axis]]
        shared = (starts[inside] < ends[number]) & (starts[number] < ends[inside])
        found = np.flatnonzero(shared.all(axis=1))
        if len(found):
            return ordered[inside[found[0]]], ordered[number]
        inside = np.append(inside, number)
    return None
