"""The plan of one gc: `spark_gc.main()` with the arguments REPOSITORY ENGINE CORES.

The repository's chunks do not exist; their listing is made up from the manifests, a third of
it garbage. Prints what `spark_scan` prints; the session's start is told apart.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from icectl.format.manifest import decode_native_refs
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.pipeline.engine import Engine
from icectl.pipeline.id_columns import id_columns
from icectl.pipeline.local_engine import LocalEngine
from icectl.spark.engine import SparkEngine
from icectl.spark.session import SparkOptions, spark_session
from icectl.storage.local import LocalStorage
from tests.benchmarks.spark_scan import peak_megabytes, processor_seconds, take_processors
from tests.servers.processes import processes_below


class MadeUpChunks(LocalStorage):
    def __init__(self, repository: str) -> None:
        super().__init__(repository)
        self.manifests = Path(repository, "manifests")

    def list_names(self, prefix: str) -> Iterator[Sequence[str]]:
        return self._chunks() if prefix == "chunks" else super().list_names(prefix)

    def _chunks(self) -> Iterator[Sequence[str]]:
        random = np.random.default_rng(1)  # the repository is made with 0
        for path in sorted(self.manifests.iterdir()):
            ids = decode_native_refs(path.read_bytes(), with_ends=False).chunk_id
            yield id_columns(ids).to_names()
            yield id_columns(random.integers(0, 256, (len(ids) // 2, 12), "u1")).to_names()

    def read_sizes_and_times(
        self, prefix: str, names: Iterable[str]
    ) -> Iterator[tuple[int, int] | None]:
        if prefix != "chunks":
            return super().read_sizes_and_times(prefix, names)
        return ((1, 0) for _ in names)


def plan(repository: str, engine: Engine) -> float:
    begin = time.perf_counter()
    options = GcOptions(time.time_ns() // 1000, choose_engine=lambda num_chunk_refs: engine)
    garbage = plan_run(MadeUpChunks(repository), options).plan.garbage
    seconds = time.perf_counter() - begin
    print({kind.plural: len(found) for kind, found in garbage.items()}, file=sys.stderr)
    return seconds


def main() -> None:
    repository, engine, cores = sys.argv[1:]
    take_processors(int(cores))
    started = time.perf_counter()
    if engine == "local":
        print(json.dumps({"seconds": plan(repository, LocalEngine())}))
        return
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with spark_session(SparkOptions(f"local[{cores}]"), os.environ) as spark:
        start = time.perf_counter() - started
        processes = [os.getpid(), *processes_below(os.getpid())]
        before = processor_seconds(processes)
        seconds = plan(repository, SparkEngine(spark))
        processes = [os.getpid(), *processes_below(os.getpid())]
        print(
            json.dumps(
                {
                    "seconds": seconds,
                    "start_seconds": start,
                    "processor_seconds": processor_seconds(processes) - before,
                    "megabytes": peak_megabytes(os.getpid()),
                }
            )
        )
