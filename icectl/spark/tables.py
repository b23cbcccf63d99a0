"""The tables of one repository as DataFrames and views of a Spark session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from icectl.errors import Remedy, UsageError
from icectl.model.redaction import redact_locations
from icectl.pipeline.progress import Progress
from icectl.spark.datasource import STORAGE_PREFIX
from icectl.spark.jobs import run_job
from icectl.tables.names import tables_hint
from icectl.tables.schemas import SCHEMAS
from icectl.tables.scope import Scope

QUERIES = ("select", "with", "values", "table", "from", "describe", "desc", "show", "explain")
_TEXTS_AND_COMMENTS = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RepositorySource:
    """The location of the repository for the executors, and the versions to read."""

    location: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    scope: Scope = field(default_factory=Scope)
    """Its refs are snapshot ids: what a branch points at must not change between two tables."""

    def load(self, spark: Any, table: str, columns: Sequence[str] = ()) -> Any:
        options = {f"{STORAGE_PREFIX}{key}": value for key, value in self.storage_options.items()}
        options["table"] = table
        if columns:
            options["columns"] = ",".join(columns)
        if self.scope.all_snapshots:
            options["snapshot"] = "all"
        elif self.scope.refs:
            options["snapshot"] = ",".join(self.scope.refs)
        if self.scope.as_of is not None:
            options["as_of"] = (_EPOCH + timedelta(microseconds=self.scope.as_of)).isoformat()
        if self.scope.backup is not None:
            options["backup"] = self.scope.backup
        return spark.read.format("icechunk").options(**options).load(self.location)


def run_query(
    spark: Any,
    source: RepositorySource,
    query: str,
    limit: int | None,
    progress: Progress | None = None,
) -> tuple[Any, list[dict[str, str]]]:
    """The result of a query over the tables as one Arrow table, and its columns with types."""
    from pyspark.errors import AnalysisException

    views = plan_views(query)
    for table, columns in views.items():
        source.load(spark, table, columns).createOrReplaceTempView(table)
    try:
        result = spark.sql(query)
    except AnalysisException:
        # With whole tables, Spark finds what was left out, or can say what comes near.
        for table in views:
            source.load(spark, table).createOrReplaceTempView(table)
        result = spark.sql(query)
    names = result.columns
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UsageError(
            f"two columns of the result are named {repeated}", hint="give one of them a name: AS x"
        )
    types = [{"name": name, "type": type_} for name, type_ in result.dtypes]
    limited = result if limit is None else result.limit(limit)
    label = "querying on Spark"
    return run_job(spark, progress or Progress(), label, limited.toArrow, attempts=1), types


def read_rows(result: Any) -> Iterator[Mapping[str, object]]:
    """The rows of an Arrow table as plain values, without passwords and signatures in URLs."""
    for batch in result.to_batches():
        for row in batch.to_pylist():
            yield {name: redact_locations(_plain(value)) for name, value in row.items()}


def _plain(value: object) -> object:
    """Convert types that JSON does not have, such as decimals, to text."""
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    known = value is None or isinstance(value, str | int | float | bytes | datetime)
    return value if known else str(value)


def check_query(query: str) -> None:
    """`UsageError` for statements that change something: the tables are views."""
    words = re.findall(r"\w+", _TEXTS_AND_COMMENTS.sub(" ", query).lower())
    if not words:
        raise UsageError("the query is empty", hint=tables_hint())
    if words[0] not in QUERIES:
        raise UsageError(
            f"only queries can be run, and none begins with {words[0]}",
            hint=f"queries begin with {', '.join(QUERIES)}",
        )
    # WITH and FROM can introduce it.
    if any(pair in (("insert", "into"), ("insert", "overwrite")) for pair in pairwise(words)):
        raise UsageError(
            "only queries can be run, and this one inserts",
            hint=Remedy("export-tables"),
        )


def plan_views(query: str) -> dict[str, tuple[str, ...]]:
    """The tables and columns that the query may use.

    Spark does not pass the needed columns to a Python data source. A column whose name does not
    occur in the text is not needed, unless the text asks for columns without naming them.
    """
    text = re.sub(r"count\s*\(\s*\*\s*\)", "", query.lower())
    words = set(re.findall(r"\w+", text))
    # `from nodes |> where …` asks for all of them, too.
    unnamed = (
        "*" in text
        or "select" not in words
        or bool(words & {"natural", "table", "describe", "desc", "show"})
    )
    tables = [table for table in SCHEMAS if table in words]
    views = {}
    for table in tables or SCHEMAS:
        names = SCHEMAS[table].names
        wanted = tuple(name for name in names if name in words)
        # Rows can be counted without a column; one of them must be there all the same.
        views[table] = tuple(names) if unnamed else wanted or (names[0],)
    return views
