"""Failing storages, lost responses and damaged files: a live object is never deleted."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from icectl.errors import FormatError, IcectlError, StorageError
from icectl.storage.memory import MemoryStorage
from tests.faults.storage import FaultyStorage, Hook, Request, fail_after
from tests.gc.repositories import (
    collect,
    files,
    live_paths,
    messy_repository,
    paths,
    upload,
)
from tests.official import built

numbers = itertools.count()


def in_memory(repository: Path) -> MemoryStorage:
    storage = MemoryStorage(f"gc-faults-{next(numbers)}")
    upload(repository, storage)
    return storage


def fail_at(number: int) -> Hook:
    def hook(request: Request) -> None:
        if request.number == number:
            raise StorageError(f"{request.path}: the storage failed once, on purpose")

    return hook


@pytest.fixture(params=[1, 2])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, messy_repository, request.param)


def count_requests(source: Path) -> int:
    counted = FaultyStorage(in_memory(source))
    collect(counted)
    return len(counted.requests)


@pytest.mark.parametrize("how", ["once", "for good", "lost response"])
def test_every_request_fails(source: Path, how: str) -> None:
    live = live_paths(source)
    total = count_requests(source)
    assert total > 50
    for number in range(1, total + 1):
        inner = in_memory(source)
        if how == "once":
            faulty = FaultyStorage(inner, before=fail_at(number))
        elif how == "for good":
            faulty = FaultyStorage(inner, before=fail_after(number - 1))
        else:
            faulty = FaultyStorage(inner, after=fail_at(number))
        try:
            _, deleted = collect(faulty)
        except IcectlError:
            pass
        else:
            # Deletes that failed are told, and nothing else may have been passed over.
            assert how == "for good" or not deleted.failures
        assert live <= paths(inner), f"request {number} of {total}"
        _, finished = collect(inner)
        assert paths(inner) == live, f"after request {number} of {total} failed"
        assert not finished.failures


def test_failed_deletes_are_told_and_the_next_run_finishes(source: Path) -> None:
    live = live_paths(source)
    inner = in_memory(source)

    def refuse(request: Request) -> None:
        if request.method == "delete_many" and request.path.startswith("chunks/"):
            raise StorageError(f"{request.path}: not allowed")

    _run, deleted = collect(FaultyStorage(inner, before=refuse))
    chunks = sum(path.startswith("chunks/") for path in paths(inner) - live)
    assert chunks and len(deleted.failures) == chunks
    assert all(failure.object.startswith("chunks/") for failure in deleted.failures)
    collect(inner)
    assert paths(inner) == live


@pytest.mark.parametrize("damage", ["empty", "cut", "overwritten", "missing", "neighbour"])
def test_every_file_is_damaged_once(source: Path, damage: str) -> None:
    live = live_paths(source)
    whole = in_memory(source)
    for path in sorted(info.path for info in whole.list("")):
        if path.startswith(("chunks/", "overwritten/config")):
            continue
        if damage == "missing" and path.startswith("refs/") and "branch.main" not in path:
            continue  # that is how a branch or a tag is deleted before spec version 2
        storage = in_memory(source)
        data = storage.read(path)
        list(storage.delete_many([path]))
        neighbour = next(
            (info.path for info in whole.list(path.rpartition("/")[0]) if info.path != path), None
        )
        changed = {
            "empty": b"",
            "cut": data[: len(data) // 2],
            "overwritten": bytes(len(data)),
            "missing": None,
            "neighbour": whole.read(neighbour) if neighbour else b"x",
        }[damage]
        if changed is not None:
            storage.put_if_absent(path, changed)
        try:
            collect(storage)
        except IcectlError as error:
            assert error.exit_code in (10, 12, 13, 14, 15), (path, error)
            assert paths(storage) >= files(source) - {path}, path
        else:
            assert live - {path} <= paths(storage), path


def test_exchanged_transaction_logs_stop_the_run(source: Path) -> None:
    """No chunk hangs on them, but two kept files are not what their names say."""
    storage = in_memory(source)
    logs = sorted(path for path in live_paths(source) if path.startswith("transactions/"))
    first, second = logs[:2]
    data = {first: storage.read(second), second: storage.read(first)}
    list(storage.delete_many(data))
    for path, content in data.items():
        storage.put_if_absent(path, content)
    before = paths(storage)
    with pytest.raises(FormatError) as caught:
        collect(storage)
    assert caught.value.code == "ICE0203" and caught.value.path in data
    assert paths(storage) == before
    collect(storage, known_missing=frozenset(data))
    assert paths(storage) == live_paths(source)


def test_lost_chunk_stops_unless_it_is_known(source: Path) -> None:
    storage = in_memory(source)
    lost = sorted(path for path in live_paths(source) if path.startswith("chunks/"))[0]
    list(storage.delete_many([lost]))
    before = paths(storage)
    with pytest.raises(FormatError) as caught:
        collect(storage)
    assert caught.value.code == "ICE0401" and caught.value.path == lost
    assert paths(storage) == before
    collect(storage, known_missing=frozenset({lost}))
    assert paths(storage) == live_paths(source) - {lost}


def test_short_chunk_stops_where_sizes_are_free(source: Path) -> None:
    storage = in_memory(source)
    chunks = sorted(path for path in live_paths(source) if path.startswith("chunks/"))
    before = {path: storage.read(path) for path in chunks}
    list(storage.delete_many(chunks))
    for path, data in before.items():
        storage.put_if_absent(path, data[:-1])
    # Each of them, however many others of its manifest are known.
    for path in (chunks[0], chunks[-1]):
        with pytest.raises(FormatError) as caught:
            collect(storage, known_missing=frozenset({*chunks} - {path}))
        assert caught.value.code == "ICE0402" and caught.value.path == path


def test_all_chunks_are_lost_and_known(source: Path) -> None:
    storage = in_memory(source)
    chunks = [path for path in paths(storage) if path.startswith("chunks/")]
    list(storage.delete_many(chunks))
    storage.put_if_absent("chunks/README.txt", b"mine")
    collect(storage, known_missing=frozenset(chunks))
    assert storage.read("chunks/README.txt") == b"mine"
