"""From an ancestor: what the official diff says where it is right, and where it is not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.diff.facts import by_content, by_logs, open_ours, our_facts, rows
from tests.official import all_snapshot_ids, copied, diff_facts, ic, open_official
from tests.official.histories import commit, create

pytestmark = pytest.mark.usefixtures("decoding")

PAIRS = 60


def ancestor_pairs(repo: ic.Repository) -> list[tuple[str, str]]:
    pairs = [
        (info.id, to)
        for to in all_snapshot_ids(repo)
        for info in list(repo.ancestry(snapshot_id=to))[1:]
    ]
    return random.Random(0).sample(pairs, min(PAIRS, len(pairs)))


def test_equals_the_official_diff(history: Path) -> None:
    official, ours = open_official(history), open_ours(history)
    compared = 0
    for from_, to in ancestor_pairs(official):
        theirs = diff_facts(official.diff(from_snapshot_id=from_, to_snapshot_id=to))
        diff, chunks = by_logs(ours, from_, to)
        if diff.fallback is not None:
            # Expiration in spec version 1 drops logs, and the official diff lacks their changes.
            assert ours.spec_version == 1
            continue
        mine = our_facts(diff, chunks)
        recreated = {*mine["new_arrays"]} & {*mine["deleted_arrays"]}
        for facts in (theirs, mine):
            # See test_official_mixes_up_chunks_of_a_recreated_array.
            for path in recreated:
                facts["updated_chunks"].pop(path, None)
        single = len(ours_log_ids(ours, from_, to)) == 1
        if not single:
            # See test_moves_over_several_commits_are_composed.
            del theirs["moved_nodes"], mine["moved_nodes"]
        assert mine == theirs
        compared += 1
    assert compared


def ours_log_ids(repository: Any, from_: str, to: str) -> tuple[Any, ...]:
    from icectl.ops.diff.versions import select_versions

    return select_versions(repository, from_, to).log_ids or ()


def test_agrees_with_the_content(history: Path) -> None:
    """What differs in content was logged, and is classified the same way."""
    official, ours = open_official(history), open_ours(history)
    for from_, to in ancestor_pairs(official)[:25]:
        diff, chunks = by_logs(ours, from_, to)
        content, content_chunks = by_content(ours, from_, to)
        assert diff.moved_nodes == content.moved_nodes
        logged = {changes.path: changes for changes in chunks}
        # Recreated at its path, by content it is the same array, by logs another one.
        recreated = {*diff.new_arrays} & {*diff.deleted_arrays}
        for expected in content_chunks:
            if expected.path in recreated:
                continue
            found = logged[expected.path]
            for kind in ("added", "overwritten", "deleted"):
                assert rows(getattr(found, kind)) == rows(getattr(expected, kind)), kind
            assert found.bytes_added == expected.bytes_added
            assert found.bytes_removed == expected.bytes_removed


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """a -> b, b -> c in two commits; then one created and moved, one moved and deleted."""
    directory = tmp_path_factory.mktemp("moved") / "repo"
    repo = create(directory)
    ids = []

    def move(*steps: tuple[str, str]) -> None:
        session = repo.rearrange_session("main")
        for source, target in steps:
            session.move(source, target)
        session.commit("move")
        ids.append(repo.lookup_branch("main"))

    with commit(repo, "start") as root:
        root.create_array("group/a", shape=(4,), chunks=(1,), dtype="i4", compressors=None)[:] = 1
        root.create_group("gone")
    ids.append(repo.lookup_branch("main"))
    move(("/group", "/between"))
    move(("/between", "/final"))
    with commit(repo, "temporary") as root:
        root.create_group("temporary")
    move(("/temporary", "/kept"), ("/gone", "/gone2"))
    with commit(repo, "delete") as root:
        del root["gone2"]
    ids.append(repo.lookup_branch("main"))
    return directory, ids


def test_moves_over_several_commits_are_composed(moved: tuple[Path, list[str]]) -> None:
    directory, ids = moved
    diff, _ = by_logs(open_ours(directory), ids[0], ids[2])
    assert [(move.from_, move.to) for move in diff.moved_nodes] == [
        ("/group", "/final"),
        ("/group/a", "/final/a"),
    ]
    assert [move.with_parent for move in diff.moved_nodes] == [False, True]
    official = open_official(directory).diff(from_snapshot_id=ids[0], to_snapshot_id=ids[2])
    # Wrong: it lists the steps, newest first, and one of them begins at a path that FROM lacks.
    assert [move[0] for move in official.moved_nodes] == [
        "/between",
        "/between/a",
        "/group",
        "/group/a",
    ]


def test_a_new_node_is_not_moved_and_a_deleted_one_is_where_it_was(
    moved: tuple[Path, list[str]],
) -> None:
    directory, ids = moved
    diff, chunks = by_logs(open_ours(directory), ids[2], ids[-1])
    assert diff.moved_nodes == ()
    assert (diff.new_groups, diff.deleted_groups) == (("/kept",), ("/gone",))
    assert chunks == []
    official = open_official(directory).diff(from_snapshot_id=ids[2], to_snapshot_id=ids[-1])
    assert len(official.moved_nodes) == 2  # wrong: neither node is in both versions


def test_created_and_deleted_in_between_is_absent(tmp_path: Path) -> None:
    repo = create(tmp_path)
    start = repo.lookup_branch("main")
    with commit(repo, "create") as root:
        root.create_array("x", shape=(2,), chunks=(1,), dtype="i4", compressors=None)[:] = 1
    with commit(repo, "change") as root:
        root["x"].attrs["a"] = 1
    with commit(repo, "delete") as root:
        del root["x"]
    diff, chunks = by_logs(open_ours(tmp_path), start, "main")
    assert our_facts(diff, chunks) == {
        "new_groups": ["/"],
        "new_arrays": [],
        "deleted_groups": [],
        "deleted_arrays": [],
        "updated_groups": [],
        "updated_arrays": [],
        "updated_chunks": {},
        "moved_nodes": [],
    }


def test_official_mixes_up_chunks_of_a_recreated_array(tmp_path: Path) -> None:
    """It keeps one list per path, so that one of the two arrays loses its chunks."""
    seen = set()
    for attempt in range(12):
        directory = tmp_path / str(attempt)
        repo = create(directory)
        plain: dict[str, Any] = {"shape": (4,), "chunks": (1,), "dtype": "i4", "compressors": None}
        with commit(repo, "create") as root:
            root.create_array("x", **plain)[:] = 1
        start = repo.lookup_branch("main")
        with commit(repo, "write") as root:
            root["x"][0] = 2
        with commit(repo, "recreate") as root:
            root.create_array("x", **plain, overwrite=True)[1:] = 3
        theirs = repo.diff(from_snapshot_id=start, to_branch="main").updated_chunks["/x"]
        seen.add(str(sorted(theirs)))
        (mine,) = by_logs(open_ours(directory), start, "main")[1]
        assert mine.chunks[0].tolist() == [[1], [2], [3]]
        assert rows(mine.added) == {(1,), (2,), (3,)}
    # Node ids are random, and which array wins depends on them.
    assert "[[0]]" in seen


def test_logs_of_expired_ancestors(tmp_path: Path) -> None:
    repo = create(tmp_path)
    start = repo.lookup_branch("main")
    for number in range(4):
        with commit(repo, f"{number}") as root:
            if number == 0:
                root.create_array("x", shape=(4,), chunks=(1,), dtype="i4", compressors=None)
            root["x"][number] = 5
    before = by_logs(open_ours(tmp_path), start, "main")
    released = repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    assert len(released) == 3
    after = by_logs(open_ours(tmp_path), start, "main")
    assert after[0].fallback is None
    assert our_facts(*after) == our_facts(*before)
    assert our_facts(*after)["updated_chunks"] == {"/x": [[0], [1], [2], [3]]}


def test_expiration_of_version_1_is_noticed(tmp_path: Path) -> None:
    repo = create(tmp_path, 1)
    start = repo.lookup_branch("main")
    for number in range(3):
        with commit(repo, f"{number}") as root:
            root.create_group(f"group{number}")
    assert repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    diff, _ = by_logs(open_ours(tmp_path), start, "main")
    assert diff.method == "content"
    assert diff.fallback is not None
    assert "no transaction log records the creation of /" in diff.fallback
    assert diff.new_groups == ("/", "/group0", "/group1", "/group2")
    official = repo.diff(from_snapshot_id=start, to_branch="main")
    assert official.new_groups == {"/group2"}  # wrong: the other logs are gone


@pytest.fixture
def two_commits(tmp_path: Path) -> tuple[Path, str, str]:
    repo = create(tmp_path / "repo")
    with commit(repo, "create") as root:
        root.create_array("x", shape=(4,), chunks=(1,), dtype="i4", compressors=None)[:2] = 1
    start = repo.lookup_branch("main")
    with commit(repo, "write") as root:
        root["x"][1:3] = 7
        root["x"].attrs["a"] = 1
    return tmp_path / "repo", start, repo.lookup_branch("main")


@pytest.mark.parametrize("damage", ["missing", "damaged", "another"])
def test_falls_back_to_content(two_commits: tuple[Path, str, str], damage: str) -> None:
    directory, start, end = two_commits
    log = directory / "transactions" / end
    expected = our_facts(*by_logs(open_ours(directory), start, end))
    if damage == "missing":
        log.unlink()
    elif damage == "damaged":
        log.write_bytes(log.read_bytes()[:50])
    else:
        log.write_bytes((directory / "transactions" / start).read_bytes())
    diff, chunks = by_logs(open_ours(directory), start, end)
    assert diff.method == "content"
    assert diff.fallback is not None
    assert ("missing" if damage == "missing" else "damaged") in diff.fallback
    assert our_facts(diff, chunks) == expected


def test_only_manifests_that_can_differ_are_read(two_commits: tuple[Path, str, str]) -> None:
    """Whatever is not shared must be there; whatever is shared may be lost."""
    directory, start, end = two_commits
    repo = open_official(directory)
    shared = {file.id for file in repo.list_manifest_files(start)}
    with commit(repo, "elsewhere") as root:
        root.create_array("y", shape=(1,), chunks=(1,), dtype="i4", compressors=None)[:] = 1
    only_x = {file.id for file in repo.list_manifest_files(end)}
    mine = copied(directory, directory.parent / "copy")
    for manifest in only_x | shared:
        (mine / "manifests" / manifest).unlink()
    diff, chunks = by_logs(open_ours(mine), end, "main")
    assert our_facts(diff, chunks)["updated_chunks"] == {"/y": [[0]]}
    diff, chunks = by_content(open_ours(mine), end, "main")
    assert our_facts(diff, chunks)["updated_chunks"] == {"/y": [[0]]}


@pytest.mark.parametrize("split", [{0: 2}, {1: 3}, {0: 2, 1: 2}])
def test_split_arrays_are_compared_by_parts(split: dict[int, int], tmp_path: Path) -> None:
    sizes = {ic.ManifestSplitDimCondition.Axis(axis): size for axis, size in split.items()}
    splitting = ic.ManifestSplittingConfig.from_dict({ic.ManifestSplitCondition.AnyArray(): sizes})
    repo = create(tmp_path, 2, manifest=ic.ManifestConfig(splitting=splitting))
    with commit(repo, "array") as root:
        root.create_array("a", shape=(12, 12), chunks=(1, 1), dtype="i4", fill_value=0)
        root["a"][:5, 2:9] = 1
    first = repo.lookup_branch("main")
    choose = random.Random(0)
    for number in range(2, 5):
        with commit(repo, f"commit {number}") as root:
            for _ in range(9):
                place = choose.randrange(12), choose.randrange(12)
                root["a"][place] = choose.choice([0, number])
    ours = open_ours(tmp_path)
    _, (logged,) = by_logs(ours, first, "main")
    _, (compared,) = by_content(ours, first, "main")
    for kind in ("added", "overwritten", "deleted"):
        assert rows(getattr(logged, kind)) == rows(getattr(compared, kind))
    assert logged.bytes_added == compared.bytes_added
    assert logged.bytes_removed == compared.bytes_removed
    assert logged.num_chunks > len(logged.added) > 0
