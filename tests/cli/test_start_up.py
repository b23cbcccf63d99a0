"""Start-up is a feature: a command imports no library that it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small_repository import write_small_repository
from tests.patience import PATIENCE_SECONDS

HEAVY = {
    "aiobotocore", "aiohttp", "botocore", "fsspec", "gcsfs", "msgpack", "numpy", "pyarrow",
    "pydantic", "pyspark", "s3fs", "yaml",
}  # fmt: skip

PROBE = """
import sys
from icectl.cli.main import run
code = run(sys.argv[1:], {"ICECTL_CONFIG": "/nowhere/config.toml"})
sys.stderr.write("\\n" + " ".join(sys.modules))
sys.exit(code)
"""


def imported_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("line", ["--version", "--help", "remote list", "log", "branch", "ls"])
def test_nothing_heavy_is_imported(line: str, tmp_path: Path) -> None:
    repository = write_small_repository(tmp_path / "repository")
    place = ["-r", str(repository)] if line in ("log", "branch", "ls") else []
    found = {name.split(".")[0] for name in imported_by(*line.split(), *place)}
    assert found & HEAVY == set()


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_help_and_version_import_no_command(argument: str) -> None:
    found = imported_by(argument)
    assert not {name for name in found if name.startswith("icectl.cli.commands.")}


def test_version_names_what_matters_in_a_bug_report() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "icectl.cli.main", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.split(" ")[0] for line in done.stdout.splitlines()]
    assert names[:2] == ["icectl", "python"]
    assert {"typer", "rich", "fsspec", "s3fs", "gcsfs", "zstandard"} <= set(names)
