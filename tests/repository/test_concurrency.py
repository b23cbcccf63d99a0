"""Many processes change one repository: no update is lost, each is in the ops log once."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from icectl.repository.initialize import initialize_repository
from icectl.repository.ops_log import OpsLogEntry, read_ops_log, read_repo
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from tests.servers.proxy import Faults, fault_proxy

PROJECT = Path(__file__).parents[2]
WRITERS = 16
UPDATES = 25


def run_writers(location, environment=None, writers=WRITERS, updates=UPDATES):
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.repository.writer", location, f"w{n}", str(updates)],
            cwd=PROJECT,
            env={**os.environ, **(environment or {})},
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(writers)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors


def check(storage, writers=WRITERS, updates=UPDATES):
    expected = sorted(f"w{n}-{i}" for n in range(writers) for i in range(updates))
    info = read_repo(storage)
    assert sorted(ref.name for ref in info.tags) == expected
    *log, first = read_ops_log(storage, info)
    assert isinstance(first, OpsLogEntry)
    assert first.update.update_type.kind == "repo_initialized"
    assert sorted(entry.update.update_type.name for entry in log) == expected
    for newer, older in pairwise([*log, first]):
        assert newer.update.updated_at > older.update.updated_at
    backups = {entry.update.backup_path for entry in [*log, first]} - {None}
    assert len(backups) == len(expected)
    there = {i.path.removeprefix("overwritten/") for i in storage.list("overwritten")}
    assert backups <= there
    return there - backups


def test_local_disk(tmp_path):
    storage = LocalStorage(str(tmp_path / "repo"))
    initialize_repository(storage)
    run_writers(str(tmp_path / "repo"))
    assert check(storage) == set()
    official = pytest.importorskip("tests.official")
    theirs = official.open_official(tmp_path / "repo")
    assert len(theirs.list_tags()) == WRITERS * UPDATES
    assert len(list(theirs.ops_log())) == WRITERS * UPDATES + 1


def test_an_overflowing_log(tmp_path):
    storage = LocalStorage(str(tmp_path / "repo"))
    initialize_repository(storage, config={"num_updates_per_repo_info_file": 5})
    run_writers(str(tmp_path / "repo"), writers=4, updates=10)
    assert check(storage, 4, 10) == set()


@pytest.fixture
def place(seaweedfs_server):
    return f"s3://{seaweedfs_server.bucket}/{secrets.token_hex(8)}"


@pytest.mark.server
@pytest.mark.slow
def test_seaweedfs(seaweedfs_server, place, monkeypatch):
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    storage = open_storage(place)
    initialize_repository(storage)
    run_writers(place)
    assert check(storage) == set()


@pytest.mark.server
@pytest.mark.slow
def test_lost_responses(seaweedfs_server, place, monkeypatch):
    """One answer in five to a write is cut off after the server did it."""
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    storage = open_storage(place)
    initialize_repository(storage)
    faults = Faults(lose_one_in=5)
    with fault_proxy(seaweedfs_server.url, faults) as url:
        run_writers(place, {"AWS_ENDPOINT_URL": url})
    assert faults.lost > WRITERS * UPDATES / 5
    check(storage)
