"""The rows of `stats`: one for each chunk object that a manifest refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icectl.model.manifest import Manifest
from icectl.ops.stats.locations import hash_text
from icectl.ops.stats.summing import (
    FILES,
    NATIVE,
    VIRTUAL,
    ManifestNote,
    SumManifests,
    UsedManifest,
    mask_names,
    mask_words,
)
from icectl.pipeline.engine import Columns, Rows
from icectl.pipeline.manifest_sums import ArraySums, sum_manifest

_MIXER = np.uint64(0x9E3779B97F4A7C15)


def manifest_rows(plan: SumManifests, used: UsedManifest, manifest: Manifest) -> Iterator[Any]:
    sums = sum_manifest(manifest)
    inline = []
    containers: dict[int, tuple[str, bool]] = {}
    for array in sums.arrays:
        place = plan.places.get(array.node_id, plan.num_arrays)
        if array.num_inline:
            inline.append((place, array.num_inline, array.inlined_bytes))
        native: Columns = {"high": array.chunk_high, "low": array.chunk_low}
        native |= {"length": array.native_length}
        yield Rows(NATIVE, native | _values(plan, used, place, len(array.native_length)))
        if array.locations:
            yield from _virtual_rows(plan, used, place, array, containers)
    total = min(sum(sums.bytes()), 2**63 - 1)  # damaged lengths
    yield ManifestNote(used.number, total, tuple(inline), containers)


def _virtual_rows(
    plan: SumManifests,
    used: UsedManifest,
    place: int,
    array: ArraySums,
    containers: dict[int, tuple[str, bool]],
) -> Iterator[Rows]:
    found = [plan.locations.find(location, plan.containers) for location in array.locations]
    locations = np.array([key for key, _ in found], np.uint64)
    numbers = np.array([number for _, number in found], np.intp)
    names = plan.locations.containers
    keys = np.zeros(len(names), np.uint64)
    for number in np.unique(numbers).tolist():
        prefix, is_configured = names[number]
        key = hash_text(f"{int(is_configured)}{prefix}")
        keys[number] = key
        containers[key] = prefix, is_configured
    container_of = keys[numbers]
    none = np.zeros(len(locations), np.uint64)
    yield Rows(FILES, {"high": locations, "low": none, "container": container_of.copy()})
    high = _mix(locations[array.location], array.virtual_offset, array.virtual_length)
    virtual: Columns = {"high": high, "low": array.virtual_offset}
    virtual |= {"length": array.virtual_length, "container": container_of[array.location]}
    yield Rows(VIRTUAL, virtual | _values(plan, used, place, len(high)))


def _mix(
    location: NDArray[np.uint64], offset: NDArray[np.uint64], length: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """A key of 8 bytes; for one location, different offsets of a length have different keys.

    Overwrites `location`: temporary arrays would determine the peak memory.
    """
    key = location
    key ^= offset
    key *= _MIXER
    key ^= key >> np.uint64(32)
    key ^= length
    key *= _MIXER
    key ^= key >> np.uint64(29)
    return key


def _values(plan: SumManifests, used: UsedManifest, place: int, rows: int) -> Columns:
    count = plan.breakdown.num_masks
    masks = zip(mask_names(count), mask_words(used.mask, count), strict=True)
    values: Columns = {"array": np.full(rows, place, np.int32)}
    if plan.breakdown.by_snapshot:
        values["first"] = np.full(rows, used.first, np.int32)
        values["last"] = np.full(rows, used.last, np.int32)
    return values | {name: np.full(rows, word, np.uint64) for name, word in masks}
