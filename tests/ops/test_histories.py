"""Path histories and change counts against the official diff, on random histories."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from icectl.ops.log import LogOptions, read_log
from icectl.repository.change_counts import read_change_counts
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.storage.local import LocalStorage
from tests.official import build_zoo, built, diff_facts, open_official, random_history

NODE_LISTS = (
    "new_groups",
    "new_arrays",
    "deleted_groups",
    "deleted_arrays",
    "updated_groups",
    "updated_arrays",
)


@pytest.fixture(
    scope="module", params=[(1, 11), (2, 12), (2, 13), (2, 14)], ids=lambda p: f"v{p[0]}-{p[1]}"
)
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Repository, Any]:
    spec_version, seed = request.param
    directory: Path = tmp_path_factory.mktemp("random") / "repository"
    weights = {"expire": 0, "reset": 0, "branch": 0} | ({"move": 5} if spec_version == 2 else {})
    random_history(directory, seed, 50, spec_version, weights=weights)
    return open_repository(LocalStorage(str(directory))), open_official(directory)


def within(path: str, root: str) -> bool:
    return path == root or root == "/" or path.startswith(root + "/")


def expected_touching(theirs: Any, path: str) -> list[str]:
    """The same question answered from official diffs and the ids of official snapshots."""
    found, subject = [], path
    ancestry = list(theirs.ancestry(branch="main"))
    for info, parent in pairwise(ancestry):
        after = {node["path"]: node["id"] for node in theirs.inspect_snapshot(info.id)["nodes"]}
        before = {node["id"]: node["path"] for node in theirs.inspect_snapshot(parent.id)["nodes"]}
        was = before.get(after.get(subject), subject)
        facts = diff_facts(theirs.diff(from_snapshot_id=parent.id, to_snapshot_id=info.id))
        touched = [path for name in NODE_LISTS for path in facts[name]]
        touched += facts["updated_chunks"]
        moves = facts["moved_nodes"]
        if (
            was != subject
            or any(within(path, subject) or within(path, was) for path in touched)
            or any(within(new, subject) or within(old, was) for old, new in moves)
        ):
            found.append(info.id)
        subject = was
    return found


def test_commits_that_touched_a_path(history: tuple[Repository, Any]) -> None:
    ours, theirs = history
    tip = theirs.lookup_branch("main")
    paths = {node["path"] for node in theirs.inspect_snapshot(tip)["nodes"]}
    for info in theirs.ancestry(branch="main"):
        paths |= {node["path"] for node in theirs.inspect_snapshot(info.id)["nodes"]}
    assert len(paths) > 5
    for path in sorted(paths):
        commits = read_log(ours, "main", LogOptions(path=path))
        assert [str(commit.id) for commit in commits] == expected_touching(theirs, path), path


def test_change_counts(history: tuple[Repository, Any]) -> None:
    ours, theirs = history
    for info in ours.all_snapshots():
        if info.parent_id is None:
            continue
        diff = theirs.diff(from_snapshot_id=str(info.parent_id), to_snapshot_id=str(info.id))
        facts = diff_facts(diff)
        counts = read_change_counts(ours, info)
        for name in (*NODE_LISTS, "moved_nodes"):
            assert getattr(counts, name) == len(facts[name]), (info.message, name)
        assert counts.updated_chunks == sum(map(len, facts["updated_chunks"].values()))


def test_expired_commits_count_for_the_one_that_has_their_logs(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ours = open_repository(LocalStorage(str(built(tmp_path_factory, build_zoo, 2))))
    commits = read_log(ours, "main", LogOptions(path="/early group 1"))
    assert [commit.message for commit in commits] == ["before expiration 3"]
