"""`icectl metrics`: the text equals `--json`, and both equal other commands and the official package."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import icechunk as ic
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

import icectl as package
from icectl.format.repo import decode_repo, encode_repo
from icectl.ops.metrics import FindingMetrics, MaintenanceMetrics, measure_metrics
from icectl.render.metrics import MAINTENANCE, REPOSITORY, render_metrics
from icectl.render.text import escape_controls
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from tests.command_line import Icectl, Outcome
from tests.gc.repositories import age_all, messy_repository, upload
from tests.official import built, copied, linear_history, open_official
from tests.official.histories import create
from tests.servers.proxy import Faults, fault_proxy
from tests.servers.s3 import S3Server

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
KINDS = ("snapshots", "transaction_logs", "manifests", "chunks")
HOSTILE = [
    'quote " and } 1.0',
    "back\\slash\\n",
    "new\nline",
    "return\r\nline\x85next\u2028line",
    "\x1b[31mred\x1b]0;title\x07",
    "# EOF",
    "\n# EOF\nicectl_tags 7",
    "::error::x",
    "\u202etfel",
    "日本語 🧊",
]


def samples(text: str) -> Samples:
    """Everything in the text, which has no sample twice and no timestamp."""
    found: Samples = {}
    for family in parse_openmetrics(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            assert sample.timestamp is None
            found[key] = sample.value
    # The textfile collector of node_exporter reads the older format.
    assert {family.name for family in parse_prometheus(text)} == {name for name, _ in found}
    return found


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def samples_of(document: Mapping[str, Any]) -> Samples:
    """What the text must hold, by the document of `--json`."""
    found: Samples = {}

    def add(name: str, value: float | None, **labels: str) -> None:
        if value is not None:
            key = (
                f"icectl_{name}",
                frozenset({"repository": document["repository"], **labels}.items()),
            )
            found[key] = value

    def add_time(name: str, text: str | None, **labels: str) -> None:
        add(f"{name}_timestamp_seconds", None if text is None else seconds(text), **labels)

    add("repository_spec_version", document["spec_version"])
    for name in ("online", "read_only", "offline"):
        add("repository_availability", name == document["availability"], availability=name)
    for branch in document["branches"]:
        add_time("branch_newest_commit", branch["flushed_at"], branch=branch["name"])
    add("branches", len(document["branches"]))
    for name in ("tags", "deleted_tags", "snapshots", "operations"):
        add(name, document[f"num_{name}"])
    for name in ("last_operation", "last_gc", "last_expiration"):
        add_time(name, document[f"{name}_at"])
    add("repo_file_size_bytes", document["repo_size_bytes"])
    backups = document["overwritten"] or {}
    add("backups", backups.get("num_backups"))
    add("backups_size_bytes", backups.get("size_bytes"))
    deep = document["deep"]
    if deep is not None:
        for kind in ("native", "virtual", "inlined"):
            add("chunk_size_bytes", deep[f"{kind}_bytes"], kind=kind)
        add("chunks", deep["num_chunks"])
        for name in ("objects", "garbage"):
            for one in deep[name] or ():
                metric = "garbage_objects" if name == "garbage" else name
                add(metric, one["count"], kind=one["kind"])
                add(f"{name}_size_bytes", one["bytes"], kind=one["kind"])
        add_time("garbage_cutoff", deep["garbage_cutoff_at"])
    return found


@pytest.fixture(scope="module", params=[1, 2])
def messy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, messy_repository, request.param)


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    return copied(built(tmp_path_factory, linear_history, 3), tmp_path / "small")


def both(icectl: Icectl, *words: str) -> dict[str, Any]:
    """The document, after the text was compared with it."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "icectl.prom"
        printed = icectl("metrics", *words, "--textfile", str(file), "--json")
        assert printed.code == 0, printed.err
        text = file.read_text(encoding="utf-8", newline="")
    document: dict[str, Any] = printed.document
    assert samples(text) == samples_of(document)
    if not document["deep"]:
        printed = icectl("metrics", *words)
        assert (printed.code, printed.out) == (0, text)
    return document


def assert_equals_other_commands(icectl: Icectl, document: dict[str, Any], *place: str) -> None:
    branches = icectl("branch", "list", *place, "--json").document["branches"]
    assert document["branches"] == [
        {"name": one["name"], "flushed_at": one["flushed_at"]} for one in branches
    ]
    for branch in document["branches"]:
        newest = icectl("log", f"branch:{branch['name']}", "-n1", *place, "--json").document
        assert branch["flushed_at"] == newest["snapshots"][0]["flushed_at"]
    tags = icectl("tag", "list", *place, "--json").document
    assert document["num_tags"] == len(tags["tags"])
    assert document["num_deleted_tags"] == len(tags["deleted_tags"])
    status = icectl("status", *place, "--json").document
    assert (document["availability"], document["spec_version"]) == (
        status["availability"],
        status["spec_version"],
    )
    stats = icectl("stats", *place, "--json").document
    assert document["overwritten"] == stats["overwritten"]
    if document["spec_version"] == 2:
        assert document["num_snapshots"] == stats["num_snapshots"] + stats["num_unreachable"]
        updates = icectl("ops-log", *place, "--json").document["updates"]
        assert document["num_operations"] == len(updates)
        assert document["last_operation_at"] == updates[0]["updated_at"]
        for key, kind in (("last_gc_at", "gc_ran"), ("last_expiration_at", "expiration_ran")):
            times = [one["updated_at"] for one in updates if one["kind"] == kind]
            assert document[key] == (times[0] if times else None)
    if (deep := document["deep"]) is None:
        return
    for key in ("native_bytes", "virtual_bytes", "inlined_bytes", "num_chunks"):
        assert deep[key] == stats[key]
    cutoff = deep["garbage_cutoff_at"]
    gc = icectl("gc", "--dry-run", "--allow-recent", "--older-than", cutoff, *place, "--json")
    assert gc.document["cutoff_at"] == cutoff
    assert deep["garbage"] == gc.document["garbage"]
    assert {one["kind"]: one["count"] for one in deep["objects"]} == {
        kind: gc.document["kept"][kind] + gc.document[f"{kind}_deleted"] for kind in KINDS
    }


def test_equals_the_other_commands(icectl: Icectl, messy: Path) -> None:
    place = ("-r", str(messy))
    shallow = both(icectl, *place)
    assert shallow["deep"] is None
    deep = both(icectl, *place, "--deep", "--garbage-older-than", "0s")
    assert {**deep, "deep": None} == shallow
    assert all(one["count"] and one["bytes"] for one in deep["deep"]["garbage"])
    sizes = {
        path.name: sum(file.stat().st_size for file in path.iterdir())
        for path in messy.iterdir()
        if path.is_dir()
    }
    sizes["transaction_logs"] = sizes.pop("transactions")
    for one in deep["deep"]["objects"]:
        assert one["bytes"] == sizes[one["kind"]]
    assert_equals_other_commands(icectl, deep, *place)


def test_equals_the_official_package(icectl: Icectl, messy: Path) -> None:
    document = both(icectl, "-r", str(messy), "--deep")
    repo = open_official(messy)
    assert {one["name"]: seconds(one["flushed_at"]) for one in document["branches"]} == {
        name: repo.lookup_snapshot(repo.lookup_branch(name)).written_at.timestamp()
        for name in repo.list_branches()
    }
    assert document["num_tags"] == len(repo.list_tags())
    official: Any = repo.chunk_storage_stats()
    for key in ("native_bytes", "virtual_bytes", "inlined_bytes"):
        assert document["deep"][key] == getattr(official, key)
    assert document["spec_version"] == repo.spec_version
    if document["spec_version"] < 2:
        assert document["num_snapshots"] is document["num_operations"] is None
        assert document["repo_size_bytes"] is None
        return
    assert document["repo_size_bytes"] == (messy / "repo").stat().st_size
    assert document["num_snapshots"] == len(repo.inspect_repo_info()["snapshots"])
    updates = [*repo.ops_log()]
    assert document["num_operations"] == len(updates)
    assert seconds(document["last_operation_at"]) == updates[0].updated_at.timestamp()
    times = [one.updated_at for one in updates if isinstance(one.kind, ic.UpdateType.ExpirationRan)]
    assert seconds(document["last_expiration_at"]) == times[0].timestamp()


def test_gc_and_expiration(icectl: Icectl, small: Path) -> None:
    place = ("-r", str(small))
    before = both(icectl, *place)
    assert before["last_gc_at"] is before["last_expiration_at"] is None
    assert icectl("expire", "--keep-last", "2", "--yes", *place).code == 0
    age_all(small, 10 * 24 * 3600)
    garbage = both(icectl, *place, "--deep")["deep"]["garbage"]
    assert sum(one["bytes"] for one in garbage)
    assert icectl("branch", "reset", "main", "main~1", *place).code == 0
    assert icectl("gc", "--older-than", "0s", "--allow-recent", "--yes", *place).code == 0
    after = both(icectl, *place, "--deep", "--garbage-older-than", "0s")
    assert after["last_expiration_at"] < after["last_gc_at"] == after["last_operation_at"]
    assert not any(one["count"] for one in after["deep"]["garbage"])
    assert_equals_other_commands(icectl, after, *place)


def test_a_repository_that_is_not_online_has_no_number_of_garbage(
    icectl: Icectl, small: Path
) -> None:
    place = ("-r", str(small))
    assert icectl("status", "set", "read-only", "--reason", "moving", *place).code == 0
    document = both(icectl, *place, "--deep")
    assert document["availability"] == "read_only"
    assert document["deep"]["garbage"] is None
    assert document["deep"]["objects"]


def test_legacy_repositories(icectl: Icectl, shared_fixtures: Path) -> None:
    found = 0
    for path in sorted(shared_fixtures.iterdir()):
        if icectl("status", "-r", str(path)).code == 0:
            both(icectl, "-r", str(path), "--deep")
            found += 1
    assert found


# ── labels ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    where = tmp_path / "hostile"
    repo = create(where)
    for name in HOSTILE:
        repo.create_branch(name, repo.lookup_branch("main"))
    return where


def branches_in(text: str) -> set[str]:
    found = (dict(labels) for name, labels in samples(text) if "newest_commit" in name)
    return {labels["branch"] for labels in found}


def test_hostile_names_survive(
    icectl: Icectl, process: Icectl, hostile: Path, tmp_path: Path
) -> None:
    file = tmp_path / "icectl.prom"
    assert icectl("metrics", "-r", str(hostile), "--textfile", str(file)).code == 0
    assert branches_in(file.read_text(encoding="utf-8", newline="")) == {"main", *HOSTILE}
    text = icectl("metrics", "-r", str(hostile)).out
    assert len(branches_in(text)) == len(HOSTILE) + 1
    assert not [one for one in text if one != "\n" and escape_controls(one) != one]
    # Standard output is UTF-8 in any locale.
    done = process(
        "metrics", "-r", str(hostile), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    assert (done.code, done.out) == (0, text), done.err


def test_commands_of_a_runner_are_inert(icectl: Icectl, tmp_path: Path) -> None:
    repo = create(tmp_path / "repo")
    repo.create_branch("##[error]x", repo.lookup_branch("main"))
    text = icectl("metrics", "-r", str(tmp_path / "repo")).out
    assert "##[" not in text
    assert len(branches_in(text)) == 2


def test_the_name_of_the_repository(icectl: Icectl, small: Path, tmp_path: Path) -> None:
    assert icectl("remote", "add", "prod", str(small)).code == 0
    assert both(icectl, "-r", "prod")["repository"] == "prod"
    assert both(icectl, "-r", str(small))["repository"] == str(small)
    assert icectl("metrics", "--json", ICECTL_REPO="prod").document["repository"] == "prod"
    broken = tmp_path / "broken.toml"
    broken.write_text("[")
    assert icectl("metrics", "-r", str(small), ICECTL_CONFIG=str(broken)).code == 0


def test_a_directory_whose_name_is_not_utf8(icectl: Icectl, small: Path, tmp_path: Path) -> None:
    where = os.fsdecode(os.fsencode(small) + b"-\xff\"'\n")
    small.rename(where)
    file = tmp_path / "icectl.prom"
    assert icectl("metrics", "-r", where, "--textfile", str(file)).code == 0
    (label,) = {dict(labels)["repository"] for _, labels in samples(file.read_text())}
    assert label == f"{small}-\\udcff\"'\n"


# ── the file ─────────────────────────────────────────────────────────────────────────────


def test_the_file_is_replaced(icectl: Icectl, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "textfiles" / "icectl.prom"
    file.parent.mkdir()
    place = ("-r", str(small), "--textfile", str(file))
    before = os.umask(0o077)
    try:
        done = icectl("metrics", *place)
    finally:
        os.umask(before)
    assert (done.code, done.out) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o644
    number = file.stat().st_ino
    document = icectl("metrics", *place, "--json").document
    assert samples(file.read_text()) == samples_of(document)
    assert file.stat().st_ino != number
    link = tmp_path / "link.prom"
    link.symlink_to(file)
    assert icectl("metrics", "-r", str(small), "--textfile", str(link)).code == 0
    assert link.is_symlink()
    assert [one.name for one in file.parent.iterdir()] == ["icectl.prom"]


def lose_the_repository(where: Path) -> tuple[int, str]:
    for path in where.iterdir():
        path.rename(where.parent / f"lost-{path.name}")
    return 10, "repository_not_found"


def damage_the_repo_file(where: Path) -> tuple[int, str]:
    (where / "repo").write_bytes((where / "repo").read_bytes()[:-20])
    return 13, "damaged"


def lose_a_manifest(where: Path) -> tuple[int, str]:
    next((where / "manifests").iterdir()).unlink()
    return 13, "damaged"


@pytest.mark.parametrize("damage", [lose_the_repository, damage_the_repo_file, lose_a_manifest])
def test_a_failure_leaves_the_file(
    icectl: Icectl, small: Path, tmp_path: Path, damage: Any
) -> None:
    file = tmp_path / "icectl.prom"
    file.write_text("before\n")
    code, kind = damage(small)
    found = icectl("metrics", "--deep", "-r", str(small), "--textfile", str(file), "--json")
    assert (found.code, found.error["kind"], found.out) == (code, kind, "")
    assert file.read_text() == "before\n"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    "words",
    [
        ["--textfile", "{small}/chunks/icectl.prom"],
        ["--textfile", "{small}/repo"],
        ["--textfile", "{small}/.."],
        ["--textfile", "{small}/../absent/icectl.prom"],
        ["--textfile", "-", "--json"],
        ["--garbage-older-than", "7d"],
        ["--deep", "--garbage-older-than", "soon"],
        ["--deep", "--garbage-older-than", "2999-01-01"],
    ],
)
def test_wrong_use(icectl: Icectl, small: Path, words: list[str]) -> None:
    before = (small / "repo").read_bytes()
    found = icectl("metrics", "-r", str(small), *(word.format(small=small) for word in words))
    assert found.code == 2
    assert (small / "repo").read_bytes() == before


def test_a_device_is_written_and_not_replaced(icectl: Icectl, small: Path) -> None:
    assert icectl("metrics", "-r", str(small), "--textfile", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


def test_standard_output_as_a_file(
    icectl: Icectl, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = icectl("metrics", "-r", str(small))
    assert icectl("metrics", "-r", str(small), "--textfile", "-") == printed
    assert not Path("-").exists()


def test_a_branch_without_its_snapshot_is_left_out(icectl: Icectl, tmp_path: Path) -> None:
    where = tmp_path / "v1"
    repo = linear_history(where, 2, 1)
    repo.create_branch("old", [*repo.ancestry(branch="main")][1].id)
    (where / "snapshots" / repo.lookup_branch("old")).unlink()
    document = both(icectl, "-r", str(where))
    assert {one["name"]: one["flushed_at"] is None for one in document["branches"]} == {
        "main": False,
        "old": True,
    }


def test_an_unknown_availability(icectl: Icectl, small: Path) -> None:
    info = decode_repo((small / "repo").read_bytes())
    status = replace(info.status, availability=7)
    (small / "repo").write_bytes(encode_repo(replace(info, status=status)))
    found = samples(icectl("metrics", "-r", str(small)).out)
    states = {
        dict(labels)["availability"]: value
        for (name, labels), value in found.items()
        if name == "icectl_repository_availability"
    }
    assert states == {"online": 0, "read_only": 0, "offline": 0, "unknown": 1}


# ── many repositories, and the dashboard ─────────────────────────────────────────────────


def test_many_repositories_in_one_text(small: Path) -> None:
    measured = measure_metrics(open_repository(LocalStorage(small)))
    run = MaintenanceMetrics(
        exit_code=3,
        last_run_at=1_700_000_000_500_000,
        duration_seconds={"expire": 0.5, "gc": 2.0},
        deleted_objects={"chunks": 4, "manifests": 1},
        deleted_bytes=2**60,
        failed_objects=1,
        findings=(FindingMetrics("ICE0301", "error", 2), FindingMetrics("ICE0601", "info", 1)),
    )
    failed = MaintenanceMetrics(exit_code=14, last_run_at=1_700_000_000_000_000)
    found = samples(
        render_metrics([("a", measured, run), ("b", measured, None), ("c", None, failed)])
    )

    def get(name: str, **labels: str) -> float | None:
        return found.get((f"icectl_{name}", frozenset(labels.items())))

    assert get("snapshots", repository="a") == get("snapshots", repository="b") == 4
    assert get("snapshots", repository="c") is None
    assert get("maintenance_exit_code", repository="a") == 3
    assert get("maintenance_exit_code", repository="b") is None
    assert get("maintenance_last_run_timestamp_seconds", repository="a") == 1_700_000_000.5
    assert get("maintenance_duration_seconds", repository="a", step="gc") == 2
    assert get("maintenance_deleted_objects", repository="a", kind="chunks") == 4
    assert get("maintenance_deleted_bytes", repository="a") == 2**60
    assert get("maintenance_failed_objects", repository="a") == 1
    finding = {"repository": "a", "code": "ICE0301", "severity": "error"}
    assert get("maintenance_findings", **finding) == 2
    only = {dict(labels)["repository"]: name for name, labels in found if "maintenance" in name}
    assert only.keys() == {"a", "c"}
    assert samples(render_metrics([])) == {}


def queries(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (
            text
            for key, text in value.items()
            if key in ("expr", "query") and isinstance(text, str)
        )
        value = [*value.values()]
    if isinstance(value, list):
        for inner in value:
            yield from queries(inner)


def test_the_dashboard_uses_only_these_metrics() -> None:
    path = Path(package.__path__[0]) / "examples" / "grafana-dashboard.json"
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    metrics = {one.name: one for one in (*REPOSITORY, *MAINTENANCE)}
    assert len(metrics) == len(REPOSITORY) + len(MAINTENANCE)
    used = set()
    for panel in dashboard["panels"]:
        texts = [*queries(panel)]
        assert texts, panel["title"]
        for text in texts:
            names = re.findall(r"\bicectl_\w+", text)
            assert names, text
            used.update(names)
            labels = {"repository", *(label for name in names for label in metrics[name].labels)}
            grouped = re.findall(r"by \(([^)]*)\)", text)
            assert {word for part in grouped for word in part.split(", ")} <= labels
        legends = " ".join(target["legendFormat"] for target in panel["targets"])
        assert {*re.findall(r"\{\{(\w+)\}\}", legends)} <= labels
    (variable,) = (one for one in dashboard["templating"]["list"] if one["type"] == "query")
    assert {*re.findall(r"icectl_\w+", variable["query"]["query"])} <= metrics.keys()
    unused = metrics.keys() - used
    assert unused == {
        "icectl_repository_spec_version",
        "icectl_operations",
        "icectl_chunks",
        "icectl_garbage_cutoff_timestamp_seconds",
    }


# ── object storage ───────────────────────────────────────────────────────────────────────


@pytest.mark.server
def test_seaweedfs(
    seaweedfs_server: S3Server, icectl: Icectl, messy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in seaweedfs_server.environment.items():
        monkeypatch.setenv(name, value)
    where = f"s3://{seaweedfs_server.bucket}/metrics-{messy.name}-{messy.parent.name}"
    upload(messy, open_storage(where, {}))

    def call(*words: str) -> Outcome:
        return icectl(*words, **seaweedfs_server.environment)

    document = both(call, "-r", where, "--deep", "--garbage-older-than", "0s")
    assert document["repository"] == where
    assert_equals_other_commands(call, document, "-r", where)
    if document["spec_version"] == 1:
        return
    faults = Faults()
    with fault_proxy(seaweedfs_server.url, faults) as url:
        storage = open_storage(where, {"endpoint_url": url})
        open_repository(storage)  # the client may look for a region or for credentials once
        faults.heads.clear()
        measured = measure_metrics(open_repository(storage))
    assert measured.num_snapshots == document["num_snapshots"]
    assert len(faults.heads) == 2


@pytest.mark.server
def test_an_unreachable_server(icectl: Icectl, tmp_path: Path) -> None:
    file = tmp_path / "icectl.prom"
    file.write_text("before\n")
    words = ("-r", "s3://bucket/x", "--storage-option", "endpoint_url=http://127.0.0.1:9")
    variables = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"}
    found = icectl("metrics", *words, "--textfile", str(file), "--json", **variables)
    assert (found.code, found.error["kind"]) == (14, "storage")
    assert file.read_text() == "before\n"
