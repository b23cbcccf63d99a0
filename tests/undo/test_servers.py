"""Undo on an object store: sizes come from listings there."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from icectl.cli.main import run
from icectl.model.ids import ChunkId, ManifestId
from icectl.repository.open import open_repository
from icectl.storage.open import open_storage
from tests.gc.repositories import live
from tests.official.histories import commit, create
from tests.servers.s3 import S3Server
from tests.undo.states import official_state

pytestmark = pytest.mark.server


@pytest.mark.parametrize("lost", [None, "chunks", "manifests", "transactions", "snapshots"])
def test_seaweedfs(
    seaweedfs_server: S3Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    lost: str | None,
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    prefix = f"undo-{lost}"
    theirs = seaweedfs_server.official_storage(prefix)
    repo = create(theirs, inline_chunk_threshold_bytes=0)
    for number in range(4):
        with commit(repo, f"{number}") as root:
            array = root.require_array("a", shape=(100,), chunks=(1,), dtype="i8")
            array[:] = np.arange(100) + number + 1
    location = f"s3://{seaweedfs_server.bucket}/{prefix}"

    def icectl(*words: str) -> tuple[int, dict[str, Any]]:
        code = run([*words, "-r", location, "--json"], seaweedfs_server.environment)
        out, err = capsys.readouterr()
        return code, json.loads(out or err.splitlines()[-1])

    before, data = official_state(theirs), live(theirs)
    repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    expired = official_state(theirs)
    assert expired != before
    if lost is not None:
        storage = open_storage(location, {})
        path = find_released(lost, before, repo, storage)
        assert [error for _, error in storage.delete_many([path])] == [None]
        code, document = icectl("undo", "--yes")
        assert (code, document["missing"]) == (16, [path])
        assert official_state(theirs) == expired
        return
    code, document = icectl("undo", "--yes")
    assert code == 0, document
    assert (official_state(theirs), live(theirs)) == (before, data)
    code, document = icectl("validate", "--level", "chunks", "--fail-on", "warning")
    assert code == 0, document
    code, document = icectl("log", "--at-op", "@3")
    assert code == 0 and len(document["snapshots"]) < 5
    code, document = icectl("gc", "--older-than", "0s", "--allow-recent", "--yes")
    assert code == 0, document
    assert live(theirs) == data


def find_released(kind: str, before: dict[str, Any], repo: Any, storage: Any) -> str:
    """An object that only a released snapshot needs."""
    there = {one["id"] for one in repo.inspect_repo_info()["snapshots"]}
    released = next(one["id"] for one in before["snapshots"] if one["id"] not in there)
    if kind in ("snapshots", "transactions"):
        return f"{kind}/{released}"
    (manifest,) = repo.list_manifest_files(released)
    if kind == "manifests":
        return f"manifests/{manifest.id}"
    found = open_repository(storage).read_manifest(ManifestId.parse(manifest.id))
    return f"chunks/{ChunkId(found.arrays[0].refs.chunk_id[7].tobytes())}"
