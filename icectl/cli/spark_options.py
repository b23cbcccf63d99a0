"""Options of the commands that can run on Spark, and the choice of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from icectl.cli.context import CommandContext
    from icectl.ops.tables.scope import Scope
    from icectl.repository.repository import Repository
    from icectl.spark.session import SparkOptions

ROWS_FOR_SPARK = 50_000_000
"""Beyond this many references `auto` means Spark, where it is installed.

Chosen for memory, not for speed. gc's plan of 10 million references on a machine of 2 cores: one
process took 11 s and 950 MB, Spark 37 to 39 s with a driver of 125 MB that did not grow, and about
10 s more to start. On 2 cores Spark was never faster; from where a larger cluster is has not been
measured. 50 million are, by that measure, about 5 GB for one process.
"""

EngineOption = Annotated[
    Literal["auto", "local", "spark"],
    typer.Option(
        "--engine",
        metavar="auto|local|spark",
        help="Where to work: in this process, or on Spark. auto: on Spark when one of its options "
        f"is given, or beyond {ROWS_FOR_SPARK // 1_000_000} million references if it is installed.",
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
        help="A setting of Spark, such as spark.executor.memory=4g. Repeatable.",
    ),
]
TableRefOption = Annotated[
    list[str],
    typer.Option(
        "--ref",
        metavar="REF",
        help="Show these versions, or for snapshots and changes their history. Repeatable. "
        "Default: main, and for snapshots and changes the whole repository.",
    ),
]
AllSnapshotsOption = Annotated[
    bool, typer.Option("--all-snapshots", help="Show every snapshot of the repository.")
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
    """The options of Spark as one value; `UsageError` for what they cannot mean."""
    from icectl.errors import UsageError
    from icectl.spark.session import CONNECT, SparkOptions

    if master and remote:
        raise UsageError(
            "--spark-master and --spark-remote cannot be combined",
            hint="a Connect server has its own master",
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
                "--spark-conf is written KEY=VALUE", hint="spark.executor.memory=4g for example"
            )
        pairs[key] = value
    return SparkOptions(master, remote, pairs)


def resolve_scope(
    context: CommandContext,
    repository: Repository,
    refs: Sequence[str],
    all_snapshots: bool,
    as_of: str | None,
) -> Scope:
    """The versions as snapshot ids, which cannot move while tables are read."""
    from icectl.errors import UsageError
    from icectl.ops.tables.scope import Scope

    if refs and all_snapshots:
        raise UsageError("--ref and --all-snapshots cannot be combined")
    ids = tuple(str(repository.resolve(ref).snapshot_id) for ref in refs)
    return Scope(ids, all_snapshots, context.parse_moment(as_of))
