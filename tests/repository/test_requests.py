"""The requests of a change, of gc and of validate, counted in front of a real S3 server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from icectl.checks.rules import Level
from icectl.errors import FormatError
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.ops.ops_log import OpsLogOptions, read_filtered_ops_log
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.repository.open import open_repository
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.failures import raises
from tests.gc.repositories import upload
from tests.official import built, daily_maintenance
from tests.servers.proxy import Faults, fault_proxy
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, daily_maintenance, 60, gc=False)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def storage(
    seaweedfs_server: S3Server,
    aged: Path,
    faults: Faults,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Storage]:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    where = f"s3://{seaweedfs_server.bucket}/requests-{request.node.name}"
    upload(aged, open_storage(where, {}))
    with fault_proxy(seaweedfs_server.url, faults) as url:
        storage = open_storage(where, {"endpoint_url": url})
        open_repository(storage)  # the client may look for a region or for credentials once
        faults.heads.clear()
        yield storage


def requests(faults: Faults) -> Counter[tuple[str, str]]:
    """Method and kind of object of each request, in any order; the probe is `.`."""
    found: Counter[tuple[str, str]] = Counter()
    for head in faults.heads:
        method, target, _ = head.split(b" ", 2)
        path, _, query = target.decode().partition("?")
        kind = path.split("/")[3] if path.count("/") > 2 else ""
        if "list-type" in query:
            prefix = query.partition("prefix=")[2].partition("&")[0]
            method, kind = b"LIST", prefix.replace("%2F", "/").split("/")[1]
        found[method.decode(), "." if kind.startswith(".") else kind] += 1
    return found


def test_a_change_reads_lists_copies_and_swaps(storage: Storage, faults: Faults) -> None:
    repository = open_repository(storage, for_update=True)
    repository.refs.create_branch("dev", repository.branches()["main"])
    counts = requests(faults)
    probe = [one for one in counts if one[1] == "." or one[0] == "POST"]  # and its deletion
    for one in probe:
        del counts[one]
    assert counts == {
        ("GET", "repo"): 1,
        ("LIST", "overwritten"): 1,
        ("PUT", "overwritten"): 1,
        ("PUT", "repo"): 1,
    }
    assert open_repository(storage).branches()["dev"] == repository.branches()["main"]


def test_the_ops_log_lists_its_backups_once(storage: Storage, faults: Faults) -> None:
    log = [*read_filtered_ops_log(open_repository(storage), OpsLogOptions())]
    assert len(log) > 100
    assert requests(faults) == {("GET", "repo"): 1, ("LIST", "overwritten"): 1}


def test_gc_reads_few_backups_and_no_log(storage: Storage, faults: Faults) -> None:
    time.sleep(1.1)  # times have whole seconds here
    plan = plan_run(storage, GcOptions(storage.read_clock())).plan
    assert plan.num_objects > 60
    counts = requests(faults)
    assert counts["GET", "transactions"] == 0
    assert counts["GET", "overwritten"] <= 4


def test_a_log_that_was_cut_short_stops_gc(storage: Storage) -> None:
    log = max(storage.list("transactions"), key=lambda info: info.size or 0)
    list(storage.delete_many([log.path]))
    storage.put_if_absent(log.path, b"")
    with raises(FormatError, path=log.path):
        plan_run(storage, GcOptions(storage.read_clock()))


def test_gc_lists_each_directory_once(storage: Storage, faults: Faults) -> None:
    plan_run(storage, GcOptions(storage.read_clock()))
    counts = requests(faults)
    assert {kind: count for (method, kind), count in counts.items() if method == "LIST"} == {
        "snapshots": 1,
        "transactions": 1,
        "manifests": 1,
        "chunks": 1,
        "overwritten": 1,
    }
    assert counts["GET", "repo"] == 1


def test_validate_reads_no_file_twice(storage: Storage, faults: Faults) -> None:
    result, _ = validate(storage, ValidateOptions(level=Level.MANIFESTS))
    assert result.ok and result.checked.transaction_logs > 60
    reads = Counter(head.split(b" ", 2)[1] for head in faults.heads if head.startswith(b"GET "))
    assert max(reads.values()) == 1
