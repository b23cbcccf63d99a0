"""`icectl export`: the repository as tables in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.locations import check_spark_conf
from icectl.cli.options import command
from icectl.cli.spark_options import (
    AllSnapshotsOption,
    AsOfOption,
    EngineOption,
    SparkConfOption,
    SparkMasterOption,
    SparkRemoteOption,
    TableRefOption,
    resolve_scope,
)
from icectl.errors import UsageError
from icectl.ops.tables.export import (
    ExportedTable,
    ExportResult,
    check_target,
    export_locally,
    require_pyarrow,
)
from icectl.ops.tables.names import TABLES, check_table
from icectl.render.rows import render_export
from icectl.storage.open import split_location

if TYPE_CHECKING:
    from icectl.ops.tables.scan import Partition, TableScan

EXAMPLES = {
    "export": (
        ("icectl export chunk_refs --to tables", "where each chunk of main is, as Parquet"),
        ("icectl export all --to tables --format jsonl", "every table"),
        ("icectl export nodes chunk_refs --ref v1.0 --ref main --to tables", "two versions"),
        (
            "icectl export chunk_refs --all-snapshots --to s3a://bucket/tables "
            "--spark-master spark://host:7077",
            "from the executors of a cluster",
        ),
    )
}
ALL = "all"


@command()
def export(
    context: CommandContext,
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE", help=f"One of: {', '.join(TABLES)}; or {ALL}. Several may be given."
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="DIRECTORY",
            help="Where to write: TABLE/part-….FORMAT is made in it. Spark takes URLs, too.",
        ),
    ],
    format_: Annotated[
        Literal["parquet", "csv", "jsonl"],
        typer.Option("--format", help="The kind of the files."),
    ] = "parquet",
    ref: TableRefOption = (),  # type: ignore[assignment]
    all_snapshots: AllSnapshotsOption = False,
    as_of: AsOfOption = None,
    engine: EngineOption = "auto",
    spark_master: SparkMasterOption = None,
    spark_remote: SparkRemoteOption = None,
    spark_conf: SparkConfOption = (),  # type: ignore[assignment]
) -> None:
    """Write the repository as tables to files.

    The tables are refs (branches and tags), snapshots (the history), nodes (groups and
    arrays), manifests, chunk_refs (where each chunk is), changes (what each commit changed),
    ops_log (operations) and objects (what lies in the storage). Their columns are documented
    in README, and change only by addition. Files that the table cannot need are not read.
    URLs are written as they are, with passwords and signatures in them.

    Needs pyarrow, and for --engine spark PySpark and Java: pip install 'icectl[spark]'.
    """
    from icectl.cli.engines import SparkChoice

    check_spark_conf(spark_conf)
    for name in tables:
        if name != ALL:
            check_table(name)
    engines = SparkChoice(engine, spark_master, spark_remote, spark_conf, name="icectl export")
    to = _parse_target(to, on_spark=engines.is_asked_for)
    require_pyarrow()
    from icectl.ops.tables.scan import TableScan

    repository = context.open_repository()
    scope = resolve_scope(context, repository, ref, all_snapshots, as_of)
    names = list(TABLES) if ALL in tables else list(dict.fromkeys(tables))
    scans = [TableScan(repository.storage, name, scope) for name in names]
    if "://" not in to:
        for name in names:
            check_target(Path(to, name))
    # Spark plans on its own; where it is not asked for, the plan decides.
    planned = [] if engines.is_asked_for else [scan.plan() for scan in scans]
    num_rows = sum(partition.work.num_rows for plan in planned for partition in plan)
    with engines:
        session = engines.session(num_rows)
        if session is None:
            written = _export_locally(context, scans, planned, Path(to), format_)
        else:
            written = _export_with_spark(context, scans, to, format_, session)
    result = ExportResult(to, "local" if session is None else "spark", format_, tuple(written))
    context.emit(result, render_export)


def _export_locally(
    context: CommandContext,
    scans: Sequence[TableScan],
    planned: Sequence[list[Partition]],
    directory: Path,
    format_: str,
) -> list[ExportedTable]:
    written = []
    for scan, partitions in zip(scans, planned, strict=True):
        with context.progress(f"exporting {scan.table}", unit="rows") as progress:
            written.append(export_locally(scan, partitions, directory, format_, progress.advance))
    return written


def _export_with_spark(
    context: CommandContext,
    scans: Sequence[TableScan],
    to: str,
    format_: str,
    spark: Any,
) -> list[ExportedTable]:
    from icectl.spark.failures import told_in_words
    from icectl.spark.tables import RepositorySource, export_with_spark

    written = []
    base = to.rstrip("/") if "://" in to else Path(to).absolute().as_uri()
    with told_in_words():
        for scan in scans:
            source = RepositorySource(
                scan.storage.location, context.location.storage_options, scan.scope
            )
            context.note(f"exporting {scan.table} on Spark")
            target = f"{base}/{scan.table}"
            export_with_spark(source.load(spark, scan.table), scan.schema, target, format_)
            path = target if "://" in to else str(Path(to, scan.table))
            written.append(ExportedTable(scan.table, path, None))
    return written


def _parse_target(to: str, *, on_spark: bool) -> str:
    """A path, which `file://` is as well, or the URL of another storage that Spark writes to."""
    if not to:
        raise UsageError("--to names no directory", hint="--to . is the current one")
    if to.lower().startswith("file://"):
        return split_location(to)[1]
    if "://" in to and not on_spark:
        raise UsageError(
            f"the local engine writes to directories, and {to} is none",
            hint="--engine spark takes URLs",
        )
    return to if "://" in to else split_location(to)[1]
