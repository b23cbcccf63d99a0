"""Spark's own servers on loopback, started from the installed package, ended by their ids."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.engines.fixtures import QUICK_JAVA
from tests.servers.processes import free_port, running, wait_for_port

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def spark_program(name: str) -> str:
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


@contextlib.contextmanager
def spark_environment(directory: Path) -> Iterator[None]:
    """Children of this process use its interpreter, loopback, and a directory of the test."""
    before = dict(os.environ)
    os.environ.update(
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        SPARK_DAEMON_JAVA_OPTS=QUICK_JAVA,
        SPARK_LOG_DIR=str(directory),
        SPARK_LOCAL_DIRS=str(directory),
        SPARK_WORKER_DIR=str(directory),
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@dataclass(frozen=True)
class Cluster:
    url: str
    workers: list[subprocess.Popen[bytes]]


@contextlib.contextmanager
def standalone_cluster(directory: Path) -> Iterator[Cluster]:
    """A master and two workers of one core each."""
    port, ui = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    program = spark_program("spark-class")
    address = ["--host", "127.0.0.1"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(spark_environment(directory))
        master = stack.enter_context(
            running(
                [program, MASTER, *address, "--port", str(port), "--webui-port", str(ui)],
                _sub(directory, "master"),
            )
        )
        wait_for_port(master, port)
        workers = []
        for number in range(2):
            command = [
                program,
                WORKER,
                *address,
                "--webui-port",
                str(free_port()),
                "--cores",
                "1",
                "--memory",
                "1g",
                url,
            ]
            workers.append(
                stack.enter_context(running(command, _sub(directory, f"worker-{number}")))
            )
        yield Cluster(url, workers)


@contextlib.contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    port = free_port()
    command = [
        spark_program("spark-submit"), "--master", "local[2]", "--class", CONNECT,
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", "spark.ui.enabled=false",
        "spark-internal",
    ]  # fmt: skip
    with spark_environment(directory), running(command, _sub(directory, "connect")) as server:
        wait_for_port(server, port, timeout=300)
        yield f"sc://127.0.0.1:{port}"


def wait_until(condition: Callable[[], bool], *, timeout: float = 600) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.2)


def _sub(directory: Path, name: str) -> Path:
    path = directory / name
    path.mkdir()
    return path
