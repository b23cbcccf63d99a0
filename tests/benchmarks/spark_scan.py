"""One scan of every column of `chunk_refs` on Spark: `python -m …spark_scan REPOSITORY CORES`.

Prints seconds of the scan, without the session's start and with its workers warm, and the peak
memory of the driver: this process and the Java process, which in local mode does the
executors' Java work, too. The Python workers are told apart, since a cluster has them in its
executors.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from icectl.spark.session import SparkOptions, spark_session


def peak_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def processes_below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *processes_below(child)]
    return found


def is_java(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == "java"


def scan(spark: Any, repository: str, table: str) -> None:
    frame = spark.read.format("icechunk").option("table", table).load(repository)
    frame.write.format("noop").mode("overwrite").save()


def main() -> None:
    repository, cores = sys.argv[1:]
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with spark_session(SparkOptions(f"local[{cores}]"), os.environ) as spark:
        # Another table first, so that Java and a Python worker are up.
        scan(spark, repository, "objects")
        begin = time.perf_counter()
        scan(spark, repository, "chunk_refs")
        seconds = time.perf_counter() - begin
        below = processes_below(os.getpid())
        java = sum(peak_megabytes(pid) for pid in below if is_java(pid))
        workers = max((peak_megabytes(pid) for pid in below if not is_java(pid)), default=0.0)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "megabytes": peak_megabytes(os.getpid()) + java,
                "largest_worker_megabytes": workers,
            }
        )
    )


if __name__ == "__main__":
    main()
