"""One scan of every column of `chunk_refs` on Spark: `python -m …spark_scan REPOSITORY CORES`.

Prints the wall seconds of the scan, with the session up; the processor seconds that it took in
all processes, which do not depend on what else runs; and the peak memory of the driver: this
process and the Java process, which in local mode does the executors' Java work, too. The
Python workers are told apart, since a cluster has them in its executors.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from icectl.spark.session import SparkOptions, spark_session
from tests.servers.processes import processes_below

TICKS = os.sysconf("SC_CLK_TCK")


def peak_megabytes(pid: int) -> float:
    with contextlib.suppress(FileNotFoundError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def processor_seconds(pids: Iterable[int]) -> float:
    """Of the processes, and of those below them that have ended."""
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / TICKS


def is_java(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    return False


def take_processors(count: int) -> None:
    """`local[1]` alone would let Java and the Python worker share the work on two."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def scan(spark: Any, repository: str, table: str) -> None:
    frame = spark.read.format("icechunk").option("table", table).load(repository)
    frame.write.format("noop").mode("overwrite").save()


def main() -> None:
    repository, cores = sys.argv[1:]
    take_processors(int(cores))
    me = os.getpid()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with spark_session(SparkOptions(f"local[{cores}]"), os.environ) as spark:
        # Another table first, so that Java and a Python worker are up.
        scan(spark, repository, "objects")
        processors = processor_seconds([me, *processes_below(me)])
        begin = time.perf_counter()
        scan(spark, repository, "chunk_refs")
        seconds = time.perf_counter() - begin
        below = processes_below(me)
        processors = processor_seconds([me, *below]) - processors
        java = sum(peak_megabytes(pid) for pid in below if is_java(pid))
        workers = max((peak_megabytes(pid) for pid in below if not is_java(pid)), default=0.0)
        megabytes = peak_megabytes(me) + java
    print(
        json.dumps(
            {
                "seconds": seconds,
                "processor_seconds": processors,
                "megabytes": megabytes,
                "largest_worker_megabytes": workers,
            }
        )
    )


if __name__ == "__main__":
    main()
