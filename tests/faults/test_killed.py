"""`kill -9` at every step of a change: the repository opens, with the old or the new state."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from icectl.errors import RepositoryNotFoundError
from icectl.repository import mutations
from icectl.repository.config import read_config
from icectl.repository.initialize import initialize_repository
from icectl.repository.open import open_repository
from icectl.repository.ops_log import OpsLogEntry, read_ops_log
from icectl.storage.local import LocalStorage

official = pytest.importorskip("tests.official")

PROJECT = Path(__file__).parents[2]
MOST_STEPS = 80
OPERATIONS = [
    *[(2, operation) for operation in ("create_tag", "reset_branch")],
    *[
        (1, operation)
        for operation in ("create_branch", "reset_branch", "delete_tag", "update_config")
    ],
]


def run(root, operation, step):
    result = subprocess.run(
        [sys.executable, "-m", "tests.faults.killed", str(root), operation, str(step)],
        cwd=PROJECT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert result.returncode in (0, -signal.SIGKILL), result.stderr
    return result.returncode == 0


def state_of(root):
    repository = open_repository(LocalStorage(str(root)))
    return (
        dict(repository.branches()),
        dict(repository.tags()),
        repository.deleted_tags(),
        read_config(repository).get("inline_chunk_threshold_bytes"),
    )


@pytest.fixture(scope="module", params=[1, 2])
def original(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "repo"
    repository = official.linear_history(path, 2, request.param)
    repository.create_tag("old", repository.lookup_branch("main"))
    repository.create_branch("old", repository.lookup_branch("main"))
    return request.param, path


@pytest.mark.parametrize("operation", sorted({operation for _, operation in OPERATIONS}))
def test_a_change(original, operation, tmp_path):
    spec_version, path = original
    if (spec_version, operation) not in OPERATIONS:
        pytest.skip("the same steps as another change")
    done = shutil.copytree(path, tmp_path / "done")
    assert run(done, operation, MOST_STEPS * 10)
    old, new = state_of(path), state_of(done)
    assert old != new
    seen = set()
    for step in range(1, MOST_STEPS):
        root = shutil.copytree(path, tmp_path / str(step))
        finished = run(root, operation, step)
        state = state_of(root)
        assert state in (old, new), step
        seen.add(state == new)
        theirs = official.open_official(root)
        for name, snapshot_id in state[0].items():
            assert theirs.lookup_branch(name) == str(snapshot_id)
        repository = open_repository(LocalStorage(str(root)))
        mutations.create_tag(repository, "afterwards", repository.branches()["main"])
        if repository.info:
            info = open_repository(LocalStorage(str(root))).info
            log = list(read_ops_log(repository.storage, info))
            assert all(isinstance(entry, OpsLogEntry) for entry in log)
        shutil.rmtree(root)
        if finished:
            assert state == new
            break
    assert finished
    assert seen == {True, False}


@pytest.mark.parametrize("spec_version", [1, 2])
def test_initialization(spec_version, tmp_path):
    for step in range(1, MOST_STEPS):
        root = tmp_path / str(step)
        finished = run(root, f"initialize{spec_version}", step)
        storage = LocalStorage(str(root))
        try:
            open_repository(storage)
        except RepositoryNotFoundError:
            initialize_repository(storage, spec_version=spec_version)
        assert official.open_official(root).list_branches() == {"main"}
        if finished:
            break
    assert finished and step > 5
