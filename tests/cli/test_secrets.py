"""Secrets are neither stored nor shown: options, locations of chunks, tracebacks, files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from icectl.cli.engines import SparkPlace
from tests.command_line import Icectl
from tests.official import ic, linear_history, zarr
from tests.official.histories import create

SECRET = "hunter2"
LOCATIONS = (
    f"http://me:{SECRET}@host/a.nc",
    f"s3://AKIA:some/{SECRET}@bucket/a.nc",
    f"https://host/a.nc?X-Amz-Signature={SECRET}&versionId=7",
    f"vcc://files/a.nc?sig={SECRET}",
    f"memory://me:{SECRET}@name/a.nc",
)
PREFIX = f"http://me:{SECRET}@covered/"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("secrets") / "repo"
    container = ic.VirtualChunkContainer(PREFIX, ic.http_store(), "covered")
    repo = create(where, virtual_chunk_containers={PREFIX: container})
    session = repo.writable_session("main")
    locations = [*LOCATIONS, f"{PREFIX}a.nc", "vcc://covered/b.nc"]
    zarr.open_group(session.store, mode="a").create_array(
        "v", shape=(4 * len(locations),), chunks=(4,), dtype="u1", compressors=None
    )
    refs = [ic.VirtualChunkSpec([i], one, 0, 4) for i, one in enumerate(locations)]
    session.store.set_virtual_refs("v", refs, validate_containers=False)
    session.commit("virtual")
    return where


def test_locations_of_chunks(icectl: Icectl, repository: Path, tmp_path: Path) -> None:
    manifest = next((repository / "manifests").iterdir())
    allowed = [word for one in (*LOCATIONS, PREFIX) for word in ("--allow-source", one)]
    reports = {name: tmp_path / name for name in ("junit", "sarif", "write-baseline")}
    files = [word for name, path in reports.items() for word in (f"--{name}", str(path))]
    commands: list[tuple[list[str], int]] = [
        (["validate", "--virtual", *files], 0),
        (["validate", "--virtual", "--fail-on", "warning", *allowed, *files], 3),
        (["validate", "--virtual", "--baseline", str(reports["write-baseline"]), *allowed], 0),
        (["stats"], 0),
        (["inspect-file", manifest.name, "--refs"], 0),
        (["inspect-file", "repo"], 0),
        (["config", "get"], 0),
        (["config", "get", "virtual_chunk_containers"], 0),
    ]
    for words, code in commands:
        for form in ([], ["--json"]):
            done = icectl(*words, "-r", str(repository), *form)
            assert done.code == code, (words, done)
            assert SECRET not in done.out + done.err, words
            shown = [*(path.read_text() for path in reports.values()), done.out]
            assert SECRET not in "".join(shown)
    references = icectl("inspect-file", str(manifest), "--refs", "--json").document
    assert [one["location"] for one in references["content"]["chunk_refs"]] == [
        "http://(hidden)@host/a.nc",
        "s3://(hidden)@bucket/a.nc",
        "https://host/a.nc?X-Amz-Signature=(hidden)&versionId=7",
        "vcc://files/a.nc?sig=(hidden)",
        "memory://(hidden)@name/a.nc",
        "http://(hidden)@covered/a.nc",
        "vcc://covered/b.nc",
    ]


def test_a_baseline_excuses_what_was_redacted(
    icectl: Icectl, repository: Path, tmp_path: Path
) -> None:
    words = ("validate", "--virtual", "--fail-on", "warning", "-r", str(repository), "--json")
    baseline = str(tmp_path / "baseline")
    assert icectl(*words, "--write-baseline", baseline).code == 3
    done = icectl(*words, "--baseline", baseline)
    assert done.code == 0 and done.document["known"] > 0


def test_exported_tables_are_as_they_are(icectl: Icectl, repository: Path, tmp_path: Path) -> None:
    """They are data, which somebody may want to make references of again."""
    pytest.importorskip("pyarrow")
    words = ("export", "chunk_refs", "--to", str(tmp_path / "out"), "--format", "jsonl")
    assert icectl(*words, "-r", str(repository)).code == 0
    text = "".join(one.read_text() for one in (tmp_path / "out").rglob("*.jsonl"))
    assert all(location in text.replace("\\/", "/") for location in LOCATIONS)


@pytest.mark.parametrize(
    "endpoint",
    [
        f"https://host/?X-Amz-Signature={SECRET}",
        f"https://host?sig={SECRET}",
        f"https://host/#{SECRET}",
        f"http://me:{SECRET}@host",
        f"ftp://host/?sig={SECRET}",
    ],
)
@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_secret_in_an_endpoint(
    icectl: Icectl, environ: dict[str, str], endpoint: str, scheme: str
) -> None:
    option = ("--storage-option", f"endpoint_url={endpoint}")
    for words in (["remote", "add", "x", f"{scheme}://b/x"], ["log", "-r", f"{scheme}://b/x"]):
        for form in ([], ["--json"]):
            done = icectl(*words, *option, *form)
            assert done.code == 2
            assert SECRET not in done.out + done.err
    config = Path(environ["ICECTL_CONFIG"])
    assert not config.exists()
    if scheme == "s3":
        done = icectl("log", "-r", "s3://b/x", AWS_ENDPOINT_URL=endpoint)
        assert done.code == 2 and SECRET not in done.err
    # Written by hand, it is neither used nor shown.
    config.parent.mkdir()
    config.write_text(
        f'[repositories.x]\nlocation = "{scheme}://b/x"\n'
        f'[repositories.x.storage_options]\nendpoint_url = "{endpoint}"\n'
    )
    assert icectl("log", "-r", "x").code == 2
    for words in (["log", "-r", "x"], ["remote", "show", "x"], ["remote", "list", "--json"]):
        done = icectl(*words)
        assert SECRET not in done.out + done.err


@pytest.mark.parametrize(
    "setting",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.authenticate.secret",
        "spark.ssl.keyPassword",
        "spark.driver.extraJavaOptions=-Xmx1g -Djavax.net.ssl.trustStorePassword",
        "spark.hadoop.fs.s3a.endpoint=http://me:x@host#",
    ],
)
def test_a_secret_for_spark(icectl: Icectl, repository: Path, setting: str, tmp_path: Path) -> None:
    conf = ("--spark-conf", f"{setting}={SECRET}", "-r", str(repository))
    for words in (
        ["stats", "--engine", "spark"],
        ["sql", "select 1"],
        ["export", "refs", "--engine", "spark", "--to", str(tmp_path / "out")],
    ):
        done = icectl(*words, *conf, "--json")
        assert (done.code, done.error["kind"]) == (2, "usage")
        assert SECRET not in done.err and "SPARK_CONF_DIR" in done.error["hint"]


@pytest.mark.parametrize(
    "setting",
    [
        "spark.executor.memory=4g",
        "spark.authenticate.secret.file=/run/secret",
        "spark.authenticate.secretBitLength=256",
        "spark.kubernetes.executor.secrets.aws=/mnt/aws",
        "spark.kubernetes.executor.secretKeyRef.AWS_SECRET_ACCESS_KEY=aws:key",
        "spark.kubernetes.authenticate.submission.oauthTokenFile=/run/token",
        "spark.hadoop.fs.s3a.aws.credentials.provider=org.example.Provider",
        "spark.driver.extraJavaOptions=-Dlog4j.level=info",
        "spark.sql.shuffle.partitions=8",
    ],
)
def test_a_setting_of_spark_that_is_no_secret(setting: str) -> None:
    key, _, value = setting.partition("=")
    assert SparkPlace(spark_conf=[setting]).parse().conf == {key: value}


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("name", ["plan.jsonl", "plan.parquet"])
def test_plans_are_for_their_owner(
    icectl: Icectl, usual_umask: None, tmp_path: Path, name: str
) -> None:
    linear_history(tmp_path / "repo", 3)
    plan = tmp_path / name
    words = ("gc", "--older-than", "7d", "--dry-run", "--plan", str(plan))
    assert icectl(*words, "-r", str(tmp_path / "repo")).code == 0
    assert stat.S_IMODE(plan.stat().st_mode) == 0o600
    plan.chmod(0o640)
    assert icectl(*words, "-r", str(tmp_path / "repo")).code == 0
    assert stat.S_IMODE(plan.stat().st_mode) == 0o640
    assert icectl("gc", "--apply", str(plan), "--yes", "-r", str(tmp_path / "repo")).code == 0


def test_reports_are_for_their_owner(
    icectl: Icectl, usual_umask: None, repository: Path, tmp_path: Path
) -> None:
    for option in ("--junit", "--sarif", "--write-baseline", "--known-missing"):
        report = tmp_path / option
        assert icectl("validate", "-r", str(repository), option, str(report)).code == 0
        assert stat.S_IMODE(report.stat().st_mode) == 0o600
