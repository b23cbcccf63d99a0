"""The choice between this process and Spark, whose session is started only if needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

from icectl.cli.locations import check_spark_conf
from icectl.cli.spark_options import ROWS_FOR_SPARK, parse_spark_options
from icectl.errors import UnsupportedError, UsageError
from icectl.pipeline.engine import Engine
from icectl.pipeline.local_engine import LocalEngine


class EngineChoice(ExitStack):
    """Chooses the engine by `--engine` and the Spark options; closing it ends the session."""

    def __init__(
        self, engine: str, master: str | None, remote: str | None, conf: Sequence[str], *, name: str
    ) -> None:
        from icectl.spark.session import SUBMITTED, missing_for_spark

        super().__init__()
        if engine == "local" and (master or remote or conf):
            raise UsageError(
                "--engine local cannot be combined with Spark options", hint="omit one of them"
            )
        check_spark_conf(conf)
        self._options = parse_spark_options(master, remote, conf)
        self._name = name
        self._spark_engine: Engine | None = None
        self._is_auto = engine == "auto"
        self.is_asked_for = engine == "spark" or (
            self._is_auto and bool(master or remote or SUBMITTED in os.environ)
        )
        missing = missing_for_spark(self._options, os.environ) if self.is_asked_for else None
        if missing is not None:
            raise UnsupportedError(f"Spark cannot be used: {missing.what}", hint=missing.hint)

    def choose(self, num_chunk_refs: int) -> Engine:
        """Return the engine for that many references; the same one each time it is Spark."""
        if not self.is_asked_for and not self._is_worth_spark(num_chunk_refs):
            return LocalEngine()
        if self._spark_engine is None:
            from icectl.spark.engine import SparkEngine
            from icectl.spark.session import spark_session

            session = self.enter_context(spark_session(self._options, os.environ, name=self._name))
            self._spark_engine = SparkEngine(session)
        return self._spark_engine

    def _is_worth_spark(self, num_chunk_refs: int) -> bool:
        from icectl.spark.session import missing_for_spark

        is_large = self._is_auto and num_chunk_refs >= ROWS_FOR_SPARK
        return is_large and missing_for_spark(self._options, os.environ) is None
