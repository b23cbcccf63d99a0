"""A wrong clock: nothing is written, ages go by the storage's clock, and a locked repository
can be unlocked."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from icectl.cli.main import run
from icectl.format.repo import encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.model.repo import Availability, RepoStatus, Update
from icectl.ops.repair.repo_file import plan_settings
from icectl.repository.open import open_repository
from icectl.repository.ops_log import read_repo, walk_updates
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from tests.command_line import Icectl
from tests.faults.storage import FaultyStorage, Request, fail_once
from tests.official import ic, open_official
from tests.official.histories import commit, create

DAY = 86400
real_time_ns = time.time_ns


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts the clock of this process ahead; files keep their times from the kernel's clock."""

    def set_ahead(seconds: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: real_time_ns() + int(seconds * 1e9))

    return set_ahead


@pytest.fixture(params=[1, 2])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    where = tmp_path / "repository"
    repo = create(where, request.param)
    for number in range(3):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
    return where


def content(where: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(where)): path.read_bytes()
        for path in where.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.mark.parametrize("ahead", [DAY, -DAY, 700, -700])
@pytest.mark.parametrize(
    "call",
    [
        "tag create v1",
        "branch create dev",
        "branch reset main main~1",
        "status set read-only",
        "metadata set a 1",
        "flags set create_tag off",
        "config set compression.level 3",
        "expire --keep-last 1 --yes",
        "gc --older-than 0s --allow-recent --yes",
    ],
)
def test_nothing_is_written(
    icectl: Icectl, repository: Path, set_clock: Any, call: str, ahead: int
) -> None:
    open_official(repository).reset_branch(
        "main", list(open_official(repository).ancestry(branch="main"))[1].id
    )
    if not (repository / "repo").exists() and not call.startswith("config"):
        pytest.skip("spec version 1 stores no time, or has no such setting")
    before = content(repository)
    set_clock(ahead)
    outcome = icectl(*call.split(), "--json", "-r", str(repository))
    assert (outcome.code, outcome.error["kind"]) == (16, "refused"), outcome.err
    assert "clock" in outcome.error["message"]
    assert content(repository) == before


@pytest.mark.parametrize("version", ["1", "2"])
def test_no_repository_is_made(
    icectl: Icectl, tmp_path: Path, set_clock: Any, version: str
) -> None:
    set_clock(DAY)
    where = tmp_path / "new"
    where.mkdir()
    outcome = icectl("init", str(where), "--spec-version", version, "--json")
    assert (outcome.code, outcome.error["kind"]) == (16, "refused")
    assert content(where) == {}


def test_a_few_minutes_are_allowed_and_not_written(
    icectl: Icectl, repository: Path, set_clock: Any
) -> None:
    """The official client commits right after: no entry lies in the future."""
    set_clock(500)
    assert icectl("tag", "create", "v1", "-r", str(repository)).code == 0
    set_clock(0)
    with commit(open_official(repository), "after") as root:
        root.attrs["number"] = -1


def test_expire_goes_by_the_clock_of_the_storage(
    icectl: Icectl, repository: Path, set_clock: Any
) -> None:
    set_clock(10 * DAY)
    outcome = icectl("expire", "--older-than", "7d", "--dry-run", "--json", "-r", str(repository))
    assert outcome.document["released_snapshots"] == []
    outcome = icectl("stats", "--older-than", "7d", "--json", "-r", str(repository))
    assert outcome.code == 0


@pytest.fixture(params=[None, 1, 2])
def locked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Written ten days ahead by an icectl that did not look at the storage's clock.

    Some have few entries in each file, so that the ops log goes on in the copies.
    """
    where = tmp_path / "locked"
    repo = create(where, num_updates_per_repo_info_file=request.param)
    for number in range(3):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
    old = list(repo.ancestry(branch="main"))[1].id
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real_time_ns() + 10 * DAY * 10**9)
        patch.setattr("icectl.storage.local.LocalStorage.read_clock", lambda _: now())
        patch.setattr("icectl.repository.update.write_time", lambda _storage, local: local)
        for call in ("tag create v1", "branch create dev", f"branch reset main {old}"):
            assert run([*call.split(), "-r", str(where)], {}) == 0
    return where


def now() -> int:
    return time.time_ns() // 1000


def codes(icectl: Icectl, where: Path, *words: str) -> list[str]:
    outcome = icectl("validate", "--json", "--level", "data", *words, "-r", str(where))
    assert outcome.code in (0, 3), outcome.err
    return [finding["code"] for finding in outcome.document["findings"]]


def ops_log(icectl: Icectl, where: Path) -> list[tuple[str, str]]:
    updates = icectl("ops-log", "--json", "-r", str(where)).document["updates"]
    return [(update["kind"], update["updated_at"]) for update in updates]


def test_a_locked_repository_is_reported(icectl: Icectl, locked: Path) -> None:
    with pytest.raises(ic.IcechunkError):
        open_official(locked).create_tag("v2", open_official(locked).lookup_branch("main"))
    assert codes(icectl, locked) == ["ICE0022"]
    doctor = icectl("doctor", "--json", "-r", str(locked))
    assert doctor.code == 1
    check = next(one for one in doctor.document["checks"] if one["name"] == "repair")
    assert (check["state"], check["hint"]) == ("failed", f"icectl repair -r {locked}")
    refused = icectl("tag", "create", "v2", "--json", "-r", str(locked))
    assert (refused.code, refused.error["kind"]) == (16, "refused")
    assert "icectl repair" in refused.error["hint"]


def test_a_locked_repository_is_unlocked(icectl: Icectl, locked: Path) -> None:
    before, log = content(locked), ops_log(icectl, locked)
    place = ("-r", str(locked), "--json")
    step = {"action": "restart_ops_log", "object": "repo", "loses": []}
    planned = icectl("repair", "--dry-run", *place)
    assert (planned.code, content(locked)) == (0, before)
    assert planned.document["dry_run"] is True
    assert planned.document["left"] == []
    (found,) = planned.document["steps"]
    assert found.items() >= {**step, "done": False}.items()
    assert icectl("repair", *place).code == 16
    assert content(locked) == before

    done = icectl("repair", "--yes", *place)
    assert done.code == 0, done.out
    assert [one["done"] for one in done.document["steps"]] == [True]
    after = content(locked)
    assert {name: after[name] for name in before if name != "repo"} == {
        name: data for name, data in before.items() if name != "repo"
    }
    assert codes(icectl, locked, "--fail-on", "warning") == []
    # All that the log said is still there, and the official client reads the same.
    assert ops_log(icectl, locked)[1:] == log
    official = open_official(locked)
    assert len(list(official.ops_log())) == len(log) + 1
    again = icectl("repair", "--yes", *place)
    assert (again.code, again.document["steps"]) == (0, [])

    # Everybody can write, collect and expire, for as long as the copies have times to come.
    official.create_tag("v2", official.lookup_branch("main"))
    for number in range(4):
        with commit(open_official(locked), f"after {number}") as root:
            root.attrs["number"] = number
        assert icectl("tag", "create", f"ours-{number}", "-r", str(locked)).code == 0
    assert codes(icectl, locked, "--fail-on", "warning") == []
    collect = ("gc", "--older-than", "0s", "--allow-recent", "--yes", "-r", str(locked))
    assert icectl("branch", "delete", "dev", "-r", str(locked)).code == 0
    collected = icectl(*collect, "--json")
    assert collected.code == 0, collected.err
    assert collected.document["snapshots_deleted"] == 0  # the tag v1 keeps the old tip
    assert icectl("tag", "delete", "v1", "-r", str(locked)).code == 0
    assert icectl(*collect, "--json").document["snapshots_deleted"] == 1
    assert icectl("expire", "--keep-last", "1", "--yes", "-r", str(locked)).code == 0
    assert open_official(locked).expire_snapshots(datetime.now(UTC)) is not None
    assert open_official(locked).garbage_collect(datetime.now(UTC)) is not None
    assert codes(icectl, locked, "--fail-on", "warning") == []
    assert len(list(open_official(locked).ops_log())) == len(ops_log(icectl, locked))


def test_a_repository_that_is_read_only_is_unlocked(icectl: Icectl, locked: Path) -> None:
    storage = LocalStorage(locked)
    info = read_repo(storage)
    read_only = replace(info, status=RepoStatus(Availability.READ_ONLY, 1, "why not"))
    (locked / "repo").write_bytes(encode_repo(read_only))
    assert icectl("repair", "--yes", "-r", str(locked)).code in (0, 3)
    assert icectl("status", "set", "online", "-r", str(locked)).code == 0
    assert read_repo(storage).branches == info.branches


def mend(storage: Storage) -> None:
    for step in plan_settings(open_repository(storage), storage.read_clock()):
        step.apply(storage)


def test_the_answer_to_the_repair_is_lost(locked: Path) -> None:
    """The copy that holds the ops log is never taken for one that nobody needs."""
    inner = LocalStorage(locked)
    mend(FaultyStorage(inner, after=fail_once("put_if_match")))
    log = list(walk_updates(inner, read_repo(inner)))
    assert all(isinstance(update, Update) for update in log)


def test_another_one_repairs_it_first(locked: Path) -> None:
    inner = LocalStorage(locked)
    others = [inner]

    def mend_first(request: Request) -> None:
        if request.method == "put_if_match" and others:
            mend(others.pop())

    mend(FaultyStorage(inner, before=mend_first))
    log = list(walk_updates(inner, read_repo(inner)))
    assert all(isinstance(update, Update) for update in log)
    assert [update for update in log if update.backup_path is None] == log[:1]


def test_the_tip_of_a_branch_in_the_future_is_left(icectl: Icectl, tmp_path: Path) -> None:
    """Its time is in the snapshot file as well, which is never rewritten."""
    where = tmp_path / "repository"
    repo = create(where)
    with commit(repo, "first") as root:
        root.attrs["number"] = 1
    info = read_repo(LocalStorage(where))
    future = now() + 10 * DAY * 1_000_000
    tip = info.branches[0].snapshot_id
    path = where / "snapshots" / str(tip)
    path.write_bytes(
        encode_snapshot(replace(decode_snapshot(path.read_bytes()), flushed_at=future))
    )
    snapshots = tuple(
        replace(one, flushed_at=future) if one.id == tip else one for one in info.snapshots
    )
    newest, *older = info.latest_updates
    updates = (replace(newest, updated_at=future + 1), *older)
    (where / "repo").write_bytes(
        encode_repo(replace(info, snapshots=snapshots, latest_updates=updates))
    )
    done = icectl("repair", "--yes", "--json", "-r", str(where))
    assert done.code == 3
    found = [
        (one["code"], one["object"]) for one in done.document["left"] if one["code"] == "ICE0022"
    ]
    assert found == [("ICE0022", f"snapshots/{tip}")]
    with (
        pytest.raises(ic.IcechunkError),
        commit(open_official(where), "x") as root,
    ):
        root.attrs["number"] = 2
    assert icectl("branch", "reset", "main", "main~1", "-r", str(where)).code == 0
    with commit(open_official(where), "again") as root:
        root.attrs["number"] = 2


@pytest.mark.server
@pytest.mark.parametrize("kind", ["moto_server", "gcs_server"])
def test_on_an_object_store(
    icectl: Icectl,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    set_clock: Any,
    kind: str,
) -> None:
    """The answer that brings `repo` brings the time as well."""
    server = request.getfixturevalue(kind)
    for key, value in server.environment.items():
        monkeypatch.setenv(key, value)
    scheme = "gs" if kind == "gcs_server" else "s3"
    location = f"{scheme}://{server.bucket}/{uuid4().hex}"
    assert icectl("init", location, **server.environment).code == 0
    set_clock(DAY)
    refused = icectl("tag", "create", "v1", "-r", location, "--json", **server.environment)
    assert (refused.code, refused.error["kind"]) == (16, "refused")
    set_clock(500)
    assert icectl("tag", "create", "v1", "-r", location, **server.environment).code == 0
    set_clock(0)
    storage = FaultyStorage(open_storage(location))
    assert read_repo(storage).latest_updates[0].updated_at <= now()
    open_repository(storage).refs.delete_tag("v1")
    assert "read_clock" not in storage.methods()
