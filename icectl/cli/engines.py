"""The choice between this process and Spark, whose session is started only if needed."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from icectl.cli.spark_options import ROWS_FOR_SPARK, SparkPlace
from icectl.errors import UnsupportedError, UsageError
from icectl.pipeline.engine import Engine
from icectl.pipeline.local_engine import LocalEngine
from icectl.spark.session import SUBMITTED, SparkOptions, missing_for_spark, spark_session

if TYPE_CHECKING:
    from icectl.cli.context import CommandContext


class EngineChoice(ExitStack):
    """Chooses the engine by `--engine` and the Spark options; closing it ends the session."""

    def __init__(self, engine: str, place: SparkPlace, context: CommandContext) -> None:
        super().__init__()
        is_placed = bool(place.spark_master or place.spark_remote)
        if engine == "local" and (is_placed or place.spark_conf):
            raise UsageError(
                "--engine local cannot be combined with Spark options", hint="omit one of them"
            )
        self._options = place.parse()
        self._context = context
        self._spark_engine: Engine | None = None
        self._least_refs: float = float("inf")
        self.is_asked_for = engine == "spark" or (
            engine == "auto" and (is_placed or SUBMITTED in os.environ)
        )
        if self.is_asked_for:
            check_spark(self._options, "Spark cannot be used")
            self._least_refs = 0
        elif engine == "auto" and missing_for_spark(self._options, os.environ) is None:
            self._least_refs = ROWS_FOR_SPARK

    def choose(self, num_chunk_refs: int) -> Engine:
        """Return the engine for that many references; the same one each time it is Spark."""
        if num_chunk_refs < self._least_refs:
            return LocalEngine()
        if self._spark_engine is None:
            from icectl.spark.engine import SparkEngine

            self._spark_engine = SparkEngine(start_spark(self, self._options, self._context))
        return self._spark_engine


def check_spark(options: SparkOptions, consequence: str) -> None:
    """Raise `UnsupportedError` if something is missing for a session."""
    missing = missing_for_spark(options, os.environ)
    if missing is not None:
        raise UnsupportedError(f"{consequence}: {missing.what}", hint=missing.hint)


def start_spark(stack: ExitStack, options: SparkOptions, context: CommandContext) -> Any:
    """Return a session that ends with the stack."""
    with context.progress.phase("starting Spark"):
        session = spark_session(options, os.environ, name=f"icectl {context.command}")
        return stack.enter_context(session)
