"""One local Spark session for the test process, with an event log to look for secrets in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icectl.spark.session import SparkOptions, spark_session
from tests.servers.s3 import ACCESS_KEY, SECRET_KEY, aws_environment
from tests.tables.repositories import find_repository


@pytest.fixture(scope="session")
def event_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark-events")


@pytest.fixture(scope="session")
def spark(event_logs: Path) -> Iterator[Any]:
    # Java, and with it the executors, has the environment of the moment it starts.
    credentials = aws_environment("", ACCESS_KEY, SECRET_KEY)
    del credentials["AWS_ENDPOINT_URL"]
    before = dict(os.environ)
    os.environ.update(credentials, SPARK_LOCAL_IP="127.0.0.1")
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_logs.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    try:
        with spark_session(SparkOptions("local[2]", conf=conf), os.environ) as session:
            yield session
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_repository("zoo-2", tmp_path_factory)
