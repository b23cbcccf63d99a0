"""An official client resets, deletes and collects garbage at any moment of a validation."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icectl.checks.rules import Level
from icectl.ops.validate.report import ValidateResult
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.storage.local import LocalStorage
from tests.official import built, copied, open_official, zarr
from tests.official.histories import commit, create

CALLS = {"read", "read_range", "list", "list_names", "list_directories", "read_sizes_and_times"}


def build(where: Path, spec_version: int) -> None:
    repo = create(where, spec_version, inline_chunk_threshold_bytes=0)
    with commit(repo, "first") as root:
        root.create_array("a", shape=(8,), chunks=(4,), dtype="i8")[:] = np.arange(8)
    repo.create_branch("dev", repo.lookup_branch("main"))
    for branch in ("main", "dev"):
        session = repo.writable_session(branch)
        zarr.open_group(session.store)["a"][:4] = len(branch)
        session.commit("second")
    repo.create_tag("old", repo.lookup_branch("main"))


def take_away(where: Path) -> None:
    """Leaves the first commit and what it needs."""
    repo = open_official(where)
    parent = list(repo.ancestry(branch="main"))[1].id
    repo.delete_tag("old")
    repo.delete_branch("dev")
    repo.reset_branch("main", parent)
    repo.garbage_collect(soon())


def expire(where: Path) -> None:
    """Leaves the tips, which get another parent."""
    repo = open_official(where)
    assert repo.expire_snapshots(soon())
    repo.garbage_collect(soon())


def soon() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)


class Meanwhile(LocalStorage):
    """Lets something happen before its nth call."""

    def __init__(self, root: Path, number: int, act: Callable[[Path], None]) -> None:
        super().__init__(root)
        self.root, self.number, self.act = root, number, act
        self.calls = 0
        self.lock = threading.Lock()

    def __getattribute__(self, name: str) -> Any:
        if name in CALLS:
            with self.lock:
                self.calls += 1
                if self.calls == self.number:
                    self.act(self.root)
        return super().__getattribute__(name)


def run(storage: LocalStorage) -> ValidateResult:
    return validate(storage, ValidateOptions(level=Level.DATA, decode=True))[0]


@pytest.mark.parametrize("act", [take_away, expire])
@pytest.mark.parametrize("spec_version", [1, 2])
def test_no_moment_is_wrong(
    spec_version: int,
    act: Callable[[Path], None],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    whole = built(tmp_path_factory, build, spec_version)
    untouched = Meanwhile(whole, 0, act)
    assert run(untouched).findings == ()
    assert untouched.calls > 20
    for number in range(1, untouched.calls + 1):
        mine = copied(whole, tmp_path / str(number))
        result = run(Meanwhile(mine, number, act))
        assert (result.errors, result.warnings) == (0, 0), (number, result.findings)
        assert run(LocalStorage(mine)).errors == 0
