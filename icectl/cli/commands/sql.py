"""`icectl sql`: query the repository with SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import NumberOption, command
from icectl.cli.spark_options import ScopeOptions, SparkPlace
from icectl.model.redaction import redact_locations
from icectl.render.rows import render_rows

EXAMPLES = """
icectl sql "select path, kind, count(*) as chunks, sum(length) as bytes from chunk_refs group by \
path, kind"
  # the chunks of each array of main, by kind
icectl sql "select snapshot_id from changes where path = '/t' and kind = 'updated_chunk' and \
coordinates[0] between 10 and 19 group by 1"
  # the commits that changed a region of an array
icectl sql "select kind, count(*) as objects, sum(size_bytes) as bytes from objects group by \
kind" --json
  # the objects in the storage, by kind
"""


@command(jsonl=True)
def sql(
    context: CommandContext,
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY"),
        "A query in Spark SQL on the tables of the repository.",
    ],
    number: NumberOption = None,
    *,
    versions: ScopeOptions,
    spark: SparkPlace,
) -> None:
    """Query the repository with SQL, on Spark.

    The tables are refs, snapshots, nodes, manifests, chunk_refs, changes, ops_log and objects,
    with the columns that icectl-tables(7) lists. If a condition compares path, snapshot_id, kind
    or manifest_id with constants, files that cannot match are not read. Passwords and signatures
    in URLs are hidden; icectl export writes them.

    The query runs on Spark, which needs pip install 'icectl[spark]' and Java 17 or newer.
    """
    from icectl.cli.engines import check_spark, start_spark

    options = spark.parse()
    check_spark(options, "icectl sql needs Spark")
    from icectl.spark.failures import translate_failures
    from icectl.spark.tables import RepositorySource, check_query, run_query

    # Checked before Java starts, because this finds most mistakes.
    check_query(query)
    repository, scope = versions.resolve(context)
    source = RepositorySource(repository.storage.location, context.location.storage_options, scope)
    with ExitStack() as stack:
        session = start_spark(stack, options, context)
        with translate_failures():
            result, columns = run_query(session, source, query, number, context.progress)
    context.emit_list(
        "rows", _rows(result), partial(render_rows, columns), beside={"columns": columns}
    )


def _rows(result: Any) -> Iterator[Mapping[str, object]]:
    for batch in result.to_batches():
        for row in batch.to_pylist():
            yield {name: redact_locations(_plain(value)) for name, value in row.items()}


def _plain(value: object) -> object:
    """Convert types that neither JSON nor the renderers support, such as decimals, to text."""
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    known = value is None or isinstance(value, str | int | float | bytes | datetime)
    return value if known else str(value)
