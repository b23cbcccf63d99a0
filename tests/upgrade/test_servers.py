"""Upgrades on an object store, where official clients of both versions write conditionally."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.repository.history import state_of
from icectl.repository.ops_log import read_repo
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.official import build_zoo, ic, open_official, read_everything
from tests.official.histories import commit, create
from tests.patience import PATIENCE_SECONDS
from tests.servers.s3 import S3Server
from tests.upgrade.repositories import (
    official_view,
    small,
    upgrade,
    upgrade_officially,
    upgraded_state,
)

pytestmark = pytest.mark.server
MOST_COMMITS = 2000


@pytest.fixture
def storage_at(
    seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Storage]:
    for variable in seaweedfs_server.environment.items():
        monkeypatch.setenv(*variable)
    return lambda prefix: open_storage(f"s3://{seaweedfs_server.bucket}/{prefix}", {})


def copy(source: Storage, target: Storage) -> None:
    for listed in source.list(""):
        target.put_if_absent(listed.path, source.read(listed.path))


@pytest.mark.parametrize("kind", ["small", "zoo"])
def test_equals_the_official_upgrade(
    seaweedfs_server: S3Server,
    storage_at: Callable[[str], Storage],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    kind: str,
) -> None:
    ours, theirs = (
        seaweedfs_server.official_storage(f"{kind}-{whose}") for whose in ("ours", "theirs")
    )
    if kind == "small":
        small(ours)
    else:
        build_zoo(ours, 1, source=tmp_path)
    storage = storage_at(f"{kind}-ours")
    copy(storage, storage_at(f"{kind}-theirs"))
    before = read_everything(open_official(ours))
    upgrade_officially(theirs)

    def icectl(*words: str) -> Any:
        code = run([*words, "-r", storage.location, "--json"], seaweedfs_server.environment)
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out)

    icectl("upgrade", "--yes")
    assert upgraded_state(storage) == upgraded_state(storage_at(f"{kind}-theirs"))
    assert official_view(ours) == official_view(theirs)
    assert not [*storage.list("refs")]
    repo = open_official(ours)
    after = read_everything(repo)
    assert all(after[name] == content for name, content in before.items())
    assert icectl("validate", "--level", "chunks", "--fail-on", "warning")["ok"]
    icectl("gc", "--older-than", "0s", "--allow-recent", "--yes")
    with commit(repo, "afterwards") as root:
        root.attrs["after"] = True
    assert icectl("validate", "--level", "chunks", "--fail-on", "warning")["ok"]


def test_official_writers_of_version_1_lose_nothing(
    seaweedfs_server: S3Server, storage_at: Callable[[str], Storage]
) -> None:
    """Every commit that they believe in is in the upgraded repository."""
    prefix = "race"
    where = seaweedfs_server.official_storage(prefix)
    repo = create(where, 1)
    branches = ["main", *(f"b{number}" for number in range(3))]
    for branch in branches[1:]:
        repo.create_branch(branch, repo.lookup_branch("main"))
    committed: list[str] = []

    def write(branch: str) -> None:
        mine = open_official(seaweedfs_server.official_storage(prefix))
        while True:
            try:
                session = mine.writable_session(branch)
                committed.append(session.commit("racing", allow_empty=True))
                if len(committed) > MOST_COMMITS:
                    return
            except ic.IcechunkError:
                return

    threads = [threading.Thread(target=write, args=[branch]) for branch in branches]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    upgraded = threading.Thread(target=upgrade, args=[storage_at(prefix)])
    upgraded.start()
    for thread in (upgraded, *threads):
        thread.join(timeout=PATIENCE_SECONDS)
        assert not thread.is_alive()
    storage = storage_at(prefix)
    assert not [*storage.list("refs")]
    reachable = {str(id_) for id_ in state_of(read_repo(storage)).reachable}
    assert len(committed) > len(branches)
    assert reachable >= {*committed}
