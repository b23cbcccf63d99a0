"""Damaged files: each decoder gives content or a FormatError, in bounded time and memory.

Each file is damaged in two ways: as it lies on disk, where zstd meets most of it, and inside
its payload, stored uncompressed (the header allows that) so that the verifier meets it all.
Content that decodes is looked at to the end: metadata values and locations too.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.errors import FormatError, UnsupportedError
from icectl.format.config import decode_config_yaml
from icectl.format.envelope import decode_envelope
from icectl.format.legacy.manifest import decode_legacy_manifest
from icectl.format.legacy.snapshot import decode_legacy_snapshot
from icectl.format.legacy.transaction_log import decode_legacy_transaction_log
from icectl.format.manifest import decode_locations, decode_manifest
from icectl.format.refs import decode_ref
from icectl.format.repo import decode_repo
from icectl.format.snapshot import decode_snapshot
from icectl.format.transaction_log import decode_transaction_log
from icectl.format.values import decode_flexbuffers, decode_metadata
from icectl.model.ids import SnapshotId
from icectl.ops.inspect_file import describe_file
from icectl.render.inspect_file import render_inspection
from tests.format.damaged_files import (
    MUTATIONS,
    SHARED_FIXTURES,
    is_legacy,
    mutations,
    uncompressed,
)

SECONDS = 2.0

Decoder = Callable[[bytes], object]


def whole_repo(data: bytes) -> None:
    info = decode_repo(data)
    decode_metadata(info.metadata, 2)
    for entry in info.snapshots:
        decode_metadata(entry.metadata, 2)
    if info.config is not None:
        decode_flexbuffers(info.config)


def whole_snapshot(data: bytes) -> None:
    if is_legacy(data):
        decode_legacy_snapshot(decode_envelope(data).payload)
        return
    snapshot = decode_snapshot(data)
    decode_metadata(snapshot.metadata, snapshot.spec_version)


def whole_manifest(data: bytes) -> None:
    if is_legacy(data):
        decode_legacy_manifest(decode_envelope(data).payload)
        return
    manifest = decode_manifest(data)
    for array in manifest.arrays:
        decode_locations(manifest, array.refs)
        for spans in (array.refs.content, array.refs.checksum_etag, array.refs.extra):
            if spans is not None:
                spans.to_list()


def whole_transaction_log(data: bytes) -> None:
    if is_legacy(data):
        decode_legacy_transaction_log(decode_envelope(data).payload, SnapshotId(bytes(12)))
        return
    decode_transaction_log(data)


def decoder_of(path: Path) -> Decoder | None:
    if path.name == "repo" or path.name.startswith("repo."):
        return whole_repo
    if path.name == "config.yaml":
        return decode_config_yaml
    if path.suffix == ".json":
        return decode_ref
    by_directory: dict[str, Decoder] = {
        "snapshots": whole_snapshot,
        "manifests": whole_manifest,
        "transactions": whole_transaction_log,
    }
    return by_directory.get(path.parent.name)


def survive(decode: Decoder, data: bytes) -> bool:
    """Whether it decoded. A payload damaged to look like msgpack may be called unsupported."""
    begin = time.process_time()
    try:
        decode(data)
        return True
    except (FormatError, UnsupportedError):
        return False
    finally:
        assert time.process_time() - begin < SECONDS


def check(path: Path, count: int) -> None:
    decode = decoder_of(path)
    assert decode is not None
    data = path.read_bytes()
    assert survive(decode, data), "the undamaged file must decode"
    name = "/".join(path.parts[-3:])
    refused = 0
    for number, damaged in enumerate(mutations(path.name, data, count)):
        try:
            refused += not survive(decode, damaged)
        except Exception as error:
            raise AssertionError(
                f"mutation {number} of {name} gives {type(error).__name__}: {error}"
            ) from error
    assert refused > count // 10, "this damage does not reach the verifier"


def fixture_files() -> list[Path]:
    """Metadata files of the shared fixtures; tombstones are empty by design."""
    return [
        path
        for path in sorted(SHARED_FIXTURES.glob("*/**/*"))
        if path.is_file() and path.stat().st_size and decoder_of(path) is not None
    ]


def zoo_files(factory: pytest.TempPathFactory, spec_version: int) -> list[Path]:
    """The largest few of each kind, which have the most different content."""
    from tests.official import build_zoo, built

    repository = built(factory, build_zoo, spec_version)
    kinds = ("repo", "snapshots/*", "manifests/*", "transactions/*")
    return [
        path
        for kind in kinds
        for path in sorted(repository.glob(kind), key=lambda file: -file.stat().st_size)[:3]
    ]


def fixture_id(path: Path) -> str:
    return str(path.relative_to(SHARED_FIXTURES))


@pytest.mark.parametrize("path", fixture_files(), ids=fixture_id)
def test_fixture_files(path: Path) -> None:
    check(path, MUTATIONS // 2)


@pytest.mark.parametrize("path", fixture_files(), ids=fixture_id)
def test_what_is_left_of_a_fixture_is_drawn(path: Path) -> None:
    name, data = "/".join(path.parts[-2:]), path.read_bytes()
    for number, damaged in enumerate(mutations(path.name, data, MUTATIONS // 20)):
        try:
            for _ in render_inspection(describe_file(name, damaged)[0]):
                pass
        except Exception as error:
            raise AssertionError(
                f"mutation {number} of {name} gives {type(error).__name__}: {error}"
            ) from error


@pytest.mark.slow
@pytest.mark.parametrize("path", fixture_files(), ids=fixture_id)
def test_fixture_files_at_length(path: Path) -> None:
    check(path, 10 * MUTATIONS)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_zoo_files(spec_version: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    for path in zoo_files(tmp_path_factory, spec_version):
        check(path, MUTATIONS // 2)


@pytest.mark.slow
@pytest.mark.parametrize("spec_version", [1, 2])
def test_zoo_files_at_length(spec_version: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    for path in zoo_files(tmp_path_factory, spec_version):
        check(path, 10 * MUTATIONS)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_file_that_is_cut_off_never_decodes(
    spec_version: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for path in zoo_files(tmp_path_factory, spec_version):
        decode, data = decoder_of(path), path.read_bytes()
        assert decode is not None
        for size in {*range(0, len(data), max(1, len(data) // 300)), len(data) - 1}:
            assert not survive(decode, data[:size]), f"{path.name} cut to {size} bytes decodes"


@pytest.mark.parametrize("spec_version", [1, 2])
def test_damage_cannot_ask_for_much_memory(
    spec_version: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tracemalloc.start()
    try:
        for path in zoo_files(tmp_path_factory, spec_version):
            decode, data = decoder_of(path), path.read_bytes()
            assert decode is not None
            survive(decode, data)
            payload = len(uncompressed(data)[1])
            for damaged in mutations(path.name, data, 200):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                survive(decode, damaged)
                used = tracemalloc.get_traced_memory()[1] - before
                # One object per node or update costs more than its bytes in the file.
                assert used < 2**22 + 40 * payload, f"{path.name} took {used} bytes"
    finally:
        tracemalloc.stop()
