"""`icectl export` and `icectl sql`: the repository as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.engines import EngineOption, ScopeOptions, SparkPlace
from icectl.cli.options import NumberOption, command
from icectl.errors import UsageError
from icectl.ops.export import ExportResult, check_target, export_table, require_pyarrow
from icectl.render.blocks import Block, Column, Table
from icectl.render.json import to_json
from icectl.render.text import format_count
from icectl.storage.open import split_location
from icectl.tables.names import TABLES, check_table

EXAMPLES = """
icectl export chunk_refs --to tables  # the chunk references of main, as Parquet
icectl export all --to tables --format jsonl  # every table
icectl export nodes chunk_refs --ref v1.0 --ref main --to tables  # two versions
icectl export chunk_refs --all-snapshots --to s3a://bucket/tables --spark-master spark://host:7077
  # from the executors of a cluster
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
ALL = "all"


@command()
def export(
    context: CommandContext,
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE"), f"One or more of {', '.join(TABLES)}; or {ALL}."
    ],
    to: Annotated[
        str,
        typer.Option(metavar="DIRECTORY"),
        "The target directory, for files TABLE/part-….FORMAT. With Spark also a URL.",
    ],
    format_: Annotated[
        Literal["parquet", "csv", "jsonl"], typer.Option("--format"), "The file format."
    ] = "parquet",
    *,
    versions: ScopeOptions,
    engine: EngineOption = "auto",
    spark: SparkPlace,
) -> None:
    """Write the repository as tables to files.

    The tables are refs (branches and tags), snapshots (the history), nodes (groups and
    arrays), manifests, chunk_refs (the location of each chunk), changes (the changes of each
    commit), ops_log (operations) and objects (the files in the storage). icectl-tables(7) lists
    their columns; future versions only add columns. Files that a table does not need are not
    read. URLs are written unchanged, including passwords and signatures.

    Needs pyarrow, and for --engine spark PySpark and Java: pip install 'icectl[spark]'.
    """
    for name in tables:
        if name != ALL:
            check_table(name)
    engines = spark.choose(engine, context)
    to = _parse_target(to, on_spark=engines.is_asked_for)
    require_pyarrow()
    from icectl.tables.scan import TableScan

    repository, scope = versions.resolve(context)
    names = list(TABLES) if ALL in tables else list(dict.fromkeys(tables))
    scans = [TableScan(repository.storage, name, scope) for name in names]
    if "://" not in to:
        for name in names:
            check_target(Path(to, name))
    planned = [scan.plan() for scan in scans]
    num_rows = sum(partition.unit.num_rows for plan in planned for partition in plan)
    with engines:
        chosen = engines.choose(num_rows)
        written = tuple(
            export_table(chosen, scan, plan, to, format_, context.progress)
            for scan, plan in zip(scans, planned, strict=True)
        )
    context.emit(ExportResult(to, chosen.name, format_, written), render_export)


def _parse_target(to: str, *, on_spark: bool) -> str:
    """Return a path (also for `file://`), or the URL of a storage that Spark writes to."""
    if not to:
        raise UsageError("--to is empty", hint="write --to . for the current directory")
    if to.lower().startswith("file://"):
        return split_location(to)[1]
    if "://" in to and not on_spark:
        raise UsageError(
            f"the local engine writes only to directories, but {to} is a URL",
            hint="add --engine spark to write to a URL",
        )
    return to if "://" in to else split_location(to)[1]


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
    from icectl.spark.tables import RepositorySource, check_query, read_rows, run_query

    # Checked before Java starts, because this finds most mistakes.
    check_query(query)
    repository, scope = versions.resolve(context)
    source = RepositorySource(repository.storage.location, context.location.storage_options, scope)
    with ExitStack() as stack:
        session = start_spark(stack, options, context)
        with translate_failures():
            result, columns = run_query(session, source, query, number, context.progress)
    context.emit_list(
        "rows", read_rows(result), partial(render_rows, columns), beside={"columns": columns}
    )


def render_rows(
    columns: Sequence[Mapping[str, str]], rows: Iterable[Mapping[str, object]]
) -> Iterator[Block]:
    """Render a table with the names of the columns as titles and lists as JSON."""

    def cell(row: Mapping[str, object], name: str) -> object:
        plain = to_json(row[name])
        if isinstance(plain, list | dict):
            return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        return plain

    drawn = []
    for column in columns:
        is_number = column["type"] in ("bigint", "int", "double")
        read = partial(cell, name=column["name"])
        drawn.append(Column(column["name"], read, right=is_number, wraps=True))
    yield Table(drawn, rows)


def render_export(result: ExportResult) -> Iterator[Block]:
    for table in result.tables:
        rows = "" if table.num_rows is None else f", {format_count(table.num_rows, 'row')}"
        yield f"{table.table}: {table.path}{rows}"
