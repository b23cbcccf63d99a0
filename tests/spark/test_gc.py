"""The Spark engine of gc: the same plans as the local one, and the same safety."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.errors import FormatError
from icectl.ops.gc.report import summarize
from icectl.ops.gc.run import GcOptions, PlannedRun, collect_garbage, plan_run
from icectl.pipeline.engine import Engine
from icectl.pipeline.id_columns import id_set
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.storage.local import LocalStorage
from tests.engines.comparisons import check_equal_plans, planned
from tests.gc.repositories import (
    abandon_session,
    age_all,
    files,
    live,
    messy_repository,
    now,
    random_repository,
    set_times,
)
from tests.official import built, copied, linear_history, open_official, zarr
from tests.official.histories import commit, create
from tests.patience import PATIENCE_SECONDS, assert_within
from tests.spark import MARKS

pytestmark = MARKS
ALL_KINDS = frozenset(ObjectKind)


@pytest.fixture
def on_spark(spark_engine: Engine) -> dict[str, Any]:
    return {"choose_engine": lambda num_chunk_refs: spark_engine}


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, messy_repository, 2)


def check_whole_run(source: Path, on_spark: dict[str, Any]) -> None:
    storage, cutoff, before = LocalStorage(source), now(), live(source)
    there = files(source)
    local = check_equal_plans(storage, cutoff, on_spark["choose_engine"](0))
    _, deleted = collect_garbage(storage, GcOptions(cutoff, **on_spark), lambda run: None)
    assert not deleted.failures and deleted.is_complete
    assert there - files(source) == planned(local.plan).keys()
    assert deleted.count == {kind: len(found) for kind, found in local.plan.garbage.items()}
    assert deleted.bytes == local.plan.num_bytes
    assert live(source) == before
    assert plan_run(storage, GcOptions(now(), **on_spark)).plan.num_objects == 0


@pytest.mark.parametrize("spec_version", [1, 2])
def test_messy_repository(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    on_spark: dict[str, Any],
    spec_version: int,
) -> None:
    source = copied(built(tmp_path_factory, messy_repository, spec_version), tmp_path / "repo")
    (source / "chunks" / "README.txt").write_text("mine")
    check_whole_run(source, on_spark)
    assert (source / "chunks" / "README.txt").exists()


@pytest.mark.parametrize(("rest", "goes"), [(999_999, False), (1_000_000, True)])
def test_times_of_whole_seconds(
    messy: Path, tmp_path: Path, on_spark: dict[str, Any], rest: int, goes: bool
) -> None:
    mine, whole = copied(messy, tmp_path / "repo"), 1_700_000_000_000_000
    set_times(mine, whole)
    local = check_equal_plans(LocalStorage(mine), whole + rest, on_spark["choose_engine"](0))
    assert (local.plan.num_objects > 0) is goes


def test_no_chunks(messy: Path, tmp_path: Path, on_spark: dict[str, Any]) -> None:
    """None that a manifest needs, none that is there, and neither."""
    create(tmp_path / "empty", 2)
    check_whole_run(tmp_path / "empty", on_spark)
    abandon_session(open_official(tmp_path / "empty"))
    check_whole_run(tmp_path / "empty", on_spark)
    mine = copied(messy, tmp_path / "repo")
    chunks = files(mine, ("chunks",))
    for path in chunks:
        (mine / path).unlink()
    known = {"known_missing": frozenset(chunks)}
    local = plan_run(LocalStorage(mine), GcOptions(now(), **known))
    spark = plan_run(LocalStorage(mine), GcOptions(now(), **known, **on_spark))
    assert planned(spark.plan) == planned(local.plan)


def test_lost_history(tmp_path: Path, on_spark: dict[str, Any]) -> None:
    """An older `repo` was put back, and somebody committed since."""
    where = tmp_path / "repo"
    repo = linear_history(where, 4)
    old = (where / "repo").read_bytes()
    for number in range(3):
        with commit(repo, f"lost {number}") as root:
            root["native"][:] = number
    (where / "repo").write_bytes(old)
    with commit(open_official(where), "later") as root:
        root["native"][:] = 9
    there = files(where)
    with pytest.raises(FormatError) as caught:
        collect_garbage(LocalStorage(where), GcOptions(now(), **on_spark), lambda run: None)
    assert files(where) == there
    name = str(caught.value).partition("overwritten/")[2].partition(",")[0]
    options = GcOptions(now(), abandon_history=(name,), **on_spark)
    _, deleted = collect_garbage(LocalStorage(where), options, lambda run: None)
    assert deleted.count[ObjectKind.SNAPSHOT] == 3 and deleted.backups == 2
    check_whole_run(where, on_spark)


@pytest.mark.parametrize("seed", range(2))
def test_random_repository(tmp_path: Path, on_spark: dict[str, Any], seed: int) -> None:
    random_repository(tmp_path / "repo", 3000 + seed, 40, 2 - seed)
    check_whole_run(tmp_path / "repo", on_spark)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("spec_version", [1, 2])
def test_long_random_repository(
    tmp_path: Path, on_spark: dict[str, Any], seed: int, spec_version: int
) -> None:
    random_repository(tmp_path / "repo", 4000 + seed, 120, spec_version)
    check_whole_run(tmp_path / "repo", on_spark)


def live_chunk(repository: Path) -> Path:
    """The first chunk that a plan keeps."""
    gone = planned(plan_run(LocalStorage(repository), GcOptions(now())).plan)
    return repository / min(path for path in files(repository, ("chunks",)) if path not in gone)


def test_damage_stops_the_run(messy: Path, tmp_path: Path, on_spark: dict[str, Any]) -> None:
    mine = copied(messy, tmp_path / "repo")
    storage = LocalStorage(mine)
    missing = live_chunk(mine)
    missing.rename(tmp_path / "away")
    options = GcOptions(now(), **on_spark)
    there = files(mine)
    path = f"chunks/{missing.name}"
    with pytest.raises(FormatError) as caught:
        collect_garbage(storage, options, lambda run: None)
    assert caught.value.code == "ICE0401" and caught.value.path == path
    known = GcOptions(now(), known_missing=frozenset([path]), **on_spark)
    local = GcOptions(now(), known_missing=frozenset([path]))
    assert planned(plan_run(storage, known).plan) == planned(plan_run(storage, local).plan)
    (tmp_path / "away").rename(missing)
    manifests = list((mine / "manifests").iterdir())
    for manifest in manifests:
        manifest.write_bytes(manifest.read_bytes()[:-1])
    with pytest.raises(FormatError) as caught:
        collect_garbage(storage, options, lambda run: None)
    assert caught.value.code == "ICE0302"
    assert caught.value.path in {f"manifests/{manifest.name}" for manifest in manifests}
    assert files(mine) - {path} == there


class Undeletable(LocalStorage):
    """Refuses to delete some chunks, in every executor."""

    def delete_many(self, paths: Any) -> Any:
        from icectl.errors import StorageError

        for path in paths:
            if path.endswith(("0", "G")) and path.startswith("chunks/"):
                yield path, StorageError(f"{path} is protected")
            else:
                yield from super().delete_many([path])


def test_deletes_that_fail_are_counted(
    messy: Path, tmp_path: Path, on_spark: dict[str, Any], spark: Any
) -> None:
    mine = copied(messy, tmp_path / "repo")
    there = files(mine)
    run, deleted = collect_garbage(
        Undeletable(mine), GcOptions(now(), **on_spark), lambda run: None
    )
    garbage = {path for path in planned_before(messy) if path.startswith("chunks/")}
    failed = {failure.object for failure in deleted.failures}
    assert failed == {path for path in garbage if path.endswith(("0", "G"))} != set()
    assert all("is protected" in failure.error for failure in deleted.failures)
    assert deleted.count[ObjectKind.CHUNK] == len(garbage - failed)
    assert files(mine) == there - planned_before(messy) | failed
    assert not summarize(run, ALL_KINDS, now(), deleted).is_complete


class KeptSnapshots(LocalStorage):
    """Refuses to delete snapshots."""

    def delete_many(self, paths: Any) -> Any:
        from icectl.errors import StorageError

        for path in paths:
            if path.startswith("snapshots/"):
                yield path, StorageError(f"{path} is protected")
            else:
                yield from super().delete_many([path])


def test_a_snapshot_that_stays_keeps_its_chunks(
    messy: Path, tmp_path: Path, on_spark: dict[str, Any]
) -> None:
    mine = copied(messy, tmp_path / "repo")
    there = files(mine)
    options = GcOptions(now(), **on_spark)
    _, deleted = collect_garbage(KeptSnapshots(mine), options, lambda run: None)
    assert files(mine) == there and deleted.failures
    assert deleted.skipped_phases == ["transaction_logs", "manifests", "chunks"]
    _, deleted = collect_garbage(LocalStorage(mine), options, lambda run: None)
    assert there - files(mine) == planned_before(messy) and deleted.is_complete


def planned_before(repository: Path) -> set[str]:
    return set(planned(plan_run(LocalStorage(repository), GcOptions(now())).plan))


def test_command(
    messy: Path, tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards, a saved plan of each form, and what it deletes; the session is the running one."""
    mine = copied(messy, tmp_path / "repo")
    age_all(mine, 30 * 86400)
    before, there = live(mine), files(mine)

    def gc(*words: str) -> tuple[int, str, str]:
        code = run(["gc", "-r", str(mine), "--engine", "spark", *words], os.environ)
        return (code, *capsys.readouterr())

    code, _, err = gc("--older-than", "7d", "--yes", "--max-delete", "1")
    assert code == 16, err
    code, _, err = gc("--older-than", "7d", "--yes", "--max-runtime", "0s")
    assert code == 3 and files(mine) == there
    rows: list[list[dict[str, Any]]] = []
    for ending in ("jsonl", "parquet"):
        plan = tmp_path / f"plan.{ending}"
        code, out, err = gc("--older-than", "7d", "--dry-run", "--json", "--plan", str(plan))
        assert code == 0, err
        document = json.loads(out)
        assert document["engine"] == "spark"
        rows.append(plan_rows(plan))
    assert rows[0] == rows[1]
    assert len(rows[0]) == sum(found["count"] for found in document["garbage"])
    (mine / "chunks" / ("0" * 20)).write_bytes(b"new garbage")
    age_all(mine, 30 * 86400)
    code, out, err = gc("--apply", str(tmp_path / "plan.jsonl"), "--yes", "--json")
    assert code == 0, err
    assert json.loads(out)["chunks_deleted"] == document["chunks_deleted"]
    assert (mine / "chunks" / ("0" * 20)).exists()
    assert live(mine) == before
    missing = live_chunk(mine)
    missing.unlink()
    there = files(mine)
    code, _, err = gc("--older-than", "7d", "--yes", "--json")
    error = json.loads(err)["error"]
    assert (code, error["kind"]) == (13, "damaged") and missing.name in error["message"]
    assert files(mine) == there


def test_plans_are_saved_in_the_same_order(
    messy: Path, tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = {}
    words = ["gc", "-r", str(messy), "--older-than", "0s", "--allow-recent", "--dry-run"]
    for engine in ("local", "spark"):
        plan = tmp_path / f"{engine}.jsonl"
        code = run([*words, "--engine", engine, "--json", "--plan", str(plan)], os.environ)
        out, err = capsys.readouterr()
        assert code == 0, err
        rows = plan.read_text().splitlines()[1:]
        document = json.loads(out) | {"engine": "", "cutoff_at": ""}
        lines[engine] = rows, document
    assert lines["spark"] == lines["local"]
    assert len(lines["local"][0]) > 20


def test_what_fails_in_spark_is_told(
    messy: Path, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, and never as a bug of ours."""
    words = ["gc", "-r", str(messy), "--older-than", "0s", "--allow-recent", "--dry-run"]
    python = spark.sparkContext.pythonExec
    try:
        spark.sparkContext.pythonExec = "/nonexistent/python"
        assert run([*words, "--engine", "spark", "--json"], os.environ) == 1
    finally:
        spark.sparkContext.pythonExec = python
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["kind"] != "bug" and error["hint"]
    assert "/nonexistent/python" in error["message"] and "\n" not in error["message"]


class Slow(LocalStorage):
    """Takes long to delete chunks, in every executor."""

    def delete_many(self, paths: Any) -> Any:
        paths = list(paths)
        if any(path.startswith("chunks/") for path in paths):
            time.sleep(3)
        return super().delete_many(paths)


def test_the_time_is_up_and_no_executor_answers(
    messy: Path, tmp_path: Path, on_spark: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver ends the job of deletes itself; what they did by then, nobody tells."""
    mine = copied(messy, tmp_path / "repo")
    before = live(mine)
    monkeypatch.setattr("icectl.spark.garbage.GRACE_SECONDS", -3600)
    progress = Progress(deadline=time.monotonic() + 3600)
    options = GcOptions(now(), **on_spark)
    _, deleted = collect_garbage(Slow(mine), options, lambda run: None, progress)
    assert not deleted.is_complete and deleted.count[ObjectKind.CHUNK] == 0
    assert live(mine) == before
    monkeypatch.undo()
    _, deleted = collect_garbage(LocalStorage(mine), options, lambda run: None)
    assert deleted.is_complete
    assert live(mine) == before


def sleep_long(batches: Any) -> Any:
    for batch in batches:
        time.sleep(2 * PATIENCE_SECONDS)
        yield batch


def raise_and_sleep(batches: Any) -> Any:
    if not isinstance(batches, list):
        raise ValueError
    # The search for the failure, which has one row at a time.
    time.sleep(2 * PATIENCE_SECONDS)
    yield from batches


@pytest.mark.parametrize(
    "question",
    [
        lambda garbage: garbage.within(id_set([bytes(12)])),
        lambda garbage: garbage.without(id_set([bytes(12)])),
        lambda garbage: [*garbage.parts()],
        lambda garbage: garbage.first(3),
        lambda garbage: garbage.largest(3),
        lambda garbage: garbage.count_ages(now(), [1, 2]),
    ],
    ids=["within", "without", "parts", "first", "largest", "count_ages"],
)
def test_every_question_about_garbage_ends_in_time(spark: Any, question: Any) -> None:
    from icectl.spark.garbage import SparkGarbage
    from icectl.spark.jobs import map_in_arrow

    schema = "high bigint, low bigint, size bigint, created_at bigint"
    rows = spark.createDataFrame([(1, 2, 3, 4)], schema)
    slow = map_in_arrow(rows, sleep_long, schema)
    progress = Progress(deadline=time.monotonic() + 1)
    garbage = SparkGarbage(spark, ObjectKind.CHUNK, slow, 1, 3, progress)
    started = time.monotonic()
    with pytest.raises(OutOfTimeError):
        question(garbage)
    assert_within(60, started)


def test_the_search_for_a_failure_ends_in_time(spark: Any) -> None:
    """Each row is worked on again to learn which of them failed."""
    from icectl.spark.jobs import Source, run_job

    source = Source(spark, [1, 2], raise_and_sleep, "value binary")
    started = time.monotonic()
    with pytest.raises(OutOfTimeError):
        progress = Progress(deadline=started + 8)
        run_job(spark, progress, "", lambda: source.frame.collect(), (source,))
    assert_within(60, started)


@pytest.mark.parametrize(
    "words", [["--spark-remote", "sc://127.0.0.1:1"], ["--spark-master", "spark://127.0.0.1:1"]]
)
def test_nobody_listens_there(messy: Path, words: list[str]) -> None:
    """Told at once, while Spark would try for minutes. In a process that has no session."""
    command = [
        sys.executable,
        "-m",
        "icectl.cli.main",
        "gc",
        "-r",
        str(messy),
        "--older-than",
        "7d",
    ]
    started = time.monotonic()
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert_within(60, started)
    assert done.returncode == 1
    assert f"no connection to {words[1]}" in done.stderr and done.stderr.count("\n") == 2


def plan_rows(plan: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet

    if plan.suffix == ".jsonl":
        rows = [json.loads(line) for line in plan.read_text().splitlines()[1:]]
    else:
        rows = pyarrow.parquet.read_table(plan).to_pylist()
        for row in rows:
            row["created_at"] = f"{row['created_at']:%Y-%m-%dT%H:%M:%S.%fZ}"
    return sorted(rows, key=lambda row: (row["kind"], row["id"]))


def test_choice_of_the_engine(
    messy: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gc", "-r", str(messy), "--older-than", "0s", "--allow-recent", "--dry-run", "--json"]

    def chosen(*more: str) -> str:
        assert run([*words, *more], os.environ) == 0, capsys.readouterr().err
        engine: str = json.loads(capsys.readouterr().out)["engine"]
        return engine

    assert chosen() == "local"
    with monkeypatch.context() as few_are_enough:
        few_are_enough.setattr("icectl.cli.engines.ROWS_FOR_SPARK", 1)
        assert chosen() == "spark"
        assert chosen("--engine", "local") == "local"
        few_are_enough.setenv("PATH", "/nonexistent")
        few_are_enough.delenv("JAVA_HOME", raising=False)
        assert chosen() == "local"
        assert run([*words, "--engine", "spark"], os.environ) == 15
        err = capsys.readouterr().err
        assert "Java is not installed" in err and "Java 17 or newer" in err


def test_a_commit_between_plan_and_deletes(
    messy: Path, tmp_path: Path, on_spark: dict[str, Any]
) -> None:
    """Its chunks were written before the plan, which takes them for garbage."""
    mine = copied(messy, tmp_path / "repo")
    repo = open_official(mine)
    session = repo.writable_session("main")
    before = files(mine)
    zarr.open_array(session.store, path="a")[:] = 99
    written = {path for path in files(mine) - before if path.startswith("chunks/")}
    assert written

    def commit(run: PlannedRun) -> None:
        assert written <= planned(run.plan).keys()
        session.commit("while gc runs")

    _, deleted = collect_garbage(LocalStorage(mine), GcOptions(now(), **on_spark), commit)
    assert deleted.count[ObjectKind.CHUNK] > 0
    assert written <= files(mine)
    live(mine)
    assert (zarr.open_array(repo.readonly_session("main").store, path="a")[:] == 99).all()
