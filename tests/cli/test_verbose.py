"""`-v` and `-vv`: notes on stderr about what is done, never secrets, and never on stdout."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from uuid import uuid4

import pytest

from tests.command_line import Icectl
from tests.gc.repositories import messy_repository
from tests.official import built, ic
from tests.servers.proxy import Faults, fault_proxy
from tests.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, messy_repository, 2)


def lines_of(err: str) -> list[str]:
    return [line.removeprefix("icectl: ") for line in err.splitlines()]


@pytest.mark.parametrize(
    ("command", "steps"),
    [
        (("log",), {"storage", "repository"}),
        (
            ("gc", "--older-than", "0s", "--allow-recent", "--dry-run"),
            {"storage", "repository", "engine", "plan", "listing chunks", "reading manifests"},
        ),
        (("validate", "--level", "chunks"), {"storage", "engine", "reading snapshots"}),
        (("stats",), {"storage", "repository", "engine", "reading manifests"}),
        (("expire", "--keep-last", "1", "--dry-run"), {"storage", "repository", "plan"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_the_steps_are_logged(
    icectl: Icectl, repository: Path, command: tuple[str, ...], steps: set[str]
) -> None:
    quiet = icectl(*command, "-r", str(repository), "--json")
    assert quiet.err == ""
    done = icectl(*command, "-r", str(repository), "--json", "-v")
    assert done.code == quiet.code
    assert done.document.keys() == quiet.document.keys()
    assert {line.partition(":")[0] for line in lines_of(done.err)} >= steps
    twice = icectl(*command, "-r", str(repository), "--json", "-vv")
    assert len(lines_of(twice.err)) > len(lines_of(done.err))
    assert all(re.match(r"\d+\.\d{3} s: ", line) for line in lines_of(twice.err))


def test_counts_are_those_of_the_listing(icectl: Icectl, repository: Path) -> None:
    command = ("gc", "--older-than", "0s", "--allow-recent", "--dry-run")
    done = icectl(*command, "-r", str(repository), "-v")
    count = len(list((repository / "chunks").iterdir()))
    assert f"listing chunks: {count:,} objects" in done.err


def test_a_change_names_its_backup(icectl: Icectl, tmp_path: Path) -> None:
    ic.Repository.create(ic.local_filesystem_storage(str(tmp_path / "repo")))
    done = icectl("tag", "create", "x", "-v", "-r", str(tmp_path / "repo"))
    (backup,) = (tmp_path / "repo" / "overwritten").iterdir()
    assert f"overwritten/{backup.name}" in done.err


def test_nothing_is_left_behind(icectl: Icectl, repository: Path) -> None:
    icectl("log", "-vv", "-r", str(repository))
    logger = logging.getLogger("icectl")
    assert logger.handlers == []
    assert icectl("log", "-r", str(repository)).err == ""


def test_under_json_the_error_is_the_last_line(icectl: Icectl, repository: Path) -> None:
    done = icectl("log", "nothing", "--json", "-v", "-r", str(repository))
    assert done.code == 12
    assert json.loads(done.err.splitlines()[-1])["error"]["kind"] == "ref_not_found"


@pytest.mark.server
def test_requests_and_retries_without_secrets(
    icectl: Icectl, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = uuid4().hex
    ic.Repository.create(seaweedfs_server.official_storage(prefix))
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    faults = Faults(refuse_one_in=2)
    location = f"s3://{seaweedfs_server.bucket}/{prefix}"
    with fault_proxy(seaweedfs_server.url, faults) as url:
        option = f"endpoint_url={url}"
        done = icectl("tag", "create", "x", "-vv", "-r", location, "--storage-option", option)
    assert done.code == 0
    assert f"get_object {prefix}/repo" in done.err
    assert "attempt 1 failed" in done.err
    assert ACCESS_KEY not in done.err
    assert SECRET_KEY not in done.err
    assert "Authorization" not in done.err
