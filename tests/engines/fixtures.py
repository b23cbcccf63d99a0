"""The engines for tests: `engine` is each of them, `spark` the one session of a test process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from icectl.pipeline.engine import Engine
from icectl.pipeline.local_engine import LocalEngine
from tests.servers.s3 import ACCESS_KEY, SECRET_KEY, aws_environment

HAS_SPARK = bool(shutil.which("java") and find_spec("pyspark") and find_spec("pyarrow"))
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Halves the processor time of Java: little runs long enough to be worth the better compiler."""
MARKS = [
    pytest.mark.spark,
    pytest.mark.skipif(not HAS_SPARK, reason="Spark needs Java and PySpark"),
]
ONE_PROCESS = pytest.mark.xdist_group("spark")
"""With `--dist loadgroup`, all of them run in one process, which has the session."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(ONE_PROCESS)


@pytest.fixture(scope="session")
def event_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The event log of the session, to look for secrets in."""
    return tmp_path_factory.mktemp("spark-events")


@pytest.fixture(scope="session")
def spark(event_logs: Path) -> Iterator[Any]:
    from icectl.spark.session import QUIET_LOG, SparkOptions, spark_session

    if "PYTEST_XDIST_WORKER" in os.environ:
        # Fails without `--dist loadgroup`: a session in each worker would only be slow, unnoticed.
        (event_logs.parents[1] / "spark").touch(exist_ok=False)

    credentials = aws_environment("", ACCESS_KEY, SECRET_KEY)
    del credentials["AWS_ENDPOINT_URL"]
    variables = {
        **credentials,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_logs.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()} {QUICK_JAVA}"
        ),
    }
    with ExitStack() as stack:
        # Java, and with it the executors, keeps the environment of its start. The tests of this
        # process must not.
        with pytest.MonkeyPatch.context() as environment:
            for name, value in variables.items():
                environment.setenv(name, value)
            session = stack.enter_context(
                spark_session(SparkOptions("local[2]", conf=conf), os.environ)
            )
        yield session


@pytest.fixture
def spark_engine(spark: Any) -> Iterator[Engine]:
    from icectl.spark.engine import SparkEngine

    engine = SparkEngine(spark)
    yield engine
    engine.release()


@pytest.fixture(params=["local", pytest.param("spark", marks=[*MARKS, ONE_PROCESS])])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "local":
        return LocalEngine()
    found: Engine = request.getfixturevalue("spark_engine")
    return found


@pytest.fixture
def choose_engine(engine: Engine) -> Callable[[int], Engine]:
    """For the options of operations."""
    return lambda num_chunk_refs: engine
