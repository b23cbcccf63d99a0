"""The `Engine` protocol: run the parts of an operation that can be huge.

`LocalEngine` runs them on threads of this process, `icectl.spark.engine.SparkEngine` on the
executors of a cluster. Operations are written once against the protocol and pass in what differs:
a picklable function, and the columns of the rows that it yields. `tests/engines` is the contract
suite that both engines pass.

Whatever a function raises fails the whole call; no engine ever drops a part. A function may run
more than once on the same items, so it must not change anything.

This module does not import numpy: `stats` reads its first manifest while numpy is loading.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from icectl.pipeline.id_columns import IdSet
    from icectl.pipeline.listings import Listings
    from icectl.pipeline.objects import GarbageSet, ObjectKind
    from icectl.pipeline.progress import Progress
    from icectl.storage.contract import Storage

Columns = dict[str, "NDArray[Any]"]

KEYS = ("high", "low")
"""The key of every table: the two parts of an object id, or of another 16 bytes."""
REFERENCES = "references"
"""The table that `compare` and `exclude` use: its keys are the ids of chunks."""


@dataclass(frozen=True, slots=True)
class Column:
    """A value column of a table."""

    type: str
    """The name of a numpy type."""
    reduce: Literal["min", "max", "or", "any"]
    """How the values of one key become one value. Columns with `any` are all from the same row."""


Table = Mapping[str, Column]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows that stay with the engine, which keeps one row for each key."""

    table: str
    columns: Columns
    """The keys and the values; the arrays belong to the engine from now on."""


@dataclass(frozen=True, slots=True)
class Work:
    """A function to apply to many items, such as manifests."""

    label: str
    """For progress messages."""
    storage: Storage
    """The storage that the function reads."""
    items: Collection[Any]
    function: Callable[[Sequence[Any]], Iterable[Any]]
    """Called with some of the items. Yields `Rows`, and values of other types, called notes, which
    the caller of the engine receives; notes must be few. Must be picklable."""
    weigh: Callable[[Any], tuple[int, int]]
    """The bytes and the references of an item. Must be picklable."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    has_notes: bool = True
    reads_at_once: bool = False
    """The function itself reads many of its items at once."""
    references_at_once: int = 2_000_000
    """References in the memory of a process at once, unless a single item has more."""


class Scan(Protocol):
    """The rows and notes of some `Work`, one row for each key of a table."""

    def notes(self) -> list[Any]: ...

    def totals(self, sum_of: str, by: Sequence[str]) -> tuple[list[Any], dict[str, Columns]]:
        """The notes, and for each table its columns `by` and `sum_of`.

        An engine may combine rows that are equal in the columns `by`; the column `count`, if
        there is one, is their number.
        """

    def total(self, table: str, column: str) -> int: ...

    def map_rows(
        self,
        label: str,
        table: str,
        function: Callable[[Columns], Iterable[tuple[int, Any]]],
        rows_per_task: int,
    ) -> Iterator[Any]:
        """What the function yields for blocks of rows, each with the number of rows done."""


class Listed(Protocol):
    """The objects of one kind, which may still be being listed."""

    @property
    def kind(self) -> ObjectKind: ...


@dataclass(frozen=True, slots=True, eq=False)
class Mismatches:
    """Referenced objects that are missing or have the wrong size: the missing first, by id."""

    ids: IdSet
    size: NDArray[np.int64]
    """-1 if the object is missing."""
    columns: Columns
    """The columns of the references."""
    num_missing: int
    """Of all of them, whatever the limit."""

    def __len__(self) -> int:
        return len(self.ids)


class Comparison(Protocol):
    """References compared with a listing."""

    @property
    def num_listed(self) -> int: ...

    @property
    def num_matched(self) -> int:
        """Referenced objects that exist; counted only if `exact_sizes` was given."""

    @property
    def num_foreign(self) -> int:
        """Names that are not ids."""

    @property
    def foreign(self) -> tuple[str, ...]:
        """The paths of foreign names, sorted; not all of them if there are very many."""

    @property
    def unreferenced(self) -> GarbageSet:
        """Listed objects that nothing refers to, created before the cutoff if one was given.

        Without a cutoff, sizes and times may be unknown.
        """

    def mismatches(self, known: IdSet | None = None, limit: int | None = None) -> Mismatches:
        """The referenced objects that are missing or have the wrong size, except `known`."""

    def map_mismatches(
        self,
        function: Callable[[Columns], Iterable[Any]],
        label: str = "",
        tasks: int | None = None,
    ) -> Iterator[Any]:
        """What the function yields for blocks of all of them: keys, `size` and reference columns.

        Unlike other functions this one may change something, if repeating it is harmless. It
        must be picklable and yield few values. At most `tasks` calls run at once, if given.
        """


class Engine(Protocol):
    @property
    def name(self) -> str: ...

    def map(self, work: Work, progress: Progress) -> Iterator[Any]:
        """What the function yields, which must be notes only, in any order."""

    def scan(self, work: Work, progress: Progress, *, is_reused: bool = False) -> Scan:
        """The rows and notes of the function. `is_reused`: they are asked for more than once."""

    def list_objects(
        self, storage: Storage, kind: ObjectKind, listings: Listings, num_expected: int
    ) -> Listed:
        """Begin to list the objects of a kind."""

    def compare(
        self,
        references: Scan,
        listed: Listed,
        progress: Progress,
        *,
        cutoff: int | None = None,
        exact_sizes: bool = False,
    ) -> Comparison:
        """Compare the table `REFERENCES` with a listing.

        If the table has a column `end`, objects that are shorter are mismatches wherever the
        listing has sizes. With `exact_sizes`, longer ones are mismatches as well, and sizes that
        the listing does not have are read.
        """

    def exclude(self, objects: GarbageSet, references: Scan, progress: Progress) -> GarbageSet:
        """The objects without those that are in the table `REFERENCES`."""

    def write_table(self, files: TableFiles, progress: Progress) -> int | None:
        """Write a table as files; return the number of rows if it is known."""

    def release(self) -> None:
        """Free what earlier calls keep in memory for later ones."""


ChooseEngine = Callable[[int], Engine]
"""Return the engine for this many chunk references."""


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A table to write, in parts that a picklable function reads as Arrow record batches."""

    label: str
    parts: Sequence[Any]
    read: Callable[[Any], Iterator[Any]]
    schema: Any
    """An Arrow schema."""
    target: str
    """A directory, or a URL if the engine can write there. It does not exist or is empty."""
    format: str
