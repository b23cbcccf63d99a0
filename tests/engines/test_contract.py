"""The contract of `Engine`, which every engine passes."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icectl.errors import (
    FormatError,
    IcectlError,
    LimitExceededError,
    ObjectNotFoundError,
    Remedy,
    StorageError,
    UnsupportedError,
)
from icectl.pipeline.engine import (
    REFERENCES,
    Column,
    Columns,
    Comparison,
    Engine,
    Rows,
    Scan,
    TableFiles,
    Work,
)
from icectl.pipeline.id_columns import IdSet, id_set
from icectl.pipeline.listings import Listings
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.storage.contract import (
    WHOLE_DIRECTORY,
    ListedColumns,
    ListingShard,
    ObjectInfo,
    Storage,
)
from icectl.storage.local import LocalStorage
from tests.patience import assert_within

CHUNK = ObjectKind.CHUNK
YEAR = 365 * 86400 * 1_000_000
LATER = time.time_ns() // 1000 + YEAR
LARGEST = 2**64 - 1


class ObjectStore(LocalStorage):
    """Lists sizes and times in shards, as an object store does."""

    def listing_shards(self) -> int:
        return 4

    def list_names(self, prefix: str) -> None:
        return None


@pytest.fixture(params=[LocalStorage, ObjectStore])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStorage:
    (tmp_path / "chunks").mkdir()
    found: LocalStorage = request.param(tmp_path)
    return found


def chunk(number: int) -> bytes:
    """An id; ids that differ only in their last 4 bytes are among them."""
    return (number % 3).to_bytes(8, "big") + number.to_bytes(4, "big")


def ids_of(numbers: Sequence[int]) -> Columns:
    high, low = (
        np.array([int.from_bytes(chunk(one)[part]) for one in numbers], type_)
        for part, type_ in ((slice(8), np.uint64), (slice(8, 12), np.uint32))
    )
    return {"high": high, "low": low}


def numbers_of(ids: IdSet) -> list[int]:
    return sorted(int.from_bytes(one[8:]) for one in ids.to_bytes())


def name_of(number: int) -> str:
    return id_set([chunk(number)]).to_names()[0]


@dataclass(frozen=True)
class Item:
    """Yields references to chunks, and itself as a note."""

    number: int
    chunks: tuple[tuple[int, int], ...] = ()
    """Numbers and ends."""


def weigh(item: Item) -> tuple[int, int]:
    return 3_000_000, len(item.chunks)


@dataclass(frozen=True)
class Read:
    """The function under test; fails for one of the items."""

    failure: Exception | None = None
    fails_at: int = -1
    with_sizes: bool = True
    with_notes: bool = False

    def __call__(self, items: Sequence[Item]) -> Iterator[Any]:
        for item in items:
            if self.failure is not None and item.number == self.fails_at:
                raise self.failure
            columns = ids_of([number for number, _ in item.chunks])
            if self.with_sizes:
                columns["end"] = np.array([end for _, end in item.chunks], np.uint64)
            yield Rows(REFERENCES, columns)
            if self.with_notes:
                yield item


ENDS = {"end": Column("uint64", "max")}


def work(storage: LocalStorage, items: Sequence[Item], function: Read | None = None) -> Work:
    function = function or Read()
    return Work(
        "reading",
        storage,
        items,
        function,
        weigh,
        {REFERENCES: ENDS if function.with_sizes else {}},
        has_notes=function.with_notes,
    )


def compare(engine: Engine, storage: LocalStorage, references: Scan, **options: Any) -> Comparison:
    with Listings(storage, Progress()) as listings:
        listed = engine.list_objects(storage, CHUNK, listings, 10)
        return engine.compare(references, listed, Progress(), **options)


def write(storage: LocalStorage, sizes: dict[int, int]) -> None:
    for number, size in sizes.items():
        Path(storage.location, "chunks", name_of(number)).write_bytes(bytes(size))


def _twice(items: Sequence[Item]) -> Iterator[int]:
    for item in items:
        yield item.number
        yield item.number


def test_notes_of_every_item(engine: Engine, storage: LocalStorage) -> None:
    items = [Item(number) for number in range(20)]
    mapped = Work("", storage, items, _twice, weigh)
    assert sorted(engine.map(mapped, Progress())) == sorted([*range(20)] * 2)
    assert list(engine.map(Work("", storage, [], _twice, weigh), Progress())) == []
    scan = engine.scan(work(storage, items, Read(with_notes=True)), Progress(), is_reused=True)
    assert sorted(item.number for item in scan.notes()) == [*range(20)]


FAILURES = [
    FormatError("it is damaged", path="manifests/X", offset=7, code="ICE0302"),
    FormatError("it is damaged", hint=Remedy("restore-or-expire", {"a": "b"})),
    LimitExceededError("CHUNK_RATIO", "it is too large", offset=3),
    ObjectNotFoundError("manifests/X", hint="look for it"),
    StorageError("the storage is down"),
    UnsupportedError("it is too new"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
def test_a_failure_fails_the_whole_call(engine: Engine, tmp_path: Path, failure: Any) -> None:
    """A part that cannot be read must never look like a part without references."""
    storage = ObjectStore(tmp_path)
    (tmp_path / "chunks").mkdir()
    write(storage, {1: 5, 2: 5})
    items = [Item(number, ((number, 5),)) for number in range(1, 9)]
    with pytest.raises(type(failure)) as caught:
        references = engine.scan(work(storage, items, Read(failure, 4)), Progress())
        compare(engine, storage, references, cutoff=LATER)
    found = caught.value
    assert str(found) == str(failure)
    for name in ("kind", "exit_code", "hint", "message", "path", "offset", "code", "limit"):
        assert getattr(found, name, None) == getattr(failure, name, None), name


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
def test_errors_can_be_pickled(failure: IcectlError) -> None:
    found = pickle.loads(pickle.dumps(failure))
    assert type(found) is type(failure)
    assert (str(found), found.__dict__) == (str(failure), failure.__dict__)


def test_one_row_for_each_key(engine: Engine, storage: LocalStorage) -> None:
    """Of all kinds of columns, with numbers that have no signed form."""
    references = engine.scan(
        Work("", storage, range(6), _every_kind, _weigh_number, {"a": KINDS, "b": ENDS}), Progress()
    )
    notes, tables = references.totals("any", ["least", "most", "bits"])
    assert sorted(notes) == [*range(6)]
    a = tables["a"]
    counts = a.get("count", np.ones(len(a["any"]), np.int64))
    assert (int(counts.sum()), sum(a["any"].tolist())) == (2, 2 * (LARGEST - 7))
    assert set(a["least"].tolist()) == {-6} and set(a["most"].tolist()) == {LARGEST}
    assert set(a["bits"].tolist()) == {0b111111 | 1 << 63}
    assert references.total("a", "any") == 2 * (LARGEST - 7)
    assert references.total("b", "end") == 6 * LARGEST


KINDS = {
    "least": Column("int32", "min"),
    "most": Column("uint64", "max"),
    "bits": Column("uint64", "or"),
    "any": Column("uint64", "any"),
}


def _weigh_number(_number: int) -> tuple[int, int]:
    return 3_000_000, 2


def _every_kind(numbers: Sequence[int]) -> Iterator[Any]:
    for number in numbers:
        yield Rows(
            "a",
            {
                **ids_of([1, 2]),
                "least": np.full(2, -1 - number, np.int32),
                "most": np.full(2, LARGEST - number, np.uint64),
                "bits": np.full(2, 1 << number | 1 << 63, np.uint64),
                "any": np.full(2, LARGEST - 7, np.uint64),
            },
        )
        yield Rows("b", {**ids_of([number]), "end": np.full(1, LARGEST, np.uint64)})
        yield number


def _seen(columns: Columns) -> Iterator[tuple[int, Any]]:
    ids = IdSet(columns["high"], columns["low"])
    yield len(ids), (numbers_of(ids), sorted(columns["end"].tolist()))


def test_a_function_of_rows(engine: Engine, storage: LocalStorage) -> None:
    items = [Item(number, ((number, number), (number + 1, LARGEST))) for number in range(9)]
    scan = engine.scan(work(storage, items), Progress(), is_reused=True)
    for _ in range(2):
        notes = [*scan.map_rows("", REFERENCES, _seen, 3)]
        assert sorted(one for numbers, _ in notes for one in numbers) == [*range(10)]
        assert sorted(end for _, ends in notes for end in ends) == [0, *[LARGEST] * 9]


def test_comparison(engine: Engine, storage: LocalStorage) -> None:
    """1 and 2 are as they should be, 3 is short, 4 and 5 are missing, 6 and 7 are garbage."""
    write(storage, {1: 5, 2: 9, 3: 5, 6: 1, 7: 2})
    chunks = Path(storage.location, "chunks")
    (chunks / "README.txt").write_text("mine")
    (chunks / "0").write_text("mine")
    items = [
        Item(1, ((1, 5), (2, 5))),
        Item(2, ((3, 6), (2, 4))),
        Item(3, ((4, 5), (2, 5), (3, 1))),
        Item(4, ((5, LARGEST), (4, 1))),
    ]
    references = engine.scan(work(storage, items), Progress())
    found = compare(engine, storage, references, cutoff=LATER)
    assert (found.num_listed, found.num_foreign) == (5, 2)
    assert found.foreign == ("chunks/0", "chunks/README.txt")
    assert (len(found.unreferenced), found.unreferenced.bytes) == (2, 3)
    assert numbers_of(found.unreferenced.first(9)) == [6, 7]
    wrong = found.mismatches()
    shorts = [3] if isinstance(storage, ObjectStore) else []
    assert sorted(numbers_of(wrong.ids)) == sorted([4, 5, *shorts])
    assert wrong.num_missing == 2
    assert wrong.size.tolist() == [-1, -1, *(5 for _ in shorts)]
    if shorts:
        assert wrong.columns["end"].tolist()[-1] == 6
    first = found.mismatches(limit=1)
    assert (len(first), first.num_missing, first.size.tolist()) == (1, 2, [-1])
    known = found.mismatches(id_set([chunk(3), chunk(4)]), limit=1)
    assert (numbers_of(known.ids), known.num_missing) == ([5], 1)
    assert known.columns["end"].tolist() == [LARGEST]
    everything = id_set(map(chunk, range(9)))
    assert len(found.mismatches(everything, limit=1)) == 0


def test_exact_comparison(engine: Engine, storage: LocalStorage) -> None:
    write(storage, {1: 5, 2: 9, 3: 5, 6: 1})
    items = [Item(1, ((1, 5), (2, 5))), Item(2, ((3, 6), (2, 4), (4, 5))), Item(3, ((1, 5),))]
    references = engine.scan(work(storage, items), Progress(), is_reused=True)
    found = compare(engine, storage, references, exact_sizes=True)
    assert (found.num_listed, found.num_matched, len(found.unreferenced)) == (4, 3, 1)
    wrong = found.mismatches()
    rows = zip(numbers_in_order(wrong.ids), wrong.size.tolist(), strict=True)
    assert dict(rows) == {2: 9, 3: 5, 4: -1}
    assert wrong.num_missing == 1 and wrong.size[0] == -1
    mapped = [row for rows in found.map_mismatches(_wrong_rows, "mapping") for row in rows]
    assert sorted(mapped) == [(2, 9, 5), (3, 5, 6), (4, -1, 5)]
    references = engine.scan(work(storage, items[:0]), Progress())
    nothing = compare(engine, storage, references, exact_sizes=True)
    assert not [*nothing.map_mismatches(_wrong_rows)]


def _wrong_rows(columns: Columns) -> Iterator[list[tuple[int, int, int]]]:
    """The number, the size and the expected size of each row."""
    numbers = numbers_in_order(IdSet(columns["high"], columns["low"]))
    yield [*zip(numbers, columns["size"].tolist(), columns["end"].tolist(), strict=True)]


def numbers_in_order(ids: IdSet) -> list[int]:
    return [int.from_bytes(one[8:]) for one in ids.to_bytes()]


def test_young_objects_are_not_garbage(engine: Engine, storage: LocalStorage) -> None:
    write(storage, {1: 5, 2: 5})
    references = engine.scan(work(storage, []), Progress())
    assert len(compare(engine, storage, references, cutoff=LATER - 2 * YEAR).unreferenced) == 0
    assert len(compare(engine, storage, references, cutoff=LATER).unreferenced) == 2


def test_nothing_is_listed(engine: Engine, storage: LocalStorage) -> None:
    read = Read(with_sizes=False)
    references = engine.scan(work(storage, [Item(1, ((1, 0),))], read), Progress())
    found = compare(engine, storage, references, cutoff=LATER)
    assert (found.num_listed, len(found.unreferenced), found.foreign) == (0, 0, ())
    assert found.mismatches(limit=1).num_missing == 1


class Broken(ObjectStore):
    """Fails in the middle of a listing."""

    def list(
        self, prefix: str = "", *, shard: ListingShard | None = None, **options: Any
    ) -> Iterator[ObjectInfo]:
        found = list(super().list(prefix, **options))
        yield from found[:1]
        raise StorageError("the listing broke off")

    def list_columns(
        self, prefix: str, *, shard: ListingShard = WHOLE_DIRECTORY
    ) -> Iterator[ListedColumns]:
        return Storage.list_columns(self, prefix, shard=shard)


def test_a_listing_that_breaks_off(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "chunks").mkdir()
    storage = Broken(tmp_path)
    write(storage, {1: 5, 2: 5})
    references = engine.scan(work(storage, [Item(1, ((1, 5),))]), Progress())
    with pytest.raises(StorageError, match="the listing broke off"):
        compare(engine, storage, references, cutoff=LATER)


def test_excluding_and_deleting(engine: Engine, storage: LocalStorage) -> None:
    write(storage, dict.fromkeys(range(1, 7), 3))
    references = engine.scan(work(storage, [Item(1, ((1, 3),))]), Progress())
    garbage = compare(engine, storage, references, cutoff=LATER).unreferenced
    more = engine.scan(work(storage, [Item(2, ((2, 3), (3, 3)))]), Progress())
    rest = engine.exclude(garbage, more, Progress()).without(id_set([chunk(4)]))
    assert (len(garbage), len(rest), rest.bytes) == (5, 2, 6)
    (Path(storage.location) / "chunks" / name_of(5)).unlink()  # by a task that was repeated
    batches = [*rest.delete(storage, Progress())]
    assert sum(batch.count for batch in batches) == 2
    assert all(batch.is_complete and not batch.failures for batch in batches)
    left = {path.name for path in Path(storage.location, "chunks").iterdir()}
    assert left == {name_of(number) for number in (1, 2, 3, 4)}
    engine.release()


class Endless(Read):
    def __call__(self, items: Sequence[Item]) -> Iterator[Any]:
        time.sleep(1 if len(items) < 2 else 120)
        return super().__call__(items)


def test_the_deadline(engine: Engine, storage: LocalStorage) -> None:
    progress = Progress(deadline=time.monotonic() + 0.5)
    items = [Item(number, ((number, 5),)) for number in range(60)]
    started = time.monotonic()
    with pytest.raises(OutOfTimeError):
        references = engine.scan(work(storage, items, Endless()), progress)
        with Listings(storage, Progress()) as listings:
            listed = engine.list_objects(storage, CHUNK, listings, 10)
            engine.compare(references, listed, progress, cutoff=LATER)
    assert_within(60, started)


def _rows(number: int) -> Iterator[Any]:
    import pyarrow as pa

    if number < 0:
        raise FormatError("it is damaged", path="manifests/X", code="ICE0302")
    yield pa.RecordBatch.from_pydict({"n": [number, number + 1]})


def test_tables(engine: Engine, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    schema = pa.schema({"n": pa.int64()})
    files = TableFiles("", [10, 20, 30], _rows, schema, str(tmp_path / "table"), "parquet")
    assert engine.write_table(files, Progress()) in (6, None)
    written = pq.read_table(tmp_path / "table", partitioning=None)
    assert sorted(written.column("n").to_pylist()) == [10, 11, 20, 21, 30, 31]
    damaged = TableFiles("", [10, -1], _rows, schema, str(tmp_path / "other"), "parquet")
    with pytest.raises(FormatError) as caught:
        engine.write_table(damaged, Progress())
    assert (caught.value.code, caught.value.path) == ("ICE0302", "manifests/X")
    assert not [*tmp_path.glob("other/*.parquet")]
