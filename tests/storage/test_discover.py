"""Repositories are found below a location of every storage, without listing their chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from icectl.errors import StorageError
from icectl.ops.discover import find_repositories
from icectl.repository.initialize import initialize_repository
from icectl.storage.beneath import Beneath
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from icectl.storage.memory import MemoryStorage
from tests.servers.proxy import Faults
from tests.storage.conftest import Backend

V2 = ("prod/weather", "prod/deep/er/ocean", "odd names/100% é [x]+&#?", "git/clones/of/data")
OTHERS = {
    "lab/old": [
        "refs/branch.main/ref.json",
        "snapshots/A",
        "chunks/A",
        "chunks/nested/snapshots/A",
    ],
    "lab/draft": ["r/branch.main/A.json", "s/A", "m/A", "c/A"],
    "lab/lost": ["overwritten/repo.1", "snapshots/A"],
}
NOT_REPOSITORIES = {
    "index": [f"{letter}/x" for letter in "abcmrsz"],
    "plain": ["repo", "chunks/A"],
    "git/clones": ["refs/heads/main", "repo"],
    "zarr/store": ["zarr.json", "a/c/0/0"],
    "empty": [],
    "prod/only-refs": ["refs/branch.main/ref.json"],
}


def fill(storage: Storage, make: Any) -> None:
    for path in V2:
        initialize_repository(make(path), spec_version=2, config={}, metadata={})
    names = {**OTHERS, **NOT_REPOSITORIES}
    items = [(f"{where}/{name}", b"x" * 50) for where, paths in names.items() for name in paths]
    assert not [error for _, error in storage.write_many(items) if error is not None]


def found_in(storage: Storage, depth: int = 4) -> dict[str, int | None]:
    discovery = find_repositories(storage, depth)
    assert discovery.skipped == ()
    paths = [one.path for one in discovery.repositories]
    assert paths == sorted(paths)
    return {one.path: one.spec_version for one in discovery.repositories}


EXPECTED = {**dict.fromkeys(V2, 2), "lab/old": 1, "lab/draft": None, "lab/lost": None}


@pytest.fixture
def filled(backend: Backend) -> Storage:
    def make(path: str) -> Storage:
        return Backend(
            backend.name, f"{backend.location}/{path}", backend.environment, backend.options
        ).open()

    if backend.name == "memory":
        pytest.skip("each name in memory is a storage for itself")
    storage = backend.open()
    fill(storage, make)
    return storage


def test_every_storage(filled: Storage) -> None:
    assert found_in(filled) == EXPECTED
    assert found_in(filled, 2) == {path: EXPECTED[path] for path in EXPECTED if path.count("/") < 2}
    assert found_in(filled, 0) == {}
    assert found_in(filled, 10**12) == EXPECTED


def test_nothing_inside_a_repository_is_listed(
    behind_proxy: tuple[Storage, Faults],
) -> None:
    storage, faults = behind_proxy
    names = ["refs/branch.main/ref.json", "snapshots/A", *(f"chunks/{n}" for n in range(20))]
    items = [(f"some/where/{name}", b"x" * 50) for name in names]
    assert not [error for _, error in storage.write_many(items) if error is not None]
    faults.heads.clear()
    assert found_in(storage) == {"some/where": 1}
    lines = [head.split(b"\r\n")[0] for head in faults.heads]
    # Three listings and a look for `repo`; fewer than six, as a client may ask for more once.
    assert len(lines) < 6, lines
    assert not [line for line in lines if b"chunks" in line]


def test_the_location_itself_can_be_a_repository(filled: Storage, backend: Backend) -> None:
    inside = Backend(backend.name, f"{backend.location}/{V2[0]}", {}, backend.options).open()
    assert found_in(inside) == {"": 2}


# ── local disk ───────────────────────────────────────────────────────────────────────────


def test_links_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    initialize_repository(LocalStorage(tmp_path / "away"), spec_version=2, config={}, metadata={})
    initialize_repository(LocalStorage(root / "a" / "here"), spec_version=2, config={}, metadata={})
    (root / "link").symlink_to(tmp_path / "away")
    (root / "loop").symlink_to(root)
    (root / "a" / "link").symlink_to(tmp_path / "away")
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    (root / "nothing" / "in" / "here").mkdir(parents=True)
    assert found_in(LocalStorage(root)) == {"a/here": 2}


@pytest.mark.parametrize(
    "content", [b"", b"ICE", b"x" * 39, b"ICE\xf0\x9f\xa7\x8aCHUNK" + b"x" * 99]
)
def test_a_damaged_repo_file(tmp_path: Path, content: bytes) -> None:
    where = tmp_path / "some" / "repository"
    initialize_repository(LocalStorage(where), spec_version=2, config={}, metadata={})
    initialize_repository(LocalStorage(tmp_path / "good"), spec_version=2, config={}, metadata={})
    (where / "repo").write_bytes(content)
    discovery = find_repositories(LocalStorage(tmp_path), 4)
    found = {one.path: one.spec_version for one in discovery.repositories}
    assert (found, discovery.skipped) == ({"good": 2, "some/repository": None}, ())


@pytest.mark.parametrize("content", [b"", b"a list of clones\n", b"x" * 99])
def test_an_unrelated_file_named_repo(tmp_path: Path, content: bytes) -> None:
    where = LocalStorage(tmp_path / "refs" / "below")
    initialize_repository(where, spec_version=2, config={}, metadata={})
    (tmp_path / "repo").write_bytes(content)
    assert found_in(LocalStorage(tmp_path)) == {"refs/below": 2}


def test_a_directory_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "closed", "z"):
        place = LocalStorage(tmp_path / name / "here")
        initialize_repository(place, spec_version=2, config={}, metadata={})
    opened = Beneath.open_directory

    def refuse(self: Beneath, path: str, *rest: Any, **options: Any) -> int:
        # As the operating system does; but the tests may run as root, who may read everything.
        if path.startswith("closed"):
            raise PermissionError(13, "Permission denied")
        return opened(self, path, *rest, **options)

    monkeypatch.setattr(Beneath, "open_directory", refuse)
    discovery = find_repositories(LocalStorage(tmp_path), 4)
    assert [one.path for one in discovery.repositories] == ["a/here", "z/here"]
    assert [one.path for one in discovery.skipped] == ["closed"]


def test_a_failure_of_the_location_itself(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(StorageError):
        find_repositories(LocalStorage(file), 4)
    assert found_in(LocalStorage(tmp_path / "absent")) == found_in(MemoryStorage("nothing")) == {}
