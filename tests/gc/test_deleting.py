"""Deletes that fail, that are throttled, and that are interrupted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.errors import StorageError, ThrottledError
from icectl.pipeline import deletion as delete
from icectl.pipeline.deletion import DeletedBatch, delete_in_batches
from icectl.pipeline.progress import Progress
from icectl.storage.local import LocalStorage
from icectl.storage.memory import MemoryStorage
from icectl.storage.open import open_storage
from tests.faults.storage import FaultyStorage, Hook, Request
from tests.gc.repositories import (
    age_all,
    files,
    live,
    messy_repository,
    upload,
)
from tests.official import built, copied, open_official, zarr
from tests.patience import interrupt
from tests.servers.proxy import Faults, fault_proxy
from tests.servers.s3 import S3Server

KINDS = {
    "snapshots": "snapshots",
    "transactions": "transaction_logs",
    "manifests": "manifests",
    "chunks": "chunks",
    "overwritten": "backups",
}
"""By directory, in the order of deletion."""


@pytest.fixture(params=[1, 2])
def repository(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    mine = copied(built(tmp_path_factory, messy_repository, request.param), tmp_path / "repo")
    age_all(mine, 30 * 86400)
    return mine


@pytest.fixture
def gc(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(repository: object, *words: str) -> tuple[int, dict[str, Any]]:
        times = ("--older-than", "7d", "--overwritten-older-than", "7d", "--truncate-ops-log")
        code = run(["gc", "-r", str(repository), *times, "--yes", "--json", *words], {})
        out, err = capsys.readouterr()
        return code, json.loads(out or err)

    return call


def refuse(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects of this directory cannot be deleted."""
    real = LocalStorage.delete_many

    def delete_many(storage: LocalStorage, paths: Any) -> Any:
        for path in paths:
            if path.startswith(f"{directory}/"):
                yield path, StorageError(f"{path}: permission denied")
            else:
                yield from real(storage, [path])

    monkeypatch.setattr(LocalStorage, "delete_many", delete_many)


@pytest.mark.parametrize("directory", KINDS)
def test_a_phase_with_failures_is_the_last(
    gc: Any, repository: Path, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = files(repository, (*KINDS,))
    code, planned = gc(repository, "--dry-run")
    assert code == 0
    if not planned[f"{KINDS[directory]}_deleted"]:
        pytest.skip("spec version 1 has few backups")
    before = live(repository)
    with monkeypatch.context() as patched:
        refuse(directory, patched)
        code, done = gc(repository)
    assert code == 3 and not done["is_complete"]
    place = [*KINDS].index(directory)
    for number, (name, kind) in enumerate(KINDS.items()):
        expected = planned[f"{kind}_deleted"] if number < place else 0
        assert done[f"{kind}_deleted"] == expected, kind
        gone = {path for path in there - files(repository, (*KINDS,)) if path.startswith(name)}
        assert len(gone) == expected, kind
    assert done["skipped_phases"] == [
        kind for kind in [*KINDS.values()][place + 1 :] if planned[f"{kind}_deleted"]
    ]
    failed = {failure["object"] for failure in done["failures"]}
    assert len(failed) == planned[f"{KINDS[directory]}_deleted"]
    assert live(repository) == before
    code, done = gc(repository)
    assert code == 0 and done["is_complete"] and done["skipped_phases"] == []
    for kind in [*KINDS.values()][place:]:
        assert done[f"{kind}_deleted"] == planned[f"{kind}_deleted"], kind
    assert live(repository) == before


def test_a_snapshot_that_stays_is_usable(
    gc: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any
) -> None:
    """In spec version 1 whoever knows its id can set a branch to it."""
    mine = copied(built(tmp_path_factory, messy_repository, 1), tmp_path / "repo")
    age_all(mine, 30 * 86400)
    plan = tmp_path / "plan.jsonl"
    gc(mine, "--dry-run", "--plan", str(plan))
    rows = [json.loads(line) for line in plan.read_text().splitlines()[1:]]
    refuse("snapshots", monkeypatch)
    assert gc(mine)[0] == 3
    read = 0
    for row in rows:
        if row["kind"] == "snapshot":
            repo = open_official(mine)
            store = repo.readonly_session(snapshot_id=row["id"]).store
            try:
                root = zarr.open_group(store, mode="r")
            except zarr.errors.GroupNotFoundError:
                continue  # the orphan, a copy of the first snapshot, which has no nodes
            for _, array in root.arrays():
                array[:]
                read += 1
    assert read > 9


def delete_some(
    count: int, before: Hook | None, progress: Progress | None = None
) -> tuple[FaultyStorage, list[DeletedBatch]]:
    storage = FaultyStorage(MemoryStorage("deleting"), before=before)
    items = ((f"chunks/{number:05}", 10) for number in range(count))
    return storage, [*delete_in_batches(storage, items, progress or Progress())]


def test_many_failures_in_a_row_end_it() -> None:
    def fail(request: Request) -> None:
        if request.path >= "chunks/00100":
            raise StorageError("no")

    storage, (only,) = delete_some(8000, fail)
    assert (only.count, only.bytes, only.is_complete) == (100, 1000, False)
    assert len(only.failures) == 50
    assert len(storage.requests) == 100 + 50 + 50  # each is tried once more


def test_single_failures_do_not_end_it() -> None:
    def fail(request: Request) -> None:
        if int(request.path[-5:]) % 50:
            return
        raise StorageError("no")

    _, batches = delete_some(20_000, fail)
    assert sum(len(batch.failures) for batch in batches) == 20_000 // 50
    assert all(batch.is_complete for batch in batches)
    assert sum(batch.count for batch in batches) == 20_000 - 20_000 // 50


def throttle_until(number: int) -> Hook:
    def hook(request: Request) -> None:
        if request.number <= number:
            raise ThrottledError("slow down")

    return hook


def test_throttling_is_not_a_failure() -> None:
    _, batches = delete_some(10, throttle_until(400))
    assert batches == [DeletedBatch(10, 100)]


def test_throttling_without_end() -> None:
    storage, (only,) = delete_some(10, throttle_until(10**9))
    assert only.count == 0 and len(only.failures) == 10
    assert len(storage.requests) == 10 * delete.ROUNDS_WITHOUT_PROGRESS


def test_throttling_until_the_time_is_over() -> None:
    _, (only,) = delete_some(10, throttle_until(10**9), Progress(deadline=time.monotonic()))
    assert only == DeletedBatch(is_complete=False)


@pytest.mark.server
def test_a_server_that_throttles(
    seaweedfs_server: S3Server,
    gc: Any,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("icectl.storage.retry.LONGEST_DELAY", 0.2)
    source = built(tmp_path_factory, messy_repository, 2)
    location = f"s3://{seaweedfs_server.bucket}/gc-throttled"
    storage = open_storage(location)
    upload(source, storage)
    time.sleep(2.1)  # times have whole seconds here
    faults = Faults(frozenset({"POST"}), refuse_one_in=1)
    recent = ("--older-than", "1s", "--overwritten-older-than", "1s", "--allow-recent")
    there = {info.path for info in storage.list("")}
    with fault_proxy(seaweedfs_server.url, faults) as url:
        words = (*recent, "--storage-option", f"endpoint_url={url}")
        began = time.monotonic()
        code, planned = gc(location, *words, "--dry-run")
        assert code == 0 and planned["snapshots_deleted"] > 3
        # The plan must be made in time, however slow the machine is.
        seconds = 6 + 3 * round(time.monotonic() - began)
        code, done = gc(location, *words, "--max-runtime", f"{seconds}s")
        assert code == 3 and not done["is_complete"] and done["failures"] == []
        assert done["skipped_phases"][-1:] == ["backups"] and faults.refused > 0
        assert there <= {info.path for info in storage.list("")}
        faults.refuse_one_in = 2
        code, done = gc(location, *words)
        assert code == 0 and done["is_complete"] and done["failures"] == []
        assert done["chunks_deleted"] == planned["chunks_deleted"]


SLOW_CHUNKS = """
import os, sys, time
unlink = os.unlink
def in_chunks(directory, path):
    place = "" if directory is None else os.readlink(f"/proc/self/fd/{directory}")
    return "/chunks/" in f"{place}/{path}"
def slow(path, *rest, **options):
    if in_chunks(options.get("dir_fd"), path):
        sys.stdout.write("deleting\\n")
        sys.stdout.flush()
        time.sleep(0.05)
    unlink(path, *rest, **options)
os.unlink = slow
from icectl.cli.main import main
main()
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_ctrl_c_reports_what_is_gone(gc: Any, repository: Path, form: str) -> None:
    there, before = files(repository), live(repository)
    _, planned = gc(repository, "--dry-run")
    words = ["gc", "-r", str(repository), "--older-than", "7d", "--yes"]
    running = subprocess.Popen(
        [sys.executable, "-c", SLOW_CHUNKS, *words, *(["--json"] if form == "json" else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"deleting\n"
    _, err = interrupt(running)
    assert running.returncode == 130
    gone = there - files(repository)
    least = sum(planned[f"{KINDS[name]}_deleted"] for name in [*KINDS][:3])
    if form == "json":
        error = json.loads(err)["error"]
        assert (error["kind"], error["exit_code"]) == ("interrupted", 130)
        assert least <= error["objects_deleted"] <= len(gone)
        assert "run the same command again" in error["hint"]
    else:
        assert b"Traceback" not in err and b"objects were deleted" in err and b"hint: " in err
    assert live(repository) == before
    code, done = gc(repository)
    assert code == 0 and done["is_complete"]
    assert live(repository) == before
