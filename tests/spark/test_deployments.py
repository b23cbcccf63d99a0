"""The same tables on a standalone cluster, through Spark Connect, and by spark-submit.

Each runs in a process of its own: a Python process has one Java behind it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from icectl.storage.local import LocalStorage
from icectl.tables.scan import TableScan, read_table
from tests.servers.processes import processes_below
from tests.spark import MARKS, ONE_PROCESS
from tests.spark.clusters import (
    connect_server,
    spark_environment,
    spark_program,
    standalone_cluster,
    wait_until,
)

pytestmark = [*MARKS, ONE_PROCESS, pytest.mark.slow]
PROJECT = Path(__file__).parents[2]
REFERENCES = 2_000_000

COUNT = """
import json, sys
import icectl.spark
from pyspark.sql import SparkSession, functions as f

spark = SparkSession.builder.getOrCreate()
icectl.spark.register(spark)
frame = spark.read.format("icechunk").option("table", "chunk_refs").load(sys.argv[1])
row = frame.agg(f.count("*"), f.sum("length"), f.max(f.col("coordinates")[0])).collect()[0]
print(json.dumps([spark.version, *row]))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.official import built, native_refs_in_manifests

    return built(tmp_path_factory, native_refs_in_manifests, REFERENCES, 20_000)


def expected(path: Path) -> list[int]:
    count = total = 0
    for batch in read_table(TableScan(LocalStorage(path), "chunk_refs", columns=("length",))):
        count += batch.num_rows
        total += sum(batch["length"].to_pylist())
    return [count, total, REFERENCES - 1]


def last_line(output: str) -> Any:
    return json.loads(output.strip().splitlines()[-1])


def test_a_worker_is_killed_during_a_scan(large: Path, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as cluster, ExitStack() as stack:
        victim = cluster.workers[0]
        conf = {
            "spark.sql.shuffle.partitions": "4",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
        }
        words = " ".join(f"--conf {key}={value}" for key, value in conf.items())
        scan = subprocess.Popen(
            [sys.executable, "-c", COUNT, str(large)],
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"--master {cluster.url} {words} pyspark-shell"},
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        stack.callback(scan.kill)
        # An executor with a Python worker below it is in the middle of a task.
        wait_until(lambda: scan.poll() is not None or len(processes_below(victim.pid)) >= 3)
        assert scan.poll() is None, scan.communicate()
        for pid in (victim.pid, *processes_below(victim.pid)):
            os.kill(pid, signal.SIGKILL)
        out, errors = scan.communicate(timeout=600)
    assert scan.returncode == 0, errors[-3000:]
    assert last_line(out)[1:] == expected(large)
    assert "Lost executor" in errors, "the worker was not missed: it was killed too late"


def test_spark_submit(large: Path, tmp_path: Path) -> None:
    script = tmp_path / "count.py"
    script.write_text(COUNT)
    submit = [
        spark_program("spark-submit"),
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.enabled=false",
    ]
    with spark_environment(tmp_path):
        done = subprocess.run(
            [*submit, str(script), str(large)],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert last_line(done.stdout)[1:] == expected(large)
        # And the command itself: what spark-submit says about the master stands.
        icectl = tmp_path / "run_icectl.py"
        icectl.write_text("from icectl.cli.main import main\nmain()\n")
        query = "select count(*) as n, sum(length) as bytes from chunk_refs"
        done = subprocess.run(
            [*submit, str(icectl), "sql", query, "-r", str(large), "--json"],
            cwd=PROJECT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    count, total, _ = expected(large)
    assert last_line(done.stdout)["rows"] == [{"n": count, "bytes": total}]


@pytest.fixture(scope="module")
def plain_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter whose `pyspark` is the plain Connect client, without Java in it.

    Everything else, icectl included, is that of the running environment.
    """
    directory = tmp_path_factory.mktemp("client") / "venv"
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", "--no-deps", "setuptools", "wheel"]
    subprocess.run(install, capture_output=True, check=False)
    install = [str(python), "-m", "pip", "install", "-q", "--no-deps", "pyspark-client>=4.1"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pyspark-client cannot be installed here: {done.stderr.strip()[-200:]}")
    site = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    Path(site, "zz-environment.pth").write_text(f"{sysconfig.get_path('purelib')}\n{PROJECT}\n")
    return python


def test_spark_connect_with_the_plain_client(
    large: Path, tmp_path: Path, plain_client: Path
) -> None:
    with connect_server(tmp_path) as url:
        environment = {**os.environ, "SPARK_REMOTE": url}
        environment.pop("PYSPARK_PYTHON", None)
        # A script, since the client takes `python -c` for its own tests.
        script = tmp_path / "count.py"
        script.write_text(
            f"import importlib.util as u; assert not u.find_spec('pyspark.core')\n{COUNT}"
        )
        done = subprocess.run(
            [str(plain_client), str(script), str(large)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        assert last_line(done.stdout)[1:] == expected(large)

        query = "select path, count(*) as n from chunk_refs where path = '/a' group by path"
        del environment["SPARK_REMOTE"]
        for python in (plain_client, Path(sys.executable)):
            done = subprocess.run(
                [str(python), "-m", "icectl.cli.main", "sql", query, "-r", str(large), "--spark-remote", url, "--json"],
                env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
            assert last_line(done.stdout)["rows"] == [{"path": "/a", "n": REFERENCES}]
