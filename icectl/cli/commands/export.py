"""`icectl export`: write the repository as tables to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import command
from icectl.cli.spark_options import EngineOption, ScopeOptions, SparkPlace
from icectl.errors import UsageError
from icectl.ops.export import ExportResult, check_target, export_table, require_pyarrow
from icectl.render.rows import render_export
from icectl.storage.open import split_location
from icectl.tables.names import TABLES, check_table

EXAMPLES = """
icectl export chunk_refs --to tables  # the chunk references of main, as Parquet
icectl export all --to tables --format jsonl  # every table
icectl export nodes chunk_refs --ref v1.0 --ref main --to tables  # two versions
icectl export chunk_refs --all-snapshots --to s3a://bucket/tables --spark-master spark://host:7077
  # from the executors of a cluster
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
