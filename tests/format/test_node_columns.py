"""Snapshots as columns: the same content as objects, and the same refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from icectl.errors import FormatError, UnsupportedError
from icectl.format import node_columns
from icectl.format.node_columns import decode_snapshot_columns
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.model.node_columns import SnapshotColumns, columns_of
from icectl.model.snapshot import ArrayNodeData, GroupNodeData, Snapshot, UnknownNodeData
from tests.format.damaged_files import MUTATIONS, SHARED_FIXTURES, is_legacy, mutations
from tests.format.strategies import FAST, snapshots


@pytest.fixture(autouse=True, scope="module")
def decode_small_snapshots_by_columns() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_columns, "SMALL_PAYLOAD", 0)
        yield


def assert_same(columns: SnapshotColumns, snapshot: Snapshot) -> None:
    for name in ("spec_version", "id", "parent_id", "flushed_at", "message", "metadata", "extra"):
        assert getattr(columns, name) == getattr(snapshot, name)
    assert columns.unknown_fields == snapshot.unknown_fields
    assert columns.num_manifest_files_v1 == len(snapshot.manifest_files)
    assert columns.has_manifest_files_v2 == (snapshot.manifest_files_v2 is not None)
    files = [
        (file.id, file.size_bytes, file.num_chunk_refs) for file in snapshot.all_manifest_files
    ]
    infos = columns.manifest_files.infos()
    assert [(file.id, file.size_bytes, file.num_chunk_refs) for file in infos] == files
    nodes = columns.nodes
    assert [nodes.read(row) for row in range(len(nodes))] == list(snapshot.nodes)
    assert nodes.ids() == [node.id for node in snapshot.nodes]
    assert nodes.paths() == [node.path for node in snapshot.nodes]
    assert nodes.user_data.to_list() == [node.user_data for node in snapshot.nodes]
    for row, node in enumerate(snapshot.nodes):
        assert_same_data(columns, row, node.node_data)


def assert_same_data(
    columns: SnapshotColumns, row: int, data: ArrayNodeData | GroupNodeData | UnknownNodeData
) -> None:
    nodes = columns.nodes
    dimensions = slice(nodes.first_dimension[row], nodes.first_dimension[row + 1])
    manifests = range(nodes.first_manifest[row], nodes.first_manifest[row + 1])
    if not isinstance(data, ArrayNodeData):
        code = data.type_code if isinstance(data, UnknownNodeData) else node_columns.GROUP
        assert nodes.kind[row] == code
        assert not manifests
        assert not len(nodes.array_length[dimensions])
        return
    assert nodes.kind[row] == node_columns.ARRAY
    assert tuple(nodes.array_length[dimensions].tolist()) == data.array_shape
    assert tuple(nodes.num_chunks[dimensions].tolist()) == data.num_chunks
    assert nodes.uses_shape_v1[row] == bool(data.shape)
    assert nodes.has_shape_v2[row] == (data.shape_v2 is not None)
    assert [nodes.manifest_id[ref].tobytes() for ref in manifests] == [
        ref.object_id for ref in data.manifests
    ]
    extents = [
        nodes.extents[nodes.first_extent[ref] : nodes.first_extent[ref + 1]].tolist()
        for ref in manifests
    ]
    assert extents == [[[one.from_, one.to] for one in ref.extents] for ref in data.manifests]


@FAST
@given(snapshots)
def test_arbitrary_snapshots(snapshot: Snapshot) -> None:
    decoded, converted = decode_snapshot_columns(encode_snapshot(snapshot)), columns_of(snapshot)
    assert_same(decoded, snapshot)
    assert_same(converted, snapshot)
    assert_same_contents(decoded, converted)


def assert_same_contents(first: SnapshotColumns, second: SnapshotColumns) -> None:
    """Their nodes are equal where `contents` says so, unless an array has two shapes."""
    contents = zip(first.nodes.contents(), second.nodes.contents(), strict=False)
    for row, (mine, other) in enumerate(contents):
        nodes = first.nodes, second.nodes
        same = nodes[0].read(row) == nodes[1].read(row)
        strange = all(one.uses_shape_v1[row] and one.has_shape_v2[row] for one in nodes)
        assert (mine == other) == (same and not strange)


def snapshot_files(directory: Path) -> list[Path]:
    files = sorted(directory.glob("**/snapshots/*"))
    return [file for file in files if not is_legacy(file.read_bytes())]


def test_snapshots_of_official_releases() -> None:
    files = snapshot_files(SHARED_FIXTURES)
    for file in files:
        data = file.read_bytes()
        assert_same(decode_snapshot_columns(data), decode_snapshot(data))
    assert files or not SHARED_FIXTURES.exists()


@pytest.mark.parametrize("spec_version", [1, 2])
def test_random_histories(spec_version: int, tmp_path: Path) -> None:
    from tests.official import random_history

    for seed in range(4):
        random_history(tmp_path / str(seed), seed, 40, spec_version)
    for file in snapshot_files(tmp_path):
        data = file.read_bytes()
        assert_same(decode_snapshot_columns(data), decode_snapshot(data))


def decoded(decode: Callable[[bytes], object], data: bytes) -> object:
    try:
        return decode(data)
    except (FormatError, UnsupportedError) as error:
        return type(error)


def check_damage(file: Path, count: int) -> None:
    whole = decode_snapshot_columns(file.read_bytes())
    for number, damaged in enumerate(mutations(file.name, file.read_bytes(), count)):
        columns, snapshot = (
            decoded(decode, damaged) for decode in (decode_snapshot_columns, decode_snapshot)
        )
        if isinstance(columns, SnapshotColumns) and isinstance(snapshot, Snapshot):
            assert_same(columns, snapshot)
            assert_same_contents(whole, columns)
        else:
            # A file with several kinds of damage is refused for the one that is found first.
            refused = isinstance(columns, type) and isinstance(snapshot, type)
            assert refused, f"mutation {number} of {file.name}: {columns}, as objects {snapshot}"


@pytest.mark.parametrize(
    "count", [MUTATIONS // 4, pytest.param(5 * MUTATIONS, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("spec_version", [1, 2])
def test_damage_is_refused_as_by_the_object_decoder(
    spec_version: int, count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tests.official import build_zoo, built

    zoo = built(tmp_path_factory, build_zoo, spec_version)
    largest = sorted(snapshot_files(zoo), key=lambda file: -file.stat().st_size)
    for file in largest[:3]:
        check_damage(file, count)


@pytest.mark.slow
def test_damage_of_all_fixtures_at_length() -> None:
    for file in snapshot_files(SHARED_FIXTURES):
        check_damage(file, 5 * MUTATIONS)


def test_thousands_of_arrays_take_milliseconds(tmp_path: Path) -> None:
    from tests.official import many_arrays

    many_arrays(tmp_path / "repo", 4_000, 1)
    file = max(snapshot_files(tmp_path), key=lambda file: file.stat().st_size)
    data = file.read_bytes()
    snapshot = decode_snapshot(data)
    assert len(snapshot.nodes) > 4_000
    columns = decode_snapshot_columns(data)
    assert columns.nodes.paths() == [node.path for node in snapshot.nodes]
    assert np.array_equal(
        columns.nodes.kind == node_columns.ARRAY,
        [isinstance(node.node_data, ArrayNodeData) for node in snapshot.nodes],
    )
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        decode_snapshot_columns(data)
        seconds.append(time.perf_counter() - begin)
    assert min(seconds) < 0.03
