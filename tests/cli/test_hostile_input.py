"""Locations, names and values that no storage can have: a proper exit code, never 70."""

from __future__ import annotations

from pathlib import Path

import pytest

from icectl.cli.main import run
from tests.cli.small_repository import write_small_repository
from tests.command_line import Icectl, Outcome

HUGE_HEX = "0x" + "f" * 20_000
NOT_UTF8 = "\udcff"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return write_small_repository(tmp_path / "repository")


def check(outcome: Outcome, *codes: int) -> None:
    assert outcome.code in codes, (outcome.code, outcome.err)


@pytest.mark.parametrize(
    "location",
    [
        "s3://[x", "s3://[", "gs://[x/y", "S3://[", "s3://a b/x", "s3://b\n/x", "gs://b?x/y", "gs://b#x",
        "s3://é/x", "gs://", "s3://", "s3:///x", "file://host/x", "file://[x", "file:///%00", "s3://b/\0",
        "gs://b/\0", f"s3://b/{NOT_UTF8}", f"s3://{NOT_UTF8}/x", f"gs://b/{NOT_UTF8}", f"gs://{NOT_UTF8}/x",
        f"memory://{NOT_UTF8}", "\0", "\ud800", "http://[",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "call", [("log", "-r"), ("init",), ("remote", "add", "name"), ("validate", "-r")]
)
def test_a_location_that_nothing_can_have(
    icectl: Icectl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: tuple[str, ...],
    location: str,
) -> None:
    """Refused before anything is contacted."""
    monkeypatch.chdir(tmp_path)
    check(icectl(*call, location), 2)


@pytest.mark.parametrize("name", [NOT_UTF8, f"a{NOT_UTF8}b/c", "%ff"])
def test_a_directory_whose_name_is_not_utf8(
    icectl: Icectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A repository can live there; only the config file cannot name it."""
    monkeypatch.chdir(tmp_path)
    location = f"file://{tmp_path}/{name}" if "%" in name else name
    check(icectl("init", location), 0)
    assert any(NOT_UTF8 in path.name for path in tmp_path.iterdir())
    check(icectl("log", "-r", location), 0)
    check(icectl("validate", "-r", location), 0)
    if "%" not in name:
        check(icectl("remote", "add", "name", location), 2)
    for form in ("parquet", "csv", "jsonl"):
        target = f"{location}-{form}"
        check(icectl("export", "refs", "--to", target, "--format", form, "-r", location), 0)


@pytest.mark.parametrize("target", ["s3:x", "x" * 5000])
def test_a_target_of_export_that_looks_like_something_else(
    icectl: Icectl, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    check(
        icectl("export", "refs", "--to", target, "-r", str(repository)),
        0 if len(target) < 99 else 2,
    )


CALLS = (
    "log", "ls", "branch list", "tag list", "ops-log", "validate", "validate --level data", "stats",
    "gc --older-than 7d --overwritten-older-than 90d --dry-run", "expire --keep-last 2 --dry-run",
    "export objects --to out-objects", "export refs --to out-refs", "doctor", "config get",
    "metrics --deep",
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_files_whose_names_are_not_utf8(
    icectl: Icectl, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for directory in ("", "snapshots", "chunks", "manifests", "transactions", "overwritten"):
        inside = repository / directory
        inside.mkdir(exist_ok=True)
        for name in (NOT_UTF8, "A" * 19 + NOT_UTF8, f"repo.{NOT_UTF8}"):
            (inside / name).write_bytes(b"x")
    check(icectl(*call.split(), "-r", str(repository)), 0, 3, 13)


@pytest.mark.parametrize("call", ["log", "show", "ls", "branch delete", "tag delete", "diff", "inspect-file"])  # fmt: skip
@pytest.mark.parametrize("name", [NOT_UTF8, f"branch:{NOT_UTF8}", "main~" + "9" * 5000, "main~²", "main~٣"])  # fmt: skip
def test_a_ref_that_cannot_exist(icectl: Icectl, repository: Path, call: str, name: str) -> None:
    check(icectl(*call.split(), name, "-r", str(repository)), 2, 12, 14)


@pytest.mark.parametrize("value", ["9" * 5000 + "d", "9" * 5000, "٣d", "²d", "½d", "1e400d", NOT_UTF8, "0000-01-01", "99999999999999999999w"])  # fmt: skip
@pytest.mark.parametrize(
    "call", ["log --since", "log --until", "gc --dry-run --older-than", "expire --dry-run --older-than", "log -n"]
)  # fmt: skip
def test_a_time_that_is_none(icectl: Icectl, repository: Path, call: str, value: str) -> None:
    check(icectl(*call.split(), value, "-r", str(repository)), 2)


@pytest.mark.parametrize(
    "option",
    [
        "endpoint_url=http://[", "endpoint_url=http://[::1", "endpoint_url=http://h:x",
        "endpoint_url=http://h:99999999", f"endpoint_url={NOT_UTF8}",
        "endpoint_url=", "anonymous=x", f"{NOT_UTF8}=1", "=", "x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("location", ["s3://b/x", "gs://b/x"])
def test_a_storage_option_with_a_bad_value(icectl: Icectl, location: str, option: str) -> None:
    check(icectl("log", "-r", location, "--storage-option", option), 2)


@pytest.mark.parametrize("number", [HUGE_HEX, "0xfffffffffffffffff", "9" * 5000])
@pytest.mark.parametrize(
    "call", ["config get", "log", "validate", "inspect-file config.yaml", "stats"]
)
def test_a_huge_integer_in_config_yaml(
    tmp_path: Path, icectl: Icectl, call: str, number: str
) -> None:
    directory = tmp_path / "repository"
    check(icectl("init", str(directory), "--spec-version", "1"), 0)
    (directory / "config.yaml").write_text(f"inline_chunk_threshold_bytes: {number}\n")
    outcome = icectl(*call.split(), "--json", "-r", str(directory))
    check(outcome, *((3, 13) if call == "validate" else (13,) if "config" in call else (0, 13)))


@pytest.mark.parametrize(
    "text",
    [
        f"x = {HUGE_HEX}",
        "x = " + "[" * 20_000,
        f"[repositories.x]\nlocation = '/x'\n[repositories.x.storage_options]\nregion = {HUGE_HEX}",
        f"[repositories.x]\nlocation = '/x'\n[repositories.x.policies.p]\nkeep_last = {HUGE_HEX}",
        '[repositories.x]\nlocation = "/a\\u0000b"',
    ],
)
@pytest.mark.parametrize("call", ["log", "expire --policy p --dry-run"])
def test_a_config_file_with_such_values(
    environ: dict[str, str], icectl: Icectl, call: str, text: str
) -> None:
    path = Path(environ["ICECTL_CONFIG"])
    path.parent.mkdir()
    path.write_text(text)
    check(icectl(*call.split(), "-r", "x"), 2)


@pytest.mark.parametrize("value", ["9" * 5000, "1e999", "[" * 100_000, '"\\ud800"', NOT_UTF8])
@pytest.mark.parametrize("call", ["metadata set key", "config set inline_chunk_threshold_bytes"])
def test_a_huge_value(icectl: Icectl, repository: Path, call: str, value: str) -> None:
    outcome = icectl(*call.split(), value, "-r", str(repository))
    # Whatever is not JSON is a text, which metadata may hold.
    check(outcome, 0, 2) if call.startswith("metadata") else check(outcome, 2)


def test_run_itself_takes_any_word(environ: dict[str, str]) -> None:
    assert run([NOT_UTF8], environ) == 2
