"""The format `icechunk` of Spark: the tables of `icectl.tables`, read in the executors.

Options: `table`; `ref` (several with commas between), `snapshot` (ids with commas between, or
`all`), `as_of` (a date or time); `backup` (the name of a backup in overwritten/ whose state is read
instead of the newest one); `columns` (names with commas between); `storage.KEY` for what
is `--storage-option KEY=VALUE` on the command line. Options are shown in plans: credentials
are none of them, and an option that nobody knows is refused without repeating its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    In,
    InputPartition,
    StringStartsWith,
)

from icectl.errors import UsageError
from icectl.spark.table_files import spark_schema
from icectl.storage.open import open_storage
from icectl.storage.times import microseconds
from icectl.tables.names import TABLES
from icectl.tables.scan import Partition, TableScan
from icectl.tables.scope import Condition, Scope

STORAGE_PREFIX = "storage."
OPTIONS = ("path", "table", "ref", "snapshot", "as_of", "backup", "columns")
PUSHED_COLUMNS = ("path", "snapshot_id", "kind", "manifest_id")


class IcechunkDataSource(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "icechunk"

    def schema(self) -> str:
        return spark_schema(parse_options(self.options).schema)

    def reader(self, schema: Any) -> DataSourceReader:
        """The schema is that of the table, or the part of it that the user named."""
        scan = parse_options(self.options)
        return IcechunkReader(replace(scan, columns=tuple(schema.fieldNames())))


@dataclass
class TablePartition(InputPartition):  # type: ignore[misc]
    value: Partition


class IcechunkReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, scan: TableScan) -> None:
        self.scan = scan

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 -- Spark's name
        conditions = tuple(filter(None, map(_condition, filters)))
        self.scan = replace(self.scan, conditions=conditions)
        # All of them: a condition leaves out files, and Spark still looks at each row.
        return filters

    def partitions(self) -> list[InputPartition]:
        # A table without partitions has one that is empty, since Spark would make one up.
        return [TablePartition(partition) for partition in self.scan.plan()] or [
            InputPartition(None)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:
            return iter(())
        return self.scan.read(partition.value)


def _condition(filter_: Any) -> Condition | None:
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    column = ".".join(path)
    if column not in PUSHED_COLUMNS:
        return None
    match filter_:
        case EqualTo(_, str(value)) | EqualNullSafe(_, str(value)):
            return Condition(column, (value,))
        case In(_, values) if all(isinstance(value, str) for value in values):
            return Condition(column, tuple(values))
        case StringStartsWith(_, str(prefix)):
            return Condition(column, prefix=prefix)
    return None


def parse_options(options: Mapping[str, str]) -> TableScan:
    given = {key.lower(): value for key, value in options.items()}
    storage_options = {
        key.removeprefix(STORAGE_PREFIX): given.pop(key)
        for key in list(given)
        if key.startswith(STORAGE_PREFIX)
    }
    for key in given:
        if key not in OPTIONS:
            raise UsageError(
                f"the format icechunk has no option {key}",
                hint=f"its options are {', '.join(OPTIONS[1:])} and {STORAGE_PREFIX}KEY",
            )
    if "path" not in given:
        raise UsageError("no repository is named", hint='write .load("s3://BUCKET/PREFIX")')
    if "table" not in given:
        raise UsageError("no table is named", hint=f'.option("table", …) takes {", ".join(TABLES)}')
    return TableScan(
        open_storage(given["path"], storage_options),
        given["table"],
        _parse_scope(given),
        tuple(name.strip() for name in given.get("columns", "").split(",") if name.strip()),
    )


def _parse_scope(given: Mapping[str, str]) -> Scope:
    snapshot = given.get("snapshot", "")
    if snapshot and "ref" in given:
        raise UsageError("the options ref and snapshot cannot be combined")
    every = snapshot.strip().lower() == "all"
    names = given.get("ref", "") if every or not snapshot else snapshot
    refs = tuple(name.strip() for name in names.split(",") if name.strip())
    return Scope(refs, every, _parse_time(given.get("as_of")), given.get("backup"))


def _parse_time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"the option as_of is not a time: {text!r}", hint="write 2024-01-31T12:00:00Z"
        ) from None
    return microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
