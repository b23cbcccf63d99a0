"""The options of commands that can run on Spark or read tables, and the choice of the engine."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from icectl.cli.options import AtOpOption, Flag, Pairs, Time, Url, check_exclusive
from icectl.errors import UnsupportedError, UsageError
from icectl.model.redaction import hide_secrets, is_secret
from icectl.pipeline.engine import Engine
from icectl.pipeline.local_engine import LocalEngine
from icectl.spark import SUBMITTED

if TYPE_CHECKING:
    from icectl.cli.context import CommandContext
    from icectl.repository.repository import Repository
    from icectl.spark.session import SparkOptions
    from icectl.tables.scope import Scope


_NAMES_SECRET_FILE = re.compile(
    r"(file|path|provider|bitlength|enabled)$|\.secret(s|keyref)\.", re.IGNORECASE
)
"""Spark settings that are not secrets but refer to one."""
ROWS_FOR_SPARK = 50_000_000
"""Beyond this many references `auto` means Spark, if it is installed.

Chosen for memory, not for speed. For a gc plan with 10 million references on 2 cores, one process
took 11 s and 950 MB; Spark took 37 to 39 s, plus about 10 s to start, with a driver of 125 MB that
did not grow. On 2 cores Spark was never faster; larger clusters have not been measured. At that
rate, one process needs about 5 GB for 50 million references.
"""


EngineOption = Annotated[
    Literal["auto", "local", "spark"],
    typer.Option(metavar="auto|local|spark"),
    "Run in this process (local) or on Spark. auto uses Spark if a Spark option is given, "
    f"or for more than {ROWS_FOR_SPARK // 1_000_000} million references if it is installed.",
]


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """The options that say where Spark runs."""

    spark_master: Annotated[
        Url,
        "The master of a Spark cluster, such as spark://HOST:7077. Default: this machine, "
        "local[*].",
    ] = None
    spark_remote: Annotated[Url, "A Spark Connect server: sc://HOST:15002."] = None
    spark_conf: Annotated[
        Pairs, "A Spark setting, such as spark.executor.memory=4g. Repeatable."
    ] = None

    def choose(self, engine: str, context: CommandContext) -> EngineChoice:
        return EngineChoice(engine, self, context)

    def parse(self) -> SparkOptions:
        """Combine the options; raise `UsageError` if they are invalid or contain a secret."""
        from icectl.spark.session import CONNECT, SparkOptions

        remote = self.spark_remote
        hint = "omit one of them; a Connect server has its own master"
        check_exclusive({"--spark-master": self.spark_master, "--spark-remote": remote}, hint)
        if remote and not remote.startswith(CONNECT):
            raise UsageError(
                f"invalid value {remote!r} for --spark-remote", hint="write sc://HOST:PORT"
            )
        pairs = {}
        for pair in self.spark_conf or ():
            key, separator, value = pair.partition("=")
            if not separator or not key.startswith("spark."):
                raise UsageError(
                    "--spark-conf must have the form KEY=VALUE",
                    hint="write, for example, spark.executor.memory=4g",
                )
            holds_secret = is_secret(key, value) or hide_secrets(value) != value
            if holds_secret and not _NAMES_SECRET_FILE.search(key):
                # Spark would pass it in the arguments of its Java process.
                raise UsageError(
                    f"the Spark setting {key} looks like a secret, or contains one",
                    hint="every user of this machine could read it; write it to "
                    "spark-defaults.conf, with mode 0600, in the directory SPARK_CONF_DIR",
                )
            pairs[key] = value
        return SparkOptions(self.spark_master, remote, pairs)


@dataclass(frozen=True, slots=True)
class ScopeOptions:
    """The options that select the versions of which tables are read."""

    ref: Annotated[
        list[str] | None,
        typer.Option(metavar="REF"),
        "Use these versions; for snapshots and changes, their history. Repeatable. "
        "Default: main; for snapshots and changes, all snapshots.",
    ] = None
    all_snapshots: Annotated[Flag, "Use every snapshot of the repository."] = False
    as_of: Annotated[
        Time,
        "Versions and history as they were then: a date (2024-01-31), a time "
        "(2024-01-31T12:00:00Z), or an age (3d). refs, ops_log and objects are always as they "
        "are now.",
    ] = None
    at_op: AtOpOption = None

    def resolve(self, context: CommandContext) -> tuple[Repository, Scope]:
        """Open the repository, and resolve what does not change while tables are read.

        That is, the versions to snapshot ids, and the operation to the backup of its state.
        """
        from icectl.repository.ops_log import BACKUPS
        from icectl.tables.scope import Scope

        check_exclusive({"--ref": self.ref, "--all-snapshots": self.all_snapshots})
        state = context.find_state(self.at_op)
        repository = context.open_repository(state)
        ids = tuple(str(repository.resolve(ref).snapshot_id) for ref in self.ref or ())
        backup = None if state is None else state.removeprefix(f"{BACKUPS}/")
        as_of = context.parse_moment(self.as_of)
        return repository, Scope(ids, self.all_snapshots, as_of, backup)


class EngineChoice(ExitStack):
    """Chooses the engine by `--engine` and the Spark options; closing it ends the session."""

    def __init__(self, engine: str, place: SparkPlace, context: CommandContext) -> None:
        super().__init__()
        is_placed = bool(place.spark_master or place.spark_remote)
        is_configured = is_placed or bool(place.spark_conf)
        check_exclusive({"--engine local": engine == "local", "Spark options": is_configured})
        self._place = place
        self._context = context
        self._spark_engine: Engine | None = None
        self._is_auto = engine == "auto"
        self.is_asked_for = engine == "spark" or (
            self._is_auto and (is_placed or SUBMITTED in os.environ)
        )
        if is_configured or self.is_asked_for:
            options = self._options
            if self.is_asked_for:
                check_spark(options, "Spark cannot be used")

    @cached_property
    def _options(self) -> SparkOptions:
        return self._place.parse()

    def choose(self, num_chunk_refs: int) -> Engine:
        """Return the engine for that many references; the same one each time it is Spark."""
        if not self.is_asked_for and not self._is_worth_spark(num_chunk_refs):
            return LocalEngine()
        if self._spark_engine is None:
            from icectl.spark.engine import SparkEngine

            self._spark_engine = SparkEngine(start_spark(self, self._options, self._context))
        return self._spark_engine

    def _is_worth_spark(self, num_chunk_refs: int) -> bool:
        if not self._is_auto or num_chunk_refs < ROWS_FOR_SPARK:
            return False
        from icectl.spark.session import missing_for_spark

        return missing_for_spark(self._options, os.environ) is None


def check_spark(options: SparkOptions, consequence: str) -> None:
    """Raise `UnsupportedError` if something is missing for a session."""
    from icectl.spark.session import missing_for_spark

    missing = missing_for_spark(options, os.environ)
    if missing is not None:
        raise UnsupportedError(f"{consequence}: {missing.what}", hint=missing.hint)


def start_spark(stack: ExitStack, options: SparkOptions, context: CommandContext) -> Any:
    """Return a session that ends with the stack."""
    from icectl.spark.session import spark_session

    with context.progress.phase("starting Spark"):
        session = spark_session(options, os.environ, name=f"icectl {context.command}")
        return stack.enter_context(session)
