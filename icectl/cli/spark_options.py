"""Options of commands that can run on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from icectl.cli.context import CommandContext
    from icectl.repository.repository import Repository
    from icectl.spark.session import SparkOptions
    from icectl.tables.scope import Scope

ROWS_FOR_SPARK = 50_000_000
"""Beyond this many references `auto` means Spark, if it is installed.

Chosen for memory, not for speed. For a gc plan with 10 million references on 2 cores, one process
took 11 s and 950 MB; Spark took 37 to 39 s, plus about 10 s to start, with a driver of 125 MB that
did not grow. On 2 cores Spark was never faster; larger clusters have not been measured. At that
rate, one process needs about 5 GB for 50 million references.
"""

EngineOption = Annotated[
    Literal["auto", "local", "spark"],
    typer.Option(
        "--engine",
        metavar="auto|local|spark",
        help="Run in this process (local) or on Spark. auto uses Spark if a Spark option is given, "
        f"or for more than {ROWS_FOR_SPARK // 1_000_000} million references if it is installed.",
    ),
]
SparkMasterOption = Annotated[
    str | None,
    typer.Option(
        "--spark-master",
        metavar="URL",
        help="The master of a Spark cluster, such as spark://HOST:7077. Default: this machine, "
        "local[*].",
    ),
]
SparkRemoteOption = Annotated[
    str | None,
    typer.Option("--spark-remote", metavar="URL", help="A Spark Connect server: sc://HOST:15002."),
]
SparkConfOption = Annotated[
    list[str],
    typer.Option(
        "--spark-conf",
        metavar="KEY=VALUE",
        help="A Spark setting, such as spark.executor.memory=4g. Repeatable.",
    ),
]
TableRefOption = Annotated[
    list[str],
    typer.Option(
        "--ref",
        metavar="REF",
        help="Use these versions; for snapshots and changes, their history. Repeatable. "
        "Default: main; for snapshots and changes, all snapshots.",
    ),
]
AllSnapshotsOption = Annotated[
    bool, typer.Option("--all-snapshots", help="Use every snapshot of the repository.")
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Versions and history as they were then: a date (2024-01-31), a time "
        "(2024-01-31T12:00:00Z), or an age (3d). refs, ops_log and objects are always as they are "
        "now.",
    ),
]


def parse_spark_options(
    master: str | None, remote: str | None, conf: Iterable[str]
) -> SparkOptions:
    """Combine the Spark options; raise `UsageError` if they are invalid."""
    from icectl.errors import UsageError
    from icectl.spark.session import CONNECT, SparkOptions

    if master and remote:
        raise UsageError(
            "--spark-master and --spark-remote cannot be combined",
            hint="omit one of them; a Connect server has its own master",
        )
    if remote and not remote.startswith(CONNECT):
        raise UsageError(
            f"invalid value {remote!r} for --spark-remote", hint="write sc://HOST:PORT"
        )
    pairs = {}
    for pair in conf:
        key, separator, value = pair.partition("=")
        if not separator or not key.startswith("spark."):
            raise UsageError(
                "--spark-conf must have the form KEY=VALUE",
                hint="write, for example, spark.executor.memory=4g",
            )
        pairs[key] = value
    return SparkOptions(master, remote, pairs)


def resolve_scope(
    context: CommandContext,
    repository: Repository,
    refs: Sequence[str],
    all_snapshots: bool,
    as_of: str | None,
    state: str | None,
) -> Scope:
    """Resolve the versions to snapshot ids, which do not change while tables are read.

    `state` is the backup with the state of the repository; None for the newest state.
    """
    from icectl.errors import UsageError
    from icectl.repository.ops_log import BACKUPS
    from icectl.tables.scope import Scope

    if refs and all_snapshots:
        raise UsageError("--ref and --all-snapshots cannot be combined")
    ids = tuple(str(repository.resolve(ref).snapshot_id) for ref in refs)
    backup = None if state is None else state.removeprefix(f"{BACKUPS}/")
    return Scope(ids, all_snapshots, context.parse_moment(as_of), backup)
