"""References compared by columns, row by row against the plain definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.format import manifest as manifests
from icectl.format.manifest import OpenManifest, encode_manifest
from icectl.model.ids import ManifestId, NodeId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans
from icectl.pipeline import coordinates as coordinate_sets
from icectl.pipeline import reference_changes
from icectl.pipeline.coordinates import CoordinateSet, coordinate_keys, distinct
from icectl.pipeline.reference_changes import (
    NotInOrderError,
    OrderedRefs,
    Side,
    compare_in_order,
    compare_references,
)
from tests.diff.facts import rows

Reference = tuple[RefKind, bytes, bytes, int, int, bytes, int]
"""kind, chunk id, content, offset, length, etag, last modified"""


def spans(values: list[bytes]) -> Spans:
    data = b"\0" + b"".join(values)
    lengths = np.array([len(value) for value in values], np.uint32)
    starts = np.cumsum([1, *lengths.tolist()])[:-1].astype(np.uint32)
    starts[lengths == 0] = 0
    return Spans(data, starts, lengths)


def part(references: dict[tuple[int, ...], Reference], dimensions: int = 1) -> Any:
    kinds, ids, content, offsets, lengths, etags, modified = (
        zip(*references.values(), strict=True) if references else ((),) * 7
    )
    refs = ChunkRefs(
        np.array([*references], np.uint32).reshape(len(references), dimensions),
        np.array(kinds, np.uint8),
        np.frombuffer(b"".join(ids), np.uint8).reshape(len(references), 12),
        np.array(offsets, np.uint64),
        np.array(lengths, np.uint64),
        spans([*content]),
        spans([*etags]) if any(etags) else None,
        np.array(modified, np.uint32) if any(modified) else None,
        None,
    )
    manifest = Manifest(2, ManifestId(bytes(12)), (ArrayManifest(NodeId(bytes(8)), refs),))
    return manifest, refs


def side(*parts: dict[tuple[int, ...], Reference], dimensions: int = 1) -> Side:
    return Side(tuple(part(references, dimensions) for references in parts))


native = st.tuples(
    st.just(RefKind.NATIVE),
    st.sampled_from([b"a" * 12, b"b" * 12, b"a" * 11 + b"b"]),
    st.just(b""),
    st.integers(0, 1),
    st.integers(0, 2),
    st.just(b""),
    st.just(0),
)
inline = st.tuples(
    st.just(RefKind.INLINE),
    st.just(bytes(12)),
    st.sampled_from([b"", b"x", b"y", b"xy", b"yx", b"\0x"]),
    st.just(0),
    st.just(0),
    st.just(b""),
    st.just(0),
)
virtual = st.tuples(
    st.just(RefKind.VIRTUAL),
    st.just(bytes(12)),
    st.sampled_from([b"s3://a", b"s3://b"]),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([b"", b"e", b"f"]),
    st.integers(0, 1),
)
references = st.dictionaries(
    st.tuples(st.integers(0, 6)), st.one_of(native, inline, virtual), max_size=8
)


def size(reference: Reference) -> int:
    return len(reference[2]) if reference[0] is RefKind.INLINE else reference[4]


@settings(max_examples=300, deadline=None)
@given(references, references, st.integers(0, 6), st.none() | st.sets(st.integers(0, 9)))
def test_equals_the_plain_definition(
    before: dict[Any, Reference], after: dict[Any, Reference], cut: int, chosen: set[int] | None
) -> None:
    halves = [
        {index: ref for index, ref in after.items() if (index[0] < cut) == low}
        for low in (True, False)
    ]
    only = None
    if chosen is not None:
        only = np.array(sorted(chosen), np.uint32).reshape(-1, 1)
    found = compare_references(side(before), side(*halves), only)

    def kept(indexes: Any) -> set[Any]:
        return {index for index in indexes if chosen is None or index[0] in chosen}

    added, deleted = kept(after.keys() - before.keys()), kept(before.keys() - after.keys())
    changed = kept(i for i in before.keys() & after.keys() if before[i] != after[i])
    assert rows(found.added) == added
    assert rows(found.deleted) == deleted
    assert rows(found.overwritten) == changed
    assert found.bytes_added == sum(size(after[index]) for index in added | changed)
    assert found.bytes_removed == sum(size(before[index]) for index in deleted | changed)


def opened(references: dict[Any, Reference]) -> OpenManifest:
    manifest, _ = part(references)
    return OpenManifest(encode_manifest(manifest))


@pytest.mark.parametrize("block", [1, 3, 100])
def test_blocks_in_order_equal_the_whole(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_changes, "BLOCK", block)

    @settings(max_examples=150, deadline=None)
    @given(references, references)
    def compare(before: dict[Any, Reference], after: dict[Any, Reference]) -> None:
        found = list(
            compare_in_order(
                *(OrderedRefs(opened(side), NodeId(bytes(8))) for side in (before, after))
            )
        )
        whole = compare_references(side(before), side(after))
        for kind in ("added", "overwritten", "deleted"):
            blocks = [rows(getattr(changes, kind)) for changes in found]
            assert set().union(*blocks) == rows(getattr(whole, kind))
            assert sum(map(len, blocks)) == len(getattr(whole, kind))
        assert sum(changes.bytes_added for changes in found) == whole.bytes_added
        assert sum(changes.bytes_removed for changes in found) == whole.bytes_removed

    compare()


@settings(max_examples=150, deadline=None)
@given(references, st.sets(st.integers(0, 9)))
def test_lookups_find_what_is_there(references: dict[Any, Reference], wanted: set[int]) -> None:
    manifest = opened(references)
    (span,) = manifest.spans(NodeId(bytes(8)))
    coordinates = np.array(sorted(wanted), np.uint32).reshape(-1, 1)
    found = manifest.find(span, coordinates)
    assert found is not None
    expected = {index: ref for index, ref in references.items() if index[0] in wanted}
    assert rows(found.coordinates) == set(expected)
    whole = Side(((manifest.manifest, found),))
    assert compare_references(side(expected), whole).is_empty
    assert not manifest.spans(NodeId(b"1" * 8))
    if references:
        assert manifest.find(span, np.zeros((1, 2), np.uint32)) is None


def test_references_out_of_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole manifest is compared then: what a reader finds there is another question."""
    monkeypatch.setattr(manifests, "coordinate_order", lambda rows: np.arange(len(rows)))
    reference: Reference = (RefKind.INLINE, bytes(12), b"x", 0, 0, b"", 0)
    unsorted = opened({(index,): reference for index in (0, 2, 1)})
    with pytest.raises(NotInOrderError):
        OrderedRefs(unsorted, NodeId(bytes(8)))


def test_other_dimensions_are_other_chunks() -> None:
    reference: Reference = (RefKind.INLINE, bytes(12), b"x", 0, 0, b"", 0)
    found = compare_references(
        side({(0,): reference, (1,): reference}), side({(0, 0): reference}, dimensions=2)
    )
    assert rows(found.deleted) == {(0,), (1,)}
    assert rows(found.added) == {(0, 0)}
    assert not len(found.overwritten)


def test_a_scalar_has_one_chunk() -> None:
    old: Reference = (RefKind.INLINE, bytes(12), b"x", 0, 0, b"", 0)
    new: Reference = (RefKind.INLINE, bytes(12), b"y", 0, 0, b"", 0)
    found = compare_references(side({(): old}, dimensions=0), side({(): new}, dimensions=0))
    assert found.overwritten.shape == (1, 0)
    assert not len(compare_references(side({(): old}, dimensions=0), Side(())).added)


@pytest.mark.parametrize("top", [5, 2**32 - 1])
def test_keys_are_ordered_like_coordinates(top: int) -> None:
    """With the largest coordinates the product of the dimensions is beyond 64 bits."""
    random = np.random.default_rng(0)
    values = np.array([0, 1, 2, top - 1, top], np.uint32)
    blocks = [values[random.integers(0, 5, (50, 3))] for _ in range(2)]
    keys = np.concatenate(coordinate_keys(*blocks)).tolist()
    coordinates = [tuple(row) for block in blocks for row in block.tolist()]
    for a, row_a in zip(keys, coordinates, strict=True):
        for b, row_b in zip(keys, coordinates, strict=True):
            assert (a < b) == (row_a < row_b)


def test_a_set_of_coordinates_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinate_sets, "ROWS_BEFORE_COMPACTING", 10)
    found = CoordinateSet()
    for number in range(200):
        assert found.add(np.array([[number % 7], [number % 3]], np.uint32))
        assert sum(map(len, found._blocks)) <= 40
    assert found.rows().tolist() == [[index] for index in range(7)]
    assert not found.add(np.array([[0, 0]], np.uint32))


def test_distinct_rows_are_in_order() -> None:
    found = distinct(np.array([[2, 0], [0, 9], [2, 0], [0, 1]], np.uint32))
    assert found.tolist() == [[0, 1], [0, 9], [2, 0]]
