"""Repositories with something to do for each step, and what must be left of them."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

from tests.gc.repositories import OBJECTS, abandon_session
from tests.official import Where, open_official, read_everything
from tests.official.histories import commit, create

DAY = 24 * 3600


def write_repository(where: Where, spec_version: int = 2) -> None:
    """Six commits on main, the branches tmp-1 and release-1, the tag v1, and lost chunks."""
    repo = create(where, spec_version, inline_chunk_threshold_bytes=0)
    for number in range(6):
        with commit(repo, f"commit {number}") as root:
            name = f"a{number % 2}"
            array = root.require_array(name, shape=(64,), chunks=(16,), dtype="i8")
            array[:] = number + 1
    tip = repo.lookup_branch("main")
    repo.create_tag("v1", tip)
    for branch in ("tmp-1", "release-1"):
        repo.create_branch(branch, tip)
        with commit(repo, f"on {branch}", branch=branch) as root:
            root["a0"][:16] = 99
    abandon_session(repo)


def make_old(where: Path) -> None:
    """Let all objects be ten days old by the clock of the storage."""
    then = time.time() - 10 * DAY
    for directory in OBJECTS:
        for path in (where / directory).iterdir():
            os.utime(path, (then, then))


def digest(where: Path) -> dict[str, str]:
    """Every file with its content, without the lock of the storage."""
    return {
        str(path.relative_to(where)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in where.rglob("*")
        if path.is_file() and not path.name.startswith(".icectl")
    }


def read(where: Where) -> dict[str, Any]:
    return read_everything(open_official(where))


def check_kept(before: dict[str, Any], after: dict[str, Any], deleted: set[str]) -> None:
    """The official package reads what is left as before; only these branches are gone."""
    branches = {name: tip for name, tip in before["branches"].items() if name not in deleted}
    assert after["branches"] == branches
    assert after["tags"] == before["tags"]
    assert {*branches.values(), *before["tags"].values()} <= after["snapshots"].keys()
    for snapshot, content in after["snapshots"].items():
        assert content == before["snapshots"][snapshot]
