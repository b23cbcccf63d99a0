"""gc on a standalone cluster that loses workers, and by spark-submit.

Each runs in a process of its own: a Python process has one Java behind it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from icectl.format.manifest import decode_native_refs
from icectl.model.ids import ChunkId
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.storage.local import LocalStorage
from tests.gc.repositories import files, live, messy_repository, now
from tests.official import built, copied, native_refs_in_manifests
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
REFERENCES, GARBAGE = 4000, 3000

SLOW_GC = """
import os, sys, time
from icectl.ops.gc.run import GcOptions, collect_garbage
from icectl.spark import engine, garbage
from icectl.spark.session import SparkOptions, spark_session
from icectl.storage.local import LocalStorage

class Slow(LocalStorage):
    def read(self, path):
        time.sleep(0.5 if path.startswith("manifests/") else 0)
        return super().read(path)

    def delete_many(self, paths):
        time.sleep(0.5)
        return super().delete_many(paths)

# Many small tasks, so that some are done and some are not when an executor dies.
engine.UNIT_ITEMS = 1
garbage.DELETES_PER_TASK = 100
conf = {
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.memory": "512m",
    "spark.log.level": "WARN",
}
with spark_session(SparkOptions(sys.argv[1], conf=conf), os.environ) as spark:
    chosen = engine.SparkEngine(spark)
    options = GcOptions(int(sys.argv[3]), choose_engine=lambda num_chunk_refs: chosen)
    _, deleted = collect_garbage(Slow(sys.argv[2]), options, lambda run: print("planned", flush=True))
    assert deleted.is_complete and not deleted.failures, deleted
    print(sum(deleted.count.values()), flush=True)
"""


def large_repository(where: Path) -> set[str]:
    """Chunks that are empty files, more garbage among them; what is kept."""
    native_refs_in_manifests(where, REFERENCES, 200)
    kept: set[str] = set()
    for manifest in (where / "manifests").iterdir():
        refs = decode_native_refs(manifest.read_bytes(), with_sizes=False)
        kept |= {f"chunks/{ChunkId(row.tobytes())}" for row in refs.chunk_id}
    assert len(kept) == REFERENCES
    for path in [*kept, *(f"chunks/{ChunkId.generate()}" for _ in range(GARBAGE))]:
        (where / path).touch()
    return kept


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # one that ended with those above it
            os.kill(pid, signal.SIGKILL)


def test_executors_are_killed_during_marking_and_deleting(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    kept = large_repository(repository)
    cutoff = now()
    local = plan_run(LocalStorage(repository), GcOptions(cutoff)).plan
    assert local.num_objects > GARBAGE
    with standalone_cluster(tmp_path) as cluster, ExitStack() as stack:
        first, second = cluster.workers
        job = subprocess.Popen(
            [sys.executable, "-c", SLOW_GC, cluster.url, str(repository), str(cutoff)],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(job.kill)
        assert job.stdout is not None
        # An executor with a Python worker below it is in the middle of a task.
        wait_until(lambda: job.poll() is not None or len(processes_below(first.pid)) >= 3)
        assert job.poll() is None, job.communicate()
        kill([first.pid, *processes_below(first.pid)])
        assert job.stdout.readline() == "planned\n", job.communicate()
        wait_until(lambda: len(files(repository, ("chunks",))) < len(kept) + GARBAGE - 200)
        # The second worker starts another executor: all that the first one kept is lost.
        kill(processes_below(second.pid))
        out, errors = job.communicate(timeout=600)
    assert job.returncode == 0, errors[-3000:]
    assert errors.count("Lost executor") >= 2, "an executor was not missed: it was killed too late"
    assert int(out) == local.num_objects
    assert files(repository, ("chunks",)) == kept
    assert plan_run(LocalStorage(repository), GcOptions(now())).plan.num_objects == 0


def check_command(command: list[str], repository: Path) -> None:
    before = live(repository)
    words = ["gc", "-r", str(repository), "--older-than", "0s", "--allow-recent", "--json"]
    done = subprocess.run(
        [*command, *words, "--yes"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(done.stdout)
    assert document["engine"] == "spark" and document["chunks_deleted"] > 0
    assert live(repository) == before
    assert plan_run(LocalStorage(repository), GcOptions(now())).plan.num_objects == 0


def test_spark_submit(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    repository = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    script = tmp_path / "run_icectl.py"
    script.write_text("from icectl.cli.main import main\nmain()\n")
    with spark_environment(tmp_path):
        program = [spark_program("spark-submit"), "--master", "local[2]"]
        conf = ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
        check_command([*program, *conf, str(script)], repository)


def test_spark_connect(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    repository = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    with connect_server(tmp_path) as url:
        script = tmp_path / "run_icectl.py"
        script.write_text(
            "import sys\nfrom icectl.cli.main import main\n"
            f"sys.argv += ['--spark-remote', {url!r}]\nmain()\n"
        )
        check_command([sys.executable, str(script)], repository)
