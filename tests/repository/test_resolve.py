from __future__ import annotations

import pytest

from icectl.errors import RefNotFoundError, Remedy, UsageError
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.repository.open import open_repository
from icectl.repository.resolve import ResolvedRef
from icectl.storage.local import LocalStorage
from tests.failures import raises
from tests.faults.storage import FaultyStorage
from tests.repository.builders import make_info, memory_repository, sid


@pytest.fixture
def repository():
    info = make_info(
        {1: None, 2: 1, 3: 2},
        branches={"main": 3, "both": 2, "a~1": 1, "develop": 2},
        tags={"v1": 1, "both": 3, "branch:v1": 2},
    )
    return open_repository(memory_repository(info))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main", ResolvedRef(sid(3), "branch", "main")),
        ("v1", ResolvedRef(sid(1), "tag", "v1")),
        ("branch:both", ResolvedRef(sid(2), "branch", "both")),
        ("tag:both", ResolvedRef(sid(3), "tag", "both")),
        ("a~1", ResolvedRef(sid(1), "branch", "a~1")),
        ("branch:v1", ResolvedRef(sid(2), "tag", "branch:v1")),
        ("main~", ResolvedRef(sid(2), "snapshot", None)),
        ("main~0", ResolvedRef(sid(3), "snapshot", None)),
        ("main~2", ResolvedRef(sid(1), "snapshot", None)),
        ("main~3", ResolvedRef(INITIAL_SNAPSHOT_ID, "snapshot", None)),
        ("tag:both~1", ResolvedRef(sid(2), "snapshot", None)),
        ("a~1~1", ResolvedRef(INITIAL_SNAPSHOT_ID, "snapshot", None)),
        ("main~~", ResolvedRef(sid(1), "snapshot", None)),
        ("main~1~2", ResolvedRef(INITIAL_SNAPSHOT_ID, "snapshot", None)),
        (str(sid(2)), ResolvedRef(sid(2), "snapshot", None)),
        (str(INITIAL_SNAPSHOT_ID), ResolvedRef(INITIAL_SNAPSHOT_ID, "snapshot", None)),
        ("1CEC", ResolvedRef(INITIAL_SNAPSHOT_ID, "snapshot", None)),
        ("1cechnk", ResolvedRef(INITIAL_SNAPSHOT_ID, "snapshot", None)),
        (f"{sid(3)}~1", ResolvedRef(sid(2), "snapshot", None)),
    ],
)
def test_every_way_to_name_a_snapshot(repository, text, expected):
    assert repository.resolve(text) == expected


def test_both_a_branch_and_a_tag(repository):
    with pytest.raises(RefNotFoundError) as raised:
        repository.resolve("both")
    assert raised.value.hint == "write branch:both or tag:both"
    with pytest.raises(RefNotFoundError):
        repository.resolve("both~1")


def test_an_ambiguous_prefix_lists_the_candidates(repository):
    with pytest.raises(RefNotFoundError) as raised:
        repository.resolve("0000")
    for number in (1, 2, 3):
        assert str(sid(number)) in raised.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("mian", "did you mean main?"),
        ("V1", "did you mean v1?"),
        ("branch:devlop", "did you mean develop?"),
        ("mian~2", "did you mean main?"),
        ("1CE", "give at least 4 characters of it"),
        ("1cx", None),
        ("zzzzzz", None),
        ("", None),
        ("~1", None),
        ("ILOU", None),
    ],
)
def test_unknown(repository, text, hint):
    with pytest.raises(RefNotFoundError) as raised:
        repository.resolve(text)
    if hint:
        assert raised.value.hint == hint


def test_too_far_back(repository):
    with raises(RefNotFoundError, remedy="list-ancestors", ref="main"):
        repository.resolve("main~4")
    with raises(RefNotFoundError, remedy="list-ancestors", ref="main"):
        repository.resolve(f"main~{10**30}")
    with pytest.raises(RefNotFoundError):
        repository.resolve(f"main~{'9' * 5000}")


@pytest.mark.parametrize("text", ["s3://bucket/x", "./repo", "/tmp/x", "../y", "memory://x"])
def test_a_location_in_place_of_a_ref(repository, text):
    with pytest.raises(UsageError) as raised:
        repository.resolve(text)
    assert raised.value.hint == Remedy("name-repository", {"location": text})


def test_an_existing_directory_in_place_of_a_ref(repository, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    with raises(UsageError, remedy="name-repository", location="data"):
        repository.resolve("data")


def test_a_branch_may_be_called_like_a_directory(repository, tmp_path, monkeypatch):
    (tmp_path / "main").mkdir()
    monkeypatch.chdir(tmp_path)
    assert repository.resolve("main").kind == "branch"


def test_a_deleted_tag_is_told(shared_fixtures):
    repository = open_repository(LocalStorage(str(shared_fixtures / "test-repo-v1")))
    assert "deleted" in repository.deleted_tags()
    with pytest.raises(RefNotFoundError) as caught:
        repository.resolve("deleted")
    assert caught.value.hint is None  # an unknown name has one


def test_prefixes_before_version_2_are_one_listing(shared_fixtures):
    storage = FaultyStorage(LocalStorage(str(shared_fixtures / "test-repo-v1")))
    repository = open_repository(storage)
    before = len(storage.requests)
    found = repository.resolve("nxh3m0")
    assert found.snapshot_id == SnapshotId.parse("NXH3M0HJ7EEJ0699DPP0")
    assert storage.methods()[before:] == ["list"]
    assert repository.resolve("it works!").kind == "tag"
