"""Repairs on an object store: conditional writes, and listings instead of files."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from icectl.cli.main import run
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.official import ic
from tests.official.histories import commit, create
from tests.repair.helpers import read_version
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.server
LOSSY = ("--step", "drop_lost_references", "--step", "release_versions")


@pytest.mark.parametrize("driver", ["fsspec", "obstore"])
@pytest.mark.parametrize("lost", ["repo", "empty", "transactions", "snapshots", "chunks"])
def test_seaweedfs(
    seaweedfs_server: S3Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
    driver: str,
) -> None:
    pytest.importorskip(driver)
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    prefix = f"repair-{lost}-{uuid4().hex}"
    theirs = seaweedfs_server.official_storage(prefix)
    repo = create(theirs, inline_chunk_threshold_bytes=0)
    location = f"s3://{seaweedfs_server.bucket}/{prefix}"
    storage = open_storage(location, {"driver": driver})
    older: set[str] = set()
    for number in range(3):
        older = {one.path for one in storage.list("chunks")}
        with commit(repo, f"{number}") as root:
            array = root.require_array("a", shape=(20,), chunks=(1,), dtype="i8")
            array[number:] = np.arange(20 - number) + number + 1
    tip = repo.lookup_branch("main")
    parent = next(one.parent_id for one in repo.ancestry(branch="main"))
    before = read_version(repo, branch="main")
    place = ("-r", location, "--storage-option", f"driver={driver}")

    def icectl(*words: str) -> tuple[int, dict[str, Any]]:
        code = run([*words, *place, "--json"], seaweedfs_server.environment)
        out, err = capsys.readouterr()
        return code, json.loads(out or err.splitlines()[-1])

    hurt(storage, lost, tip, older)
    code, document = icectl("repair", "--dry-run", *LOSSY)
    assert (code, document["left"]) == (0, []), document
    code, document = icectl("repair", "--yes", *LOSSY)
    assert (code, document["left"]) == (0, []), document
    assert all(step["done"] for step in document["steps"])
    code, document = icectl("validate", "--level", "chunks", "--fail-on", "warning")
    assert code == 0, document
    repo = ic.Repository.open(theirs)
    if lost == "transactions":
        assert repo.lookup_branch("main") == tip
        assert read_version(repo, branch="main") == before
    elif lost == "chunks":
        assert repo.lookup_branch("main") != tip
    else:
        assert repo.lookup_branch("main") == parent
    if lost in ("repo", "empty"):
        assert read_version(repo, branch=f"recovered-main-{tip[:8]}") == before
    with commit(repo, "afterwards") as root:
        root.attrs["after"] = 1


def hurt(storage: Storage, lost: str, tip: str, older: set[str]) -> None:
    if lost == "empty":
        found = storage.read_versioned("repo")
        storage.put_if_match("repo", b"", found.version)
        return
    path = "repo"
    if lost == "chunks":
        path = min({one.path for one in storage.list("chunks")} - older)
    elif lost != "repo":
        path = f"{lost}/{tip}"
    assert [error for _, error in storage.delete_many([path])] == [None]
