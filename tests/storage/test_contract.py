"""The one suite that every backend passes against its real server."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from icectl.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from icectl.model.ids import ALPHABET
from icectl.storage import sharded_listing
from icectl.storage.contract import WHOLE_DIRECTORY, ListingShard, Storage, Version
from icectl.storage.open import open_storage
from icectl.storage.sharded_listing import list_columns_sharded, plan_listing_shards, plan_rest
from tests.storage.conftest import HONEST, Backend, backends

ODD_NAMES = (
    "!bang", "0", "00", "1", "10", "A", "A0", "AZ", "Z", "ZZ", "ZZZZ", "a-lower", "with space",
    "I", "O0", "é", "日本", "~", "nested/A0", "plus+and%percent", "é", "[x]", "𝒳",
)  # fmt: skip


def put_all(storage: Storage, paths: list[str], data: bytes = b"x") -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: storage.put_if_absent(path, data), paths))


def paths_of(storage: Storage, prefix: str = "", **arguments: object) -> list[str]:
    return sorted(info.path for info in storage.list(prefix, **arguments))  # type: ignore[arg-type]


def base32_text(value: int) -> str:
    """The first 8 letters of an id."""
    return "".join(ALPHABET[value // 32**place % 32] for place in reversed(range(8)))


def sharded(storage: Storage, prefix: str) -> list[str]:
    batches = list_columns_sharded(storage, prefix)
    return sorted(f"{prefix}/{name}" for batch in batches for name in batch.names)


class TestReading:
    def test_the_bytes_and_their_version(self, storage: Storage) -> None:
        data = bytes(range(256)) * 5 + b"\r\n--x\r\n\r\n"
        version = storage.put_if_absent("snapshots/A", data)
        assert storage.read("snapshots/A") == data
        assert storage.read_versioned("snapshots/A").data == data
        assert storage.read_versioned("snapshots/A").version == version

    def test_an_empty_object(self, storage: Storage) -> None:
        storage.put_if_absent("empty", b"")
        assert storage.read("empty") == b""
        assert storage.info("empty").size == 0

    def test_ranges(self, storage: Storage) -> None:
        storage.put_if_absent("chunks/A", b"0123456789")
        assert storage.read_range("chunks/A", 0, 10) == b"0123456789"
        assert storage.read_range("chunks/A", 3, 4) == b"3456"
        assert storage.read_range("chunks/A", 9, 1) == b"9"
        assert storage.read_range("chunks/A", 4, 0) == b""

    @pytest.mark.parametrize(("offset", "length"), [(5, 6), (10, 1), (50, 5)])
    def test_a_range_beyond_the_end(self, storage: Storage, offset: int, length: int) -> None:
        storage.put_if_absent("chunks/A", b"0123456789")
        with pytest.raises(StorageError, match="chunks/A"):
            storage.read_range("chunks/A", offset, length)

    def test_what_is_not_there(self, storage: Storage) -> None:
        storage.put_if_absent("refs/branch.main/ref.json", b"{}")
        for path in ("nothing", "refs/nothing", "refs", "refs/branch.main/ref.json/below"):
            for read in (
                storage.read,
                storage.read_versioned,
                storage.info,
                lambda path: storage.read_range(path, 0, 1),
            ):
                with pytest.raises(ObjectNotFoundError, match=path):
                    read(path)

    @pytest.mark.parametrize(
        "path", ["../x", "/etc/passwd", "a/../../x", "", "a//b", "./a", "a\0b"]
    )
    def test_a_path_that_leaves_the_root(self, storage: Storage, path: str) -> None:
        with pytest.raises(StorageError):
            storage.read(path)
        with pytest.raises(StorageError):
            storage.put_if_absent(path, b"")

    def test_many_at_once_with_each_failure(self, storage: Storage) -> None:
        paths = [f"chunks/{number}" for number in range(60)]
        put_all(storage, paths)
        asked = [*paths, "chunks/missing"]
        answers = dict(storage.read_many(iter(asked), concurrency=7))
        assert isinstance(answers.pop("chunks/missing"), ObjectNotFoundError)
        assert answers == dict.fromkeys(paths, b"x")

    def test_many_are_read_lazily(self, storage: Storage) -> None:
        storage.put_if_absent("a", b"1")
        taken = 0

        def paths():  # type: ignore[no-untyped-def]
            nonlocal taken
            for _ in range(1000):
                taken += 1
                yield "a"

        answers = storage.read_many(paths(), concurrency=5)
        assert next(answers) == ("a", b"1")
        assert taken <= 6
        answers.close()  # type: ignore[attr-defined]

    def test_size_and_time(self, storage: Storage) -> None:
        before = storage.read_clock()
        storage.put_if_absent("a", b"12345")
        info = storage.info("a")
        assert (info.path, info.size) == ("a", 5)
        assert info.created_at is not None
        # S3 and HTTP dates have whole seconds.
        assert before - 1_100_000 <= info.created_at <= storage.read_clock() + 1_100_000

    def test_the_clock_is_about_now(self, storage: Storage) -> None:
        before = time.time()
        clock = storage.read_clock()
        storage.put_if_absent("a", b"1")
        read_at = storage.read_versioned("a").read_at
        assert before - 3 < clock / 1e6 <= read_at / 1e6 + 3
        assert read_at / 1e6 < time.time() + 3


class TestConditionalPuts:
    def test_create_once(self, storage: Storage) -> None:
        storage.put_if_absent("repo", b"1")
        with pytest.raises(PreconditionFailedError):
            storage.put_if_absent("repo", b"2")
        assert storage.read("repo") == b"1"

    def test_replace_what_was_read(self, storage: Storage) -> None:
        first = storage.put_if_absent("repo", b"1")
        second = storage.put_if_match("repo", b"2", first, metadata={"key": "value"})
        assert storage.read_versioned("repo").version == second != first
        with pytest.raises(PreconditionFailedError):
            storage.put_if_match("repo", b"3", first)
        assert storage.read("repo") == b"2"

    def test_replace_what_is_gone(self, storage: Storage) -> None:
        version = storage.put_if_absent("repo", b"1")
        assert list(storage.delete_many(["repo"])) == [("repo", None)]
        with pytest.raises(PreconditionFailedError):
            storage.put_if_match("repo", b"2", version)
        with pytest.raises(ObjectNotFoundError):
            storage.read("repo")

    def test_large_objects_keep_their_condition(self, storage: Storage) -> None:
        data = b"0123456789abcdef" * (1 << 20)
        version = storage.put_if_absent("repo", b"1")
        stale, version = version, storage.put_if_match("repo", data, version)
        with pytest.raises(PreconditionFailedError):
            storage.put_if_match("repo", data + b"!", stale)
        assert storage.read_versioned("repo").data == data

    def test_the_probe_leaves_nothing(self, storage: Storage) -> None:
        storage.ensure_conditional_writes()
        storage.ensure_conditional_writes()
        assert paths_of(storage) == []

    @pytest.mark.parametrize("backend", backends(*HONEST), indirect=True)
    def test_one_of_many_creates(self, storage: Storage) -> None:
        def create(number: int) -> bool:
            try:
                storage.put_if_absent("repo", str(number).encode())
            except PreconditionFailedError:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(create, range(16))) == 1

    @pytest.mark.parametrize("backend", backends(*HONEST), indirect=True)
    def test_no_update_is_lost_among_32_writers(self, storage: Storage) -> None:
        storage.put_if_absent("counter", b"")

        def append(writer: int) -> None:
            while True:
                old = storage.read_versioned("counter")
                try:
                    storage.put_if_match("counter", old.data + b"%d " % writer, old.version)
                except PreconditionFailedError:
                    continue
                break

        with ThreadPoolExecutor(32) as pool:
            list(pool.map(append, range(32)))
        entries = Counter(storage.read("counter").split())
        assert entries == Counter(b"%d" % writer for writer in range(32))


class TestListing:
    def test_below_a_directory(self, storage: Storage) -> None:
        put_all(storage, ["repo", "refs/branch.a/ref.json", "refs/tag.b/ref.json", "refsx/c"])
        assert paths_of(storage) == [
            "refs/branch.a/ref.json", "refs/tag.b/ref.json", "refsx/c", "repo",
        ]  # fmt: skip
        assert paths_of(storage, "refs") == ["refs/branch.a/ref.json", "refs/tag.b/ref.json"]
        assert paths_of(storage, "refs/") == paths_of(storage, "refs")
        assert paths_of(storage, "refs", starts_with="bra") == ["refs/branch.a/ref.json"]
        assert paths_of(storage, "refs", with_info=False) == paths_of(storage, "refs")
        assert paths_of(storage, "nothing") == []

    def test_sizes_and_times(self, storage: Storage) -> None:
        storage.put_if_absent("chunks/A", b"123")
        (info,) = storage.list("chunks")
        # Only `info` tells an etag: listings are of millions, and nobody asks them for one.
        assert info == replace(storage.info("chunks/A"), etag=None)

    def test_columns(self, storage: Storage) -> None:
        put_all(storage, ["chunks/A", "chunks/b/C", "chunksx"], b"123")
        for shard in (WHOLE_DIRECTORY, ListingShard("A"), ListingShard("", "A")):
            listed = {info.path: info for info in storage.list("chunks", shard=shard)}
            for batch in storage.list_columns("chunks", shard=shard):
                assert batch.sizes.dtype == batch.created_at.dtype == np.int64
                for name, size, created_at in zip(
                    batch.names, batch.sizes, batch.created_at, strict=True
                ):
                    info = listed.pop(f"chunks/{name}")
                    assert (info.size, info.created_at) == (size, created_at)
            assert not listed
        assert list(storage.list_columns("nothing")) == []

    def test_names_only_and_information_of_many(self, storage: Storage) -> None:
        names = ["a", "b c", "nested/d", "nested/deeper/e"]
        put_all(storage, [*(f"chunks/{name}" for name in names), "chunksx"])
        batches = storage.list_names("chunks")
        if batches is not None:
            assert sorted(name for batch in batches for name in batch) == names
        first, second = storage.info("chunks/b c"), storage.info("chunks/a")
        told = list(storage.read_sizes_and_times("chunks", ["b c", "none", "a", "nested"]))
        assert told == [
            (first.size, first.created_at),
            None,
            (second.size, second.created_at),
            None,
        ]

    def test_directories(self, storage: Storage) -> None:
        put_all(storage, ["repo", "refs/branch.a/ref.json", "refs/tag.b/ref.json", "refs/c"])
        assert sorted(storage.list_directories("")) == ["refs"]
        assert sorted(storage.list_directories("refs")) == ["branch.a", "tag.b"]
        assert list(storage.list_directories("nothing")) == []

    def test_more_than_one_page_of_directories(self, storage: Storage) -> None:
        names = [f"{number:04}" for number in range(1100)]
        items = [(f"refs/{name}/x", b"x") for name in [*names, *ODD_NAMES]]
        assert {error for _, error in storage.write_many(items)} == {None}
        odd = {name.partition("/")[0] for name in ODD_NAMES}
        assert sorted(storage.list_directories("refs")) == sorted({*names, *odd})
        for name in odd:
            assert [*storage.list_directories(f"refs/{name}")] == (
                ["A0"] if name == "nested" else []
            )

    def test_odd_names(self, storage: Storage) -> None:
        paths = sorted(f"chunks/{name}" for name in set(ODD_NAMES))
        put_all(storage, paths)
        assert paths_of(storage, "chunks") == paths
        assert dict(storage.read_many(paths)) == dict.fromkeys(paths, b"x")
        assert dict(storage.delete_many(paths)) == dict.fromkeys(paths)
        assert paths_of(storage) == []

    @pytest.mark.parametrize("backend", backends("local", "seaweedfs"), indirect=True)
    @pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x7fb"])
    def test_control_characters(self, backend: Backend, name: str) -> None:
        """The official package writes the names of tags as they are."""
        path = f"refs/tag.{name}/ref.json"
        operations: list[Callable[[Storage], object]] = [
            lambda storage: storage.put_if_absent(path, b"x"),
            lambda storage: storage.read(path),
            lambda storage: dict(storage.read_many([path])) == {path: b"x"},
            lambda storage: storage.info(path),
            lambda storage: paths_of(storage, "refs") == [path],
            lambda storage: [*storage.list_directories("refs")] == [f"tag.{name}"],
            lambda storage: dict(storage.write_many([(path, b"y")])) == {path: None},
            lambda storage: dict(storage.delete_many([path, "refs/b"]))[path] is None,
        ]
        for operation in operations:
            assert operation(backend.open())

    @pytest.mark.server
    def test_control_characters_without_a_fallback(
        self, make_backend: Callable[[str], Backend]
    ) -> None:
        storage = make_backend("azurite").open()
        with pytest.raises(StorageError):
            storage.put_if_absent("a\nb", b"x")
        assert isinstance(dict(storage.read_many(["a\nb"]))["a\nb"], StorageError)

    def test_shards_meet_without_gap_or_overlap(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        paths = sorted(f"chunks/{name}" for name in set(ODD_NAMES))
        put_all(storage, paths)
        for count in (1, 2, 32):
            listed: list[str] = []
            for shard in plan_listing_shards(count):
                listed += paths_of(storage, "chunks", shard=shard)
            assert sorted(listed) == paths
        for small in (1, 3, len(paths) - 1, len(paths), len(paths) + 1):
            monkeypatch.setattr(sharded_listing, "SMALL_DIRECTORY", small)
            assert sharded(storage, "chunks") == paths

    def test_more_than_one_page(self, storage: Storage) -> None:
        alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
        paths = [*sorted(f"chunks/{a}{b}0" for a in alphabet for b in alphabet), "chunks/foreign"]
        put_all(open_storage(storage.location), [*paths, "chunkz"])  # by the faster driver
        assert paths_of(storage, "chunks") == paths
        assert sharded(storage, "chunks") == paths
        middle = ListingShard("A", "C")
        assert paths_of(storage, "chunks", shard=middle) == [
            path for path in paths if path.removeprefix("chunks/")[0] in "AB"
        ]
        started = list_columns_sharded(storage, "chunks")
        next(started)
        started.close()  # type: ignore[attr-defined]
        assert dict(storage.delete_many(iter(paths))) == dict.fromkeys(paths)
        assert paths_of(storage) == ["chunkz"]


def test_a_listing_has_as_many_shards_as_its_first_page_says() -> None:
    def shards_for(total: int) -> int:
        ids = sorted(base32_text(number * 32**8 // total) for number in range(total))
        return len(plan_rest(ids[:1000], 32))

    assert shards_for(1001) == 1
    assert 2 <= shards_for(3000) <= 4
    assert 8 <= shards_for(10_000) <= 12
    assert 30 <= shards_for(1_000_000) <= 33
    assert len(plan_rest(["foreign"] * 1000, 32)) == 1


class TestDeleting:
    def test_what_is_gone_is_no_failure(self, storage: Storage) -> None:
        put_all(storage, ["a", "b/c"])
        assert dict(storage.delete_many(["a", "missing", "b/c", "b/none"])) == dict.fromkeys(
            ["a", "missing", "b/c", "b/none"]
        )
        assert paths_of(storage) == []

    def test_nothing(self, storage: Storage) -> None:
        assert list(storage.delete_many([])) == []


class TestTravelling:
    def test_pickled_after_use(self, storage: Storage) -> None:
        storage.put_if_absent("a", b"1")
        storage.ensure_conditional_writes()
        pickled = pickle.dumps(storage)
        copy = pickle.loads(pickled)
        assert copy.read("a") == b"1"
        assert copy.location == storage.location
        assert b"secret" not in pickled and "secret" not in repr(storage)

    def test_a_version_is_a_value(self, storage: Storage) -> None:
        version = storage.put_if_absent("a", b"1")
        storage.put_if_match("a", b"2", Version(version.token))
        assert storage.read("a") == b"2"


class TestWritingMany:
    def test_nothing(self, storage: Storage) -> None:
        assert not [*storage.write_many([])]
        storage.sync()

    def test_each_object_is_written_or_replaced(self, storage: Storage) -> None:
        storage.put_if_absent("chunks/1", b"old and longer")
        items = {f"chunks/{number}": str(number).encode() * number for number in range(200)}
        assert dict(storage.write_many(iter(items.items()), concurrency=7)) == dict.fromkeys(items)
        assert dict(storage.read_many(items)) == items
        assert paths_of(storage) == sorted(items)
        storage.sync()

    def test_items_are_consumed_lazily(self, storage: Storage) -> None:
        taken = 0

        def items() -> Iterator[tuple[str, bytes]]:
            nonlocal taken
            for taken in range(1, 5001):
                yield f"chunks/{taken}", b"x"

        outcomes = storage.write_many(items(), concurrency=2)
        next(outcomes)
        outcomes.close()  # type: ignore[attr-defined]
        assert taken < 2500

    def test_an_invalid_path_is_an_outcome(self, storage: Storage) -> None:
        if storage.location.startswith("memory"):
            pytest.skip("it has no such paths")
        outcomes = dict(storage.write_many([("chunks/A", b"1"), ("chunks/../B", b"2")]))
        assert outcomes["chunks/A"] is None
        assert isinstance(outcomes["chunks/../B"], StorageError)

    def test_copying_within_one_storage(self, backend: Backend) -> None:
        source, target = backend.open(), replace(backend, location=f"{backend.location}-2").open()
        if not target.can_copy_from(source):
            pytest.skip("it does not copy by itself")
        items = {f"chunks/{number}": bytes([number]) * number for number in range(100)}
        put_all(target, ["chunks/7"], b"old")
        for path, data in items.items():
            source.put_if_absent(path, data)
        sizes = [("chunks/none", 1), *((path, len(data)) for path, data in items.items())]
        outcomes = dict(target.copy_from(source, sizes, concurrency=5))
        assert isinstance(outcomes.pop("chunks/none"), ObjectNotFoundError)
        assert outcomes == dict.fromkeys(items)
        assert dict(target.read_many(items)) == items
        assert paths_of(target) == sorted(items)
