"""Official writers commit, tag and reset while we expire: nothing reachable is released."""

from __future__ import annotations

import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icectl.ops.expire.execute import execute_expiration
from icectl.ops.expire.plan import plan_for
from icectl.ops.expire.policy import Policy
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from tests.official import ic
from tests.official.histories import commit, create
from tests.official.reading import open_official, read_everything
from tests.servers.s3 import S3Server

COMMITS = 12


@pytest.mark.server
@pytest.mark.parametrize(
    "policy", [Policy(older_than=2**62), Policy(keep_last=2)], ids=["cutoff", "keep-last"]
)
def test_expire_beside_official_writers(
    seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch, policy: Policy
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    prefix = f"expire-{uuid.uuid4().hex}"
    where = seaweedfs_server.official_storage(prefix)
    repo = create(where)
    with commit(repo, "start") as root:
        root.create_array("a", shape=(COMMITS,), chunks=(1,), dtype="i4", compressors=None)
    for number in range(2):
        repo.create_branch(f"writer{number}", repo.lookup_branch("main"))
    tagged: dict[str, str] = {}
    tips: dict[str, str] = {}
    failures: list[BaseException] = []

    def write(number: int) -> None:
        branch = f"writer{number}"
        choose = random.Random(number)
        try:
            mine = open_official(where)
            for step in range(COMMITS):
                session = mine.writable_session(branch)
                before = session.snapshot_id
                with commit(mine, f"{branch} {step}", branch=branch) as root:
                    root["a"][step] = step + 1
                tip = mine.lookup_branch(branch)
                name = f"{branch}-{step}"
                mine.create_tag(name, tip)
                tagged[name] = tip
                if choose.random() < 0.2:
                    try:
                        mine.reset_branch(branch, before)
                        tip = before
                    except ic.IcechunkError:
                        pass  # released meanwhile: the official package refuses
                tips[branch] = tip
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for writer in writers:
        writer.start()
    storage = open_storage(f"s3://{seaweedfs_server.bucket}/{prefix}", {})
    rounds = 0
    while any(writer.is_alive() for writer in writers) and rounds < 500:
        repository = open_repository(storage)
        execute_expiration(repository, policy, plan_for(repository, policy))
        rounds += 1
        time.sleep(0.01)
    for writer in writers:
        writer.join()
    assert not failures
    assert rounds > 1
    content = read_everything(open_official(where))
    assert content["tags"] == tagged
    assert {name: content["branches"][name] for name in tips} == tips
    for version in content["snapshots"].values():
        assert not [key for key, value in version.items() if value.startswith("!")]


@pytest.mark.parametrize("spec_version", [1, 2])
def test_the_same_expiration_several_times_at_once(tmp_path: Path, spec_version: int) -> None:
    repo = create(tmp_path / "r", spec_version)
    with commit(repo, "start") as root:
        root.create_array("a", shape=(COMMITS,), chunks=(1,), dtype="i4", compressors=None)
    for number in range(COMMITS):
        with commit(repo, f"commit {number}") as root:
            root["a"][number] = number + 1
    policy = Policy(keep_last=2)

    def expire(_: int) -> None:
        repository = open_repository(LocalStorage(tmp_path / "r"))
        execute_expiration(repository, policy, plan_for(repository, policy))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(expire, range(4)))
    after = open_official(tmp_path / "r")
    history = [snapshot.id for snapshot in after.ancestry(branch="main")]
    assert len(history) == 3
    told = after.diff(from_snapshot_id=history[-1], to_branch="main").updated_chunks
    assert sorted(told["/a"]) == [[number] for number in range(COMMITS)]
