"""Between any two versions: confirmed by reading both through zarr and the official store."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.diff.facts import by_content, open_ours, our_facts, rows
from tests.official import all_snapshot_ids, ic, open_official, zarr
from tests.official.histories import commit, create

pytestmark = pytest.mark.usefixtures("decoding")

PAIRS = 30
INLINE_LIMIT = 64
Chunks = dict[tuple[int, ...], bytes]


class Version:
    """One version as the official package reads it: ids, metadata and chunks of every node."""

    def __init__(self, repo: ic.Repository, snapshot: str) -> None:
        self.store = repo.readonly_session(snapshot_id=snapshot).store
        nodes = repo.inspect_snapshot(snapshot)["nodes"]
        self.id_of = {node["path"]: node["id"] for node in nodes}
        self.path_of = {node["id"]: node["path"] for node in nodes}
        keys = asyncio.run(self._read())
        self.metadata = {
            "/" + key.removesuffix("zarr.json").strip("/"): json.loads(value)
            for key, value in keys.items()
            if key.endswith("zarr.json")
        }
        self.chunks: dict[str, Chunks] = {path: {} for path in self.metadata if self.is_array(path)}
        for key, value in keys.items():
            path, found, index = f"/{key}".rpartition("/c/")
            if found:
                coordinates = tuple(int(part) for part in index.split("/"))
                self.chunks[path][coordinates] = value

    async def _read(self) -> dict[str, bytes]:
        prototype = zarr.core.buffer.default_buffer_prototype()
        found = {}
        async for key in self.store.list():
            value = await self.store.get(key, prototype)
            assert value is not None
            found[key] = value.to_bytes()
        return found

    def is_array(self, path: str) -> bool:
        return bool(self.metadata[path]["node_type"] == "array")

    def array(self, path: str) -> Any:
        return zarr.open_array(self.store, path=path.strip("/"), mode="r")[...]


def matched(old: Version, new: Version) -> dict[str, str]:
    """Path in TO -> path in FROM: by id, then by path where neither lives on elsewhere."""
    pairs = {}
    for path, node_id in new.id_of.items():
        if node_id in old.path_of:
            pairs[path] = old.path_of[node_id]
        elif (
            path in old.id_of
            and old.id_of[path] not in new.path_of
            and old.is_array(path) == new.is_array(path)
        ):
            pairs[path] = path
    return pairs


def test_is_what_a_reader_sees(history: Path) -> None:
    official, ours = open_official(history), open_ours(history)
    ids = all_snapshot_ids(official)
    chance = random.Random(1)
    versions = {snapshot: Version(official, snapshot) for snapshot in ids}
    for _ in range(PAIRS):
        from_, to = chance.choice(ids), chance.choice(ids)
        check(versions[from_], versions[to], *by_content(ours, from_, to))


def check(old: Version, new: Version, diff: Any, chunks: Any) -> None:
    pairs = matched(old, new)
    facts = our_facts(diff, chunks)
    created, deleted = new.metadata.keys() - pairs, old.metadata.keys() - set(pairs.values())
    updated = {path for path, was in pairs.items() if new.metadata[path] != old.metadata[was]}
    assert {*facts["new_groups"], *facts["new_arrays"]} == created
    assert {*facts["deleted_groups"], *facts["deleted_arrays"]} == deleted
    assert {*facts["updated_groups"], *facts["updated_arrays"]} == updated
    assert {path for kind in ("new", "updated") for path in facts[f"{kind}_arrays"]} == {
        path for path in created | updated if new.is_array(path)
    }
    assert {to: from_ for from_, to in facts["moved_nodes"]} == {
        path: was for path, was in pairs.items() if path != was
    }
    by_path = {changes.path: changes for changes in chunks}
    assert by_path.keys() <= new.chunks.keys()
    for path, after in new.chunks.items():
        before = old.chunks[pairs[path]] if path in pairs else {}
        if path in by_path:
            check_chunks(before, after, by_path[path])
        else:
            assert before == after
            if path in pairs and path not in updated:
                np.testing.assert_array_equal(old.array(pairs[path]), new.array(path))


def check_chunks(before: Chunks, after: Chunks, changes: Any) -> None:
    assert rows(changes.added) == after.keys() - before.keys()
    assert rows(changes.deleted) == before.keys() - after.keys()
    common = before.keys() & after.keys()
    overwritten = rows(changes.overwritten)
    assert {index for index in common if before[index] != after[index]} <= overwritten <= common
    for index in overwritten:
        # A native chunk written again is another chunk, even with the same bytes.
        assert before[index] != after[index] or len(after[index]) > INLINE_LIMIT
    written = (after.keys() - before.keys()) | overwritten
    removed = (before.keys() - after.keys()) | overwritten
    assert changes.bytes_added == sum(len(after[index]) for index in written)
    assert changes.bytes_removed == sum(len(before[index]) for index in removed)


def test_metadata_of_every_kind(tmp_path: Path) -> None:
    repo = create(tmp_path)
    with commit(repo, "one") as root:
        root.create_array("x", shape=(4, 4), chunks=(2, 2), dtype="i4", compressors=None)
    start = repo.lookup_branch("main")
    repo.create_branch("other", start)
    with commit(repo, "two", branch="other") as root:
        root.create_array(
            "x", shape=(4, 8), chunks=(4, 2), dtype="f8", overwrite=True, attributes={"u": [1]}
        )
    diff, _ = by_content(open_ours(tmp_path), "main", "other")
    assert diff.updated_arrays == ("/x",)
    (change,) = diff.metadata_changes
    found = {value.pointer: (value.before, value.after) for value in change.changes}
    assert found["/shape"] == ([4, 4], [4, 8])
    assert found["/data_type"] == ("int32", "float64")
    assert found["/chunk_grid/configuration/chunk_shape"] == ([2, 2], [4, 2])
    assert found["/codecs"][0][-1]["name"] == "bytes"
    assert found["/attributes/u"][1] == [1]


def test_moved_onto_the_path_of_a_deleted_array(tmp_path: Path) -> None:
    repo = create(tmp_path)
    with commit(repo, "start") as root:
        for name in ("a", "b"):
            root.create_array(name, shape=(4,), chunks=(1,), dtype="i4", compressors=None)[:] = 1
    start = repo.lookup_branch("main")
    with commit(repo, "delete") as root:
        del root["a"]
    session = repo.rearrange_session("main")
    session.move("/b", "/a")
    session.commit("move")
    with commit(repo, "write") as root:
        root["a"][2] = 7
    diff, (changes,) = by_content(open_ours(tmp_path), start, "main")
    assert (diff.deleted_arrays, diff.new_arrays) == (("/a",), ())
    assert changes.path == "/a"
    assert changes.overwritten.tolist() == [[2]]


@pytest.fixture(scope="module")
def virtual(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """2,000 compressed virtual references, some replaced: the dictionary is another one then."""
    from tests.official.large import CONTAINER

    directory = tmp_path_factory.mktemp("virtual") / "repo"
    container = ic.VirtualChunkContainer(CONTAINER, ic.s3_store(region="us-east-1"))
    repo = create(directory, virtual_chunk_containers={CONTAINER: container})
    count = 2000
    locations = [f"{CONTAINER}station-{index % 150:04d}/{index % 7}.nc" for index in range(count)]
    changed = [3, 700, 1999]
    for step in range(2):
        session = repo.writable_session("main")
        if step == 0:
            zarr.open_group(session.store, mode="a").create_array(
                "v", shape=(count * 10,), chunks=(10,), dtype="u1", compressors=None
            )
        else:
            repo.create_branch("before", repo.lookup_branch("main"))
            for index in changed:
                locations[index] = f"{CONTAINER}quite/another/place-{index}.nc"
        offsets = np.arange(count, dtype="u8")
        lengths = np.full(count, 10, dtype="u8")
        assert (
            session.store.set_virtual_refs_arr("v", (count,), locations, offsets, lengths) is None
        )
        session.commit("virtual")
    return directory, changed


def test_compressed_locations_are_compared_unfolded(virtual: tuple[Path, list[int]]) -> None:
    directory, changed = virtual
    ours = open_ours(directory)
    manifests = [ours.read_manifest(i) for i in manifest_ids(ours)]
    dictionaries = {manifest.location_dictionary for manifest in manifests}
    assert len(dictionaries) == 2
    assert None not in dictionaries
    _, chunks = by_content(ours, "before", "main")
    (changes,) = chunks
    assert rows(changes.overwritten) == {(index,) for index in changed}
    assert not len(changes.added)
    assert not len(changes.deleted)
    assert (changes.bytes_added, changes.bytes_removed) == (30, 30)


def manifest_ids(ours: Any) -> set[Any]:
    tips = ours.branches().values()
    return {file.id for tip in tips for file in ours.read_snapshot(tip).all_manifest_files}


def test_split_manifests_that_both_share_are_not_read(tmp_path: Path) -> None:
    from tests.official import many_small_manifests

    repo = many_small_manifests(tmp_path, 30, refs_per_manifest=10)
    repo.create_branch("other", repo.lookup_branch("main"))
    with commit(repo, "change", branch="other") as root:
        root["a"][[5, 101, 102, 299]] = 7
    before = {file.id for file in repo.list_manifest_files(repo.lookup_branch("main"))}
    after = {file.id for file in repo.list_manifest_files(repo.lookup_branch("other"))}
    assert len(before & after) == 27
    for manifest in before & after:
        (tmp_path / "manifests" / manifest).unlink()
    _, (changes,) = by_content(open_ours(tmp_path), "main", "other")
    assert changes.overwritten.tolist() == [[5], [101], [102], [299]]


@pytest.mark.parametrize(
    "name",
    [
        *("test-repo-alpha4", "test-repo-alpha8", "test-repo-alpha15", "test-repo-0.1.0"),
        *("test-repo-v1", "test-repo-v2-migrated"),
    ],
)
def test_every_generation(shared_fixtures: Path, name: str) -> None:
    ours = open_ours(shared_fixtures / name)
    tip = ours.branches()["main"]
    root = [info.id for info in ours.ancestry(tip)][-1]
    diff, chunks = by_content(ours, str(root), str(tip))
    nodes = ours.read_snapshot(tip).nodes
    assert {*diff.new_groups, *diff.new_arrays} == {node.path for node in nodes}
    assert diff.new_arrays
    assert sum(len(changes.added) for changes in chunks) > 0
