"""`icectl stats`: the official numbers, and breakdowns that add up to them."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icectl.errors import FormatError, UnsupportedError
from icectl.format import manifest as manifest_format
from icectl.format.envelope import FileType, decode_envelope, encode_envelope
from icectl.format.manifest import decode_sizes
from icectl.model.manifest import RefKind
from icectl.ops.expire.policy import Policy
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.ops.stats import columns, reading
from icectl.ops.stats.result import StatsResult
from icectl.ops.stats.run import StatsOptions, measure
from icectl.pipeline import distinct
from icectl.pipeline.distinct import Distinct
from icectl.pipeline.engine import KEYS, ChooseEngine, Column
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.storage.local import LocalStorage
from tests.command_line import Icectl, environ, icectl  # noqa: F401
from tests.format.mutations import mutations
from tests.gc.repositories import messy_repository, now
from tests.official import (
    build_zoo,
    built,
    copied,
    ic,
    linear_history,
    many_virtual_refs,
    open_official,
    random_history,
    zarr,
)
from tests.official.histories import create

EVERYTHING = StatsOptions(by_branch=True, by_tag=True, by_snapshot=True, by_growth=True)


def opened(where: Path) -> Repository:
    return open_repository(LocalStorage(where))


def totals(result: StatsResult) -> tuple[int, int, int]:
    return result.native_bytes, result.virtual_bytes, result.inlined_bytes


def official(where: Path) -> tuple[int, int, int]:
    found: Any = open_official(where).chunk_storage_stats()
    return found.native_bytes, found.virtual_bytes, found.inlined_bytes


@pytest.fixture(scope="module", params=[1, 2])
def zoo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build_zoo, request.param)


def test_zoo_equals_official(zoo: Path) -> None:
    result = measure(opened(zoo), EVERYTHING)
    assert totals(result) == official(zoo)
    assert all(totals(result))


def test_small_manifests_are_summed_like_large_ones(
    zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = measure(opened(zoo), EVERYTHING)
    monkeypatch.setattr(manifest_format, "FEW_REFS", -1)
    assert measure(opened(zoo), EVERYTHING) == few


def test_damage_is_found_in_small_manifests_as_in_large_ones(
    zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decoded(data: bytes) -> bool:
        try:
            decode_sizes(data)
        except (FormatError, UnsupportedError):
            return False
        return True

    files = [path.read_bytes() for path in sorted((zoo / "manifests").iterdir())[:4]]
    for data in files:
        payload = decode_envelope(data).payload
        for damaged in mutations(bytes(payload), 300):
            file = encode_envelope(damaged, FileType.MANIFEST, 2)
            monkeypatch.setattr(manifest_format, "FEW_REFS", 64)
            few = decoded(file)
            monkeypatch.setattr(manifest_format, "FEW_REFS", -1)
            assert few == decoded(file)


def test_locations_with_similar_digests_are_told_apart(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = built(tmp_path_factory, many_virtual_refs, 1_000)
    before = measure(opened(where), EVERYTHING)
    digest = reading.digest
    for half in (slice(8), slice(8, 16)):

        def half_known(text: str, size: int, known: slice = half) -> bytes:
            found = bytearray(digest(text, size))
            if size == 16:
                found[known] = bytes(8)
            return bytes(found)

        monkeypatch.setattr(reading, "digest", half_known)
        assert measure(opened(where), EVERYTHING) == before
    assert totals(before) == official(where)
    assert before.containers[0].num_objects > 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spec_version", [1, 2])
def test_random_histories_equal_official(tmp_path: Path, spec_version: int, seed: int) -> None:
    random_history(tmp_path / "repo", seed, 40, spec_version)
    assert totals(measure(opened(tmp_path / "repo"), EVERYTHING)) == official(tmp_path / "repo")


@pytest.mark.parametrize(
    "name",
    [
        *("split-repo-v2", "test-repo-0.1.0", "test-repo-alpha15", "test-repo-alpha4"),
        *("test-repo-alpha8", "test-repo-v1", "test-repo-v2"),
    ],
)
def test_fixtures(shared_fixtures: Path, name: str) -> None:
    result = measure(opened(shared_fixtures / name), EVERYTHING)
    assert result.num_chunks > 0
    assert sum(array.num_chunks for array in result.arrays) == result.num_chunks
    if name in ("split-repo-v2", "test-repo-v1", "test-repo-v2"):
        assert totals(result) == official(shared_fixtures / name)


def test_breakdowns_add_up(zoo: Path) -> None:
    result = measure(opened(zoo), EVERYTHING)
    assert sum(array.native_bytes for array in result.arrays) == result.native_bytes
    assert sum(array.virtual_bytes for array in result.arrays) == result.virtual_bytes
    assert sum(array.inlined_bytes for array in result.arrays) == result.inlined_bytes
    assert sum(array.num_chunks for array in result.arrays) == result.num_chunks
    assert sum(one.bytes for one in result.containers) == result.virtual_bytes
    assert result.snapshots is not None
    assert sum(one.new_bytes for one in result.snapshots) == result.total_bytes
    assert len(result.snapshots) == result.num_snapshots


def referenced(
    repository: Repository, snapshots: list[Any], *, by_node: bool = False
) -> dict[Any, int]:
    """Every chunk that the versions refer to with its bytes, reference by reference.

    With `by_node`, keys are pairs of the array's id and the chunk.
    """
    found: dict[Any, int] = {}
    for snapshot_id in snapshots:
        for file in repository.read_snapshot(snapshot_id).all_manifest_files:
            manifest = repository.read_manifest(file.id)
            for array in manifest.arrays:
                refs = array.refs
                for row in range(len(refs)):
                    kind = RefKind(int(refs.kind[row]))
                    key: Any
                    if kind is RefKind.NATIVE:
                        key, size = refs.chunk_id[row].tobytes(), int(refs.length[row])
                    elif kind is RefKind.INLINE:
                        key = (file.id, array.node_id, refs.coordinates[row].tobytes())
                        size = int(refs.content.length[row])
                    else:
                        continue
                    found[(array.node_id, key) if by_node else key] = size
    return found


@pytest.mark.parametrize("spec_version", [1, 2])
def test_own_bytes(tmp_path_factory: pytest.TempPathFactory, spec_version: int) -> None:
    """Counted one by one: what only one ref, or only one version, refers to."""
    repository = opened(built(tmp_path_factory, messy_repository, spec_version))
    result = measure(repository, EVERYTHING)
    assert result.branches is not None
    assert result.tags is not None
    assert result.snapshots is not None
    refs = {("branch", name): tip for name, tip in repository.branches().items()}
    refs |= {("tag", name): tip for name, tip in repository.tags().items()}
    behind = {
        ref: referenced(repository, [info.id for info in repository.ancestry(tip)])
        for ref, tip in refs.items()
    }
    for kind, stats in (("branch", result.branches), ("tag", result.tags)):
        for one in stats:
            mine = behind[kind, one.name]
            others = {
                key for ref, found in behind.items() if ref != (kind, one.name) for key in found
            }
            assert one.bytes == sum(mine.values())
            assert one.num_chunks == len(mine)
            assert one.own_bytes == sum(size for key, size in mine.items() if key not in others)
    versions = {one.id: referenced(repository, [one.id]) for one in result.snapshots}
    for version in result.snapshots:
        others = {key for other, found in versions.items() if other != version.id for key in found}
        mine = versions[version.id]
        assert version.bytes == sum(mine.values())
        assert version.own_bytes == sum(size for key, size in mine.items() if key not in others)
        assert version.shared_bytes == version.bytes - version.own_bytes


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("named", [1, 9])
def test_growth(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    spec_version: int,
    named: int,
) -> None:
    """Counted one by one: what no older version refers to, by array."""
    monkeypatch.setattr(columns, "NAMED_ARRAYS", named)
    repository = opened(built(tmp_path_factory, messy_repository, spec_version))
    result = measure(repository, StatsOptions(by_snapshot=True, by_growth=True))
    assert result.growth is not None
    largest = sorted(result.arrays, key=lambda array: -array.total_bytes)[:named]
    names = {array.path for array in largest}
    seen: set[Any] = set()
    expected: dict[tuple[Any, str | None], int] = defaultdict(int)
    for version in reversed(result.snapshots or ()):
        nodes = {node.id: node.path for node in repository.read_snapshot(version.id).nodes}
        chunks = referenced(repository, [version.id], by_node=True)
        for (node_id, chunk), size in chunks.items():
            if chunk not in seen:
                path = nodes[node_id]
                expected[version.id, path if path in names else None] += size
        seen |= {chunk for _, chunk in chunks}
    assert {(one.id, one.path): one.new_bytes for one in result.growth} == expected
    assert [one.id for one in result.growth] == sorted(
        (one.id for one in result.growth),
        key=[version.id for version in result.snapshots or ()].index,
    )


def test_growth_adds_up(zoo: Path) -> None:
    result = measure(opened(zoo), StatsOptions(by_snapshot=True, by_growth=True))
    by_version: dict[Any, int] = defaultdict(int)
    for one in result.growth or ():
        by_version[one.id] += one.new_bytes
    expected = {one.id: one.new_bytes for one in result.snapshots or () if one.new_bytes}
    assert by_version == expected


def test_more_refs_than_bits_of_a_word(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    where = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    repo = open_official(where)
    for number in range(70):
        repo.create_tag(f"t{number}", repo.lookup_branch("main"))
    result = measure(opened(where), EVERYTHING)
    assert result.tags is not None
    tagged = {one.bytes for one in result.tags if one.name.startswith("t")}
    assert tagged == {one.bytes for one in result.branches or () if one.name == "main"}
    assert {one.own_bytes for one in result.tags} == {0}


@pytest.mark.parametrize("length", [2**62, 2**63 - 1, 2**64 - 1])
def test_sums_beyond_64_bits(tmp_path: Path, choose_engine: ChooseEngine, length: int) -> None:
    """References to files of others can claim such lengths, and their sums are exact."""
    prefix = f"{tmp_path.as_uri()}/"
    container = ic.VirtualChunkContainer(prefix, ic.local_filesystem_store(str(tmp_path)))
    repo = create(tmp_path / "repo", virtual_chunk_containers={prefix: container})
    for name in ("a", "b"):
        session = repo.writable_session("main")
        group = zarr.open_group(session.store, mode="a")
        group.create_array(name, shape=(4,), chunks=(1,), dtype="i1")
        for chunk in range(3):
            location = f"{prefix}{name}{chunk}"
            session.store.set_virtual_ref(f"{name}/c/{chunk}", location, offset=0, length=length)
        session.commit(name)
    options = replace(EVERYTHING, policy=Policy(keep_last=1), choose_engine=choose_engine)
    result = measure(opened(tmp_path / "repo"), options)
    one = 3 * length
    assert result.total_bytes == result.virtual_bytes == 2 * one
    assert [array.virtual_bytes for array in result.arrays] == [one, one]
    assert [container.bytes for container in result.containers] == [2 * one]
    assert [branch.own_bytes for branch in result.branches or ()] == [2 * one]
    found = [(version.bytes, version.own_bytes, version.new_bytes) for version in result.snapshots or ()]  # fmt: skip
    assert found == [(2 * one, one, one), (one, 0, one), (0, 0, 0)]
    assert [growth.new_bytes for growth in result.growth or ()] == [one, one]


def test_one_version(zoo: Path) -> None:
    repository = opened(zoo)
    result = measure(repository, StatsOptions(ref="main"))
    tip = repository.branches()["main"]
    expected = referenced(repository, [tip])
    assert result.native_bytes + result.inlined_bytes == sum(expected.values())
    assert result.num_snapshots == 1


def test_what_expire_and_gc_would_free(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Expire for real, and let gc plan: the same chunks, manifests and snapshots go."""
    from icectl.ops.expire.execute import execute_expiration
    from icectl.ops.expire.plan import plan_for

    where = copied(built(tmp_path_factory, linear_history, 8), tmp_path / "repo")
    storage = LocalStorage(where)
    policy = Policy(keep_last=1)
    before = plan_run(storage, GcOptions(cutoff=now() + 10**9)).plan
    freed = measure(opened(where), StatsOptions(policy=policy)).could_free
    assert freed is not None
    repository = opened(where)
    execute_expiration(repository, policy, plan_for(repository, policy))
    after = plan_run(storage, GcOptions(cutoff=now() + 10**9)).plan
    gone = {
        kind.value: len(after.garbage[kind]) - len(before.garbage[kind]) for kind in after.garbage
    }
    assert freed.snapshots == gone["snapshot"] > 0
    assert freed.manifests == gone["manifest"]
    assert freed.chunks == gone["chunk"] > 0


def test_json_and_csv(icectl: Icectl, zoo: Path) -> None:  # noqa: F811
    document = icectl("stats", "-r", str(zoo), "--json").document
    assert (
        document["native_bytes"],
        document["virtual_bytes"],
        document["inlined_bytes"],
    ) == official(zoo)
    keys = {"path", "native_bytes", "virtual_bytes", "inlined_bytes", "num_chunks"}
    assert all(array.keys() >= keys for array in document["arrays"])
    paths = [array["path"] for array in document["arrays"]]
    assert "/native" in paths
    printed = icectl("stats", "-r", str(zoo), "--csv").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [row["path"] for row in rows] == paths
    assert sum(int(row["native_bytes"]) for row in rows) == document["native_bytes"]
    snapshots = icectl("stats", "-r", str(zoo), "--by", "snapshots", "--csv").out
    assert snapshots.startswith("id,flushed_at,")


def test_table(icectl: Icectl, zoo: Path) -> None:  # noqa: F811
    shallow = icectl("stats", "-r", str(zoo), "--depth", "1", "--by", "branches").out
    deep = icectl("stats", "-r", str(zoo)).out
    assert "BRANCH" in shallow
    assert "BRANCH" not in deep
    assert "Tags" not in shallow
    tags = icectl("stats", "-r", str(zoo), "--by", "tags", "--json").document
    assert tags["tags"]
    assert tags["branches"] is None
    versions = icectl("stats", "-r", str(zoo), "--by", "snapshots").out.split("newest first")[1]
    assert re.search(r"\w{20}  \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ ", versions)
    assert len(shallow.split("Containers")[0]) < len(deep.split("Containers")[0])
    assert "s3://archive/" in deep


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nothing"], 12),
        (["--by", "colour"], 2),
        (["--csv", "--by", "tags", "--by", "branches"], 2),
        (["--csv", "--json"], 2),
        (["main", "--older-than", "3d"], 2),
        (["main", "--by", "branches"], 2),
        (["main", "--by", "tags"], 2),
        (["main", "--by", "snapshots"], 2),
        (["main", "--by", "arrays", "--by", "containers"], 0),
        (["--older-than", "3d", "--policy", "x"], 2),
    ],
)
def test_wrong_calls(icectl: Icectl, zoo: Path, arguments: list[str], code: int) -> None:  # noqa: F811
    assert icectl("stats", "-r", str(zoo), *arguments).code == code


@pytest.mark.parametrize("pending", [1, 7, 10**6])
@pytest.mark.parametrize("small", [1, 50])
@pytest.mark.parametrize("in_order", [False, True])
def test_distinct(
    monkeypatch: pytest.MonkeyPatch, pending: int, small: int, in_order: bool
) -> None:
    """Like a dictionary, with keys that share a part, and compacted at any moment."""
    monkeypatch.setattr(distinct, "SMALL_BLOCK", small)
    chance = np.random.default_rng(3)
    columns = {
        "least": Column("int64", "min"),
        "most": Column("int64", "max"),
        "all": Column("int64", "or"),
        "one": Column("int64", "any"),
        "other": Column("int64", "any"),
    }
    rows = Distinct(columns, fewest_pending=pending)
    expected: dict[tuple[int, int], tuple[int, int, int]] = {}
    pairs: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for _ in range(30):
        block = {name: chance.integers(0, 6, 20).astype(np.uint64) for name in KEYS}
        block |= {name: chance.integers(0, 64, 20) for name in columns}
        rows.add({name: column.copy() for name, column in block.items()})
        for row in zip(*(block[name].tolist() for name in (*KEYS, *columns)), strict=True):
            key, (least, most, every, one, other) = row[:2], row[2:]
            before = expected.get(key, (99, 0, 0))
            expected[key] = min(before[0], least), max(before[1], most), before[2] | every
            pairs.setdefault(key, set()).add((one, other))
    found = rows.columns(in_order=in_order)
    listed = [*zip(*(found[name].tolist() for name in (*KEYS, *columns)), strict=True)]
    assert {row[:2]: row[2:5] for row in listed} == expected
    assert len(listed) == len(expected)
    assert all(row[5:] in pairs[row[:2]] for row in listed)
    if in_order:
        assert listed == sorted(listed, key=lambda row: row[:2])
