"""`icectl doctor` on a sound machine, and on machines where something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from icectl.cli.main import run
from icectl.ops import doctor
from icectl.ops.doctor import Check, check_credentials, check_java, check_library, check_storage
from icectl.storage.memory import MemoryStorage
from tests.docs.conftest import Icectl
from tests.docs.demo_repository import environment
from tests.servers.s3 import SECRET_KEY, S3Server


def checks(text: str) -> dict[str, Any]:
    return {check["name"]: check for check in json.loads(text)["checks"]}


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Icectl:
    """icectl in this process: one of its own would load every library again."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code = run(list(words), {**environment(tmp_path), **variables})
        written = capsys.readouterr()
        return subprocess.CompletedProcess(words, code, written.out, written.err)

    return call


def test_a_sound_machine(icectl: Icectl, demo: Path) -> None:
    done = icectl("doctor", "--json", "-r", str(demo))
    assert done.returncode == 0, done.stdout
    found = checks(done.stdout)
    assert json.loads(done.stdout)["ok"] is True
    for name in ("python", "numpy", "s3fs", "gcsfs", "storage", "repository", "clock"):
        assert found[name]["state"] == "ok", found[name]
    assert found["repository"]["detail"] == "v2, spec version 2, branches: 2, tags: 1"
    assert "official client" in found["conditional writes"]["hint"]


def test_text_is_for_people(here: Icectl, demo: Path) -> None:
    done = here("doctor", "-r", str(demo), "--read-only")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "ok      storage " in done.stdout
    assert "absent  conditional writes  not checked" in done.stdout
    assert done.stdout.endswith("All checks passed.\n")


def test_without_a_repository_the_storage_is_left_out(here: Icectl) -> None:
    done = here("doctor", "--json")
    assert done.returncode == 0
    found = checks(done.stdout)
    assert found["storage"]["state"] == "absent"
    assert "clock" not in found


def test_nothing_there_yet_is_a_warning(here: Icectl, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = here("doctor", "--json", "-r", "empty")
    assert done.returncode == 0
    assert checks(done.stdout)["repository"] == {
        "name": "repository",
        "state": "warning",
        "detail": "the location is empty",
        "hint": "create one with icectl init",
    }


def test_a_damaged_repository_fails(here: Icectl, demo: Path) -> None:
    (demo / "repo").write_bytes(b"nonsense")
    done = here("doctor", "--json", "-r", str(demo))
    assert done.returncode == 1
    assert checks(done.stdout)["repository"]["state"] == "failed"


def test_wrong_names_and_files_are_reported_as_checks(here: Icectl, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[repositories")
    done = here("doctor", "--json", "-r", "ftp://x", ICECTL_CONFIG=str(tmp_path / "config.toml"))
    assert done.returncode == 1
    found = checks(done.stdout)
    assert found["config file"]["state"] == "failed"
    assert found["storage"]["state"] == "failed"
    assert "ftp:// is not a supported storage" in found["storage"]["detail"]


def test_a_server_that_is_not_there_fails(here: Icectl) -> None:
    done = here(
        "doctor", "--json", "-r", "s3://bucket/x",
        "--storage-option", "endpoint_url=http://127.0.0.1:1",
        AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_REGION="us-east-1",
    )  # fmt: skip
    assert done.returncode == 1
    assert checks(done.stdout)["storage"]["state"] == "failed"


@pytest.mark.server
def test_an_honest_server(here: Icectl, seaweedfs_server: S3Server) -> None:
    location = f"s3://{seaweedfs_server.bucket}/{uuid4().hex}"
    done = here("doctor", "--json", "-r", location, **seaweedfs_server.environment)
    assert done.returncode == 0, done.stdout
    found = checks(done.stdout)
    assert found["conditional writes"]["detail"] == "honoured"
    assert found["clock"]["state"] == "ok"
    assert found["aws credentials"]["detail"] == "$AWS_ACCESS_KEY_ID, $AWS_SECRET_ACCESS_KEY"
    assert SECRET_KEY not in done.stdout + done.stderr


@pytest.mark.server
def test_credentials_that_may_only_read(here: Icectl, seaweedfs_server: S3Server) -> None:
    location = f"s3://{seaweedfs_server.bucket}/{uuid4().hex}"
    done = here("doctor", "--json", "-r", location, **seaweedfs_server.reader_environment)
    assert done.returncode == 0, done.stdout
    assert checks(done.stdout)["conditional writes"]["state"] == "warning"


@pytest.mark.server
def test_a_server_that_ignores_conditions_fails(here: Icectl, rclone_server: S3Server) -> None:
    location = f"s3://{rclone_server.bucket}/{uuid4().hex}"
    done = here("doctor", "--json", "-r", location, **rclone_server.environment)
    assert done.returncode == 1, done.stdout
    assert checks(done.stdout)["conditional writes"]["state"] == "failed"


class SkewedStorage(MemoryStorage):
    def __init__(self, seconds: float) -> None:
        super().__init__(uuid4().hex)
        self.skew = round(seconds * 1e6)

    def read_clock(self) -> int:
        return super().read_clock() + self.skew


@pytest.mark.parametrize(
    ("seconds", "state", "detail"),
    [
        (0.2, "ok", "0.2 s ahead"),
        (-90, "warning", "90.0 s behind"),
        (1200, "failed", "1200.0 s ahead"),
    ],
)
def test_the_clock_is_compared(seconds: float, state: str, detail: str) -> None:
    found = {check.name: check for check in check_storage(SkewedStorage(seconds), may_write=True)}
    assert found["clock"].state == state
    assert found["clock"].detail == f"the storage is {detail}"


def test_libraries_that_are_missing_or_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "brokenlib-1.5.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: brokenlib\nVersion: 1.5\n")
    (tmp_path / "brokenlib.py").write_text("raise OSError('libz is not there')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert check_library("brokenlib") == Check(
        "brokenlib",
        "failed",
        "1.5 cannot be imported: OSError: libz is not there",
        "pip install --force-reinstall brokenlib",
    )
    assert check_library("no_such_library").state == "failed"


def java(directory: Path, version: str) -> dict[str, str]:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory), "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("version", "state", "major"),
    [("17.0.2", "ok", "17"), ("1.8.0_392", "warning", "8"), ("21", "ok", "21")],
)
def test_versions_of_java(tmp_path: Path, version: str, state: str, major: str) -> None:
    found = check_java(java(tmp_path, version))
    assert (found.state, found.detail.split(" at ")[0]) == (state, f"version {major}")


def test_missing_java_is_not_a_failure(tmp_path: Path) -> None:
    assert check_java({"PATH": str(tmp_path)}).state == "absent"
    (tmp_path / "java").write_text("not a program")
    (tmp_path / "java").chmod(0o755)
    assert check_java({"PATH": str(tmp_path)}).state == "warning"


def test_java_home_that_has_no_java(here: Icectl) -> None:
    """Spark uses it if it is set, even if PATH has a Java."""
    done = here("doctor", "--json", JAVA_HOME="/nope")
    assert done.returncode == 0
    found = checks(done.stdout)
    sentence = "JAVA_HOME is /nope, which has no bin/java"
    assert (found["java"]["state"], found["java"]["detail"]) == ("warning", sentence)
    assert (found["spark"]["state"], found["spark"]["detail"]) == ("absent", sentence)


def test_credentials_by_name_only(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_secret_access_key = hunter2\n")
    key = tmp_path / "key.json"
    key.write_text('{"private_key": "hunter2"}')
    environ = {"AWS_SESSION_TOKEN": "hunter2", "GOOGLE_APPLICATION_CREDENTIALS": str(key)}
    aws, google, azure = check_credentials(environ, tmp_path)
    assert aws.detail == f"$AWS_SESSION_TOKEN, {tmp_path}/.aws/credentials"
    assert google.detail == "$GOOGLE_APPLICATION_CREDENTIALS"
    assert "hunter2" not in str((aws, google, azure))


def test_credentials_that_point_nowhere(tmp_path: Path) -> None:
    environ = {"AWS_CONFIG_FILE": "/nowhere/x", "GOOGLE_APPLICATION_CREDENTIALS": "/nowhere/y"}
    aws, google, azure = check_credentials(environ, tmp_path)
    assert (aws.state, google.state) == ("warning", "warning")
    assert "/nowhere/x" in aws.detail
    assert "/nowhere/y" in google.detail
    aws, google, azure = check_credentials({}, tmp_path)
    assert (aws.state, google.state, azure.state) == ("absent", "absent", "absent")
    *_, azure = check_credentials({"AZURE_STORAGE_SAS_TOKEN": "hunter2"}, tmp_path)
    assert azure.detail == "$AZURE_STORAGE_SAS_TOKEN"


def test_required_libraries_are_those_of_the_package() -> None:
    """A new dependency of the package is checked as well."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    names = {dependency.partition(">")[0] for dependency in project["dependencies"]}
    looked_at = {doctor.DISTRIBUTIONS.get(name, name) for name in doctor.REQUIRED}
    assert names - {"rich"} <= looked_at
