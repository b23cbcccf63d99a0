"""The examples that ship with the package, run as far as possible without a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import icectl
from tests.docs.demo_repository import environment
from tests.patience import PATIENCE_SECONDS

EXAMPLES = Path(icectl.__path__[0]) / "examples"


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.fixture
def environ(tmp_path: Path, demo: Path) -> dict[str, str]:
    """The config file of the examples, with the demo repository in place of the bucket."""
    text = (EXAMPLES / "config.toml").read_text()
    text, count = re.subn(r'location = ".*"', f'location = "{demo}"', text)
    assert count == 1
    text, count = re.subn(r"\[repositories\.weather\.storage_options\]\n.*\n", "", text)
    assert count == 1
    # The demo has a larger share of garbage than a real repository.
    assert text.count('"20%"') == 1
    (tmp_path / "config.toml").write_text(text.replace('"20%"', '"40%"'))
    return {**environment(tmp_path), "ICECTL_CONFIG": str(tmp_path / "config.toml")}


def run(command: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environ,
        cwd=environ["HOME"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def damage(repository: Path) -> None:
    """Lose the largest manifest of the newest versions."""
    max((repository / "manifests").iterdir(), key=lambda path: path.stat().st_size).unlink()


# ── config file ──────────────────────────────────────────────────────────────────────────


def test_the_config_file_as_it_is(environ: dict[str, str]) -> None:
    done = run(
        ["icectl", "remote", "show", "weather", "--json"],
        {**environ, "ICECTL_CONFIG": str(EXAMPLES / "config.toml")},
    )
    assert json.loads(done.stdout) == {
        "name": "weather",
        "location": "s3://my-bucket/weather",
        "storage_options": {"region": "eu-central-1"},
    }


# ── cron ─────────────────────────────────────────────────────────────────────────────────


def cron_jobs() -> tuple[dict[str, str], list[str]]:
    """Variables and commands as cron understands the file, see crontab(5)."""
    variables, jobs = {}, []
    for line in (EXAMPLES / "crontab").read_text().splitlines():
        if assignment := re.fullmatch(r"([A-Z]+)=(.*)", line):
            variables[assignment[1]] = assignment[2]
        elif line and not line.startswith("#"):
            *when, command = line.split(maxsplit=5)
            assert all(re.fullmatch(r"[\d*/,-]+", field) for field in when), line
            assert not re.search(r"(?<!\\)%", command), "cron makes a new line of a bare %"
            jobs.append(command.replace("\\%", "%"))
    return variables, jobs


def test_the_jobs_of_the_crontab_run_and_say_little(environ: dict[str, str], demo: Path) -> None:
    variables, (nightly, weekly) = cron_jobs()
    assert variables.keys() == {"MAILTO", "PATH"}
    before = len(list((demo / "chunks").iterdir()))
    done = run(["sh", "-c", nightly], environ)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("weather: done: ")
    assert len(done.stdout.splitlines()) == 1
    assert "\x1b" not in done.stdout
    assert len(list((demo / "chunks").iterdir())) < before

    done = run(["sh", "-c", weekly], environ)
    assert done.returncode == 0, done.stderr
    assert "Sound" in done.stdout


def test_a_guard_of_the_crontab_speaks_up(environ: dict[str, str], demo: Path) -> None:
    _, (nightly, weekly) = cron_jobs()
    config = Path(environ["ICECTL_CONFIG"])
    config.write_text(config.read_text().replace('"40%"', '"1%"'))
    done = run(["sh", "-c", nightly], environ)
    assert done.returncode == 16
    assert "the limit allows 1%" in done.stdout
    assert "icectl gc --older-than 7d --dry-run -r weather" in done.stdout
    damage(demo)
    assert run(["sh", "-c", weekly], environ).returncode == 3


def test_a_mail_about_failures_alone(environ: dict[str, str], demo: Path) -> None:
    _, (nightly, _) = cron_jobs()
    comment = (EXAMPLES / "crontab").read_text()
    assert 'report=$(icectl maintain ...) || echo "$report"' in comment
    command = f'report=$({nightly}) || echo "$report"'
    assert run(["sh", "-c", command], environ).stdout == ""
    damage(demo)
    assert "weather: not done" in run(["sh", "-c", command], environ).stdout


# ── systemd ──────────────────────────────────────────────────────────────────────────────


def exec_starts(unit: str, instance: str = "") -> list[str]:
    lines = re.findall(r"^ExecStart=(.*)$", (EXAMPLES / unit).read_text(), re.MULTILINE)
    return [line.replace("%i", instance).replace("%%", "%") for line in lines]


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    analyze = need("systemd-analyze")
    for unit in EXAMPLES.glob("icectl-*.*"):
        shutil.copy(unit, tmp_path)
    units = ["icectl-maintenance.timer", "icectl-maintenance.service", "icectl-mail@x.service"]  # fmt: skip
    done = subprocess.run(
        [analyze, "verify", "--man=no", *(str(tmp_path / unit) for unit in units)],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "icectl-" in line]
    assert complaints == []


def test_what_the_service_starts_works(environ: dict[str, str], tmp_path: Path) -> None:
    (line,) = exec_starts("icectl-maintenance.service")
    state = tmp_path / "lib"
    done = run(line.split(), {**environ, "XDG_STATE_HOME": str(state)})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list((state / "icectl").iterdir())


def test_the_mail_names_the_unit(environ: dict[str, str], tmp_path: Path) -> None:
    """With stand-ins for journalctl and mail, which would need a running system."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in (("journalctl", 'echo "journal of $2"'), ("mail", 'echo "$@"; cat')):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (line,) = exec_starts("icectl-mail@.service", "icectl-maintenance.service")
    path = f"{programs}:{environ['PATH']}"
    done = run(["sh", "-c", line], {**environ, "PATH": path, "MAILTO": "root"})
    assert done.returncode == 0, done.stderr
    assert "-s icectl-maintenance.service failed on " in done.stdout
    assert "journal of icectl-maintenance.service" in done.stdout


# ── CI ───────────────────────────────────────────────────────────────────────────────────


def workflow() -> Any:
    return yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())


def test_the_workflow_is_one_that_github_knows() -> None:
    document = workflow()
    assert set(document) == {"name", True, "permissions", "jobs"}, "YAML reads `on` as true"
    assert set(document[True]) == {"schedule", "workflow_dispatch"}
    (job,) = document["jobs"].values()
    assert job["runs-on"] == "ubuntu-latest"
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert "@" in step.get("uses", "@")


def test_the_steps_of_the_workflow_run(environ: dict[str, str], demo: Path) -> None:
    (job,) = workflow()["jobs"].values()
    lines = [step["run"] for step in job["steps"] if "run" in step]
    installed = [line for line in lines if "pip install" in line]
    assert len(installed) == 1
    environ = {**environ, **job["env"], "ICECTL_REPO": str(demo)}
    for line in lines:
        if line not in installed:
            done = run(["bash", "-e", "-c", line], environ)
            assert done.returncode == 0, done.stdout + done.stderr

    damage(demo)
    done = run(["bash", "-e", "-c", lines[-1]], environ)
    assert done.returncode == 3
    assert re.search(r"^::error title=ICE0301 .*::manifests/", done.stdout, re.MULTILINE)
    report = ElementTree.parse(Path(environ["HOME"]) / "validate.xml").getroot()
    assert list(report.iter("failure"))


@pytest.mark.parametrize("github", [True, False])
def test_the_step_for_any_ci(github: bool, environ: dict[str, str], demo: Path) -> None:
    variables = {**environ, "REPO": "weather"} | ({"GITHUB_ACTIONS": "true"} if github else {})
    script = str(EXAMPLES / "ci-validate.sh")
    assert run([script], variables).returncode == 0
    damage(demo)
    done = run([script], variables)
    assert done.returncode == 3
    assert ("::error title=" in done.stdout) == github
    assert (Path(environ["HOME"]) / "icectl-validate.xml").exists()


@pytest.mark.parametrize("name", ["ci-validate.sh", "nightly-spark.sh"])
def test_scripts_say_what_is_missing(name: str, environ: dict[str, str]) -> None:
    done = run([str(EXAMPLES / name)], environ)
    assert done.returncode != 0
    assert "REPO: the repository" in done.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_the_night_on_spark(environ: dict[str, str], demo: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    need("java")
    text = (EXAMPLES / "nightly-spark.sh").read_text()
    script = tmp_path / "nightly.sh"
    script.write_text(text.replace("20%", "40%"))
    before = len(list((demo / "chunks").iterdir()))
    variables = {"REPO": "weather", "TABLES": str(tmp_path / "tables"), "SPARK_MASTER": "local[2]", "SPARK_LOCAL_IP": "127.0.0.1"}  # fmt: skip
    done = run(["sh", str(script)], {**environ, **variables})
    assert done.returncode == 0, done.stderr
    assert len(list((demo / "chunks").iterdir())) < before
    assert list((tmp_path / "tables").glob("*/chunk_refs/*.parquet"))
