"""Start-up is a feature: what a command line imports is what it uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small_repository import write_small_repository

HEAVY = {
    "aiobotocore", "aiohttp", "botocore", "fsspec", "gcsfs", "msgpack", "numpy", "pyarrow",
    "pydantic", "pyspark", "rich", "s3fs", "typer", "yaml", "zstandard",
}  # fmt: skip

PROBE = """
import sys
from icectl.cli.main import run
code = run(sys.argv[1:], {"ICECTL_CONFIG": "/nowhere/config.toml"})
sys.stderr.write("\\n" + " ".join(sorted({name.split(".")[0] for name in sys.modules})))
sys.exit(code)
"""


def imported_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["remote", "--help"],
        ["remote", "list"],
        ["__complete", "remotes"],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(arguments: list[str]) -> None:
    assert imported_by(*arguments) & HEAVY == set()


@pytest.mark.parametrize(
    ("line", "libraries"),
    [
        ("--help", set()),
        ("log", {"zstandard"}),
        ("log --graph --all --oneline", {"zstandard"}),
        ("branch list", {"zstandard"}),
        ("ls --tree", {"zstandard"}),
        ("ops-log", {"zstandard"}),
        ("expire --keep-last 2 --dry-run", {"zstandard"}),
    ],
)
def test_libraries_that_are_imported(line: str, libraries: set[str], tmp_path: Path) -> None:
    """Exactly these, beside the standard library and icectl itself."""
    repository = write_small_repository(tmp_path / "repository")
    words = line.split() if line.startswith("--") else [*line.split(), "-r", str(repository)]
    found = imported_by(*words) - sys.stdlib_module_names
    assert found - {"__main__", "icectl"} == libraries


def test_version_and_help_import_no_command() -> None:
    for arguments in (["--version"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "icectl.cli.main", *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert "icectl.cli.tree" in done.stderr
        assert "icectl.cli.commands" not in done.stderr


def test_help_of_a_command_is_typers_without_rich() -> None:
    found = imported_by("remote", "add", "--help")
    assert "typer" in found
    assert found & {"rich", "numpy", "fsspec", "s3fs", "gcsfs"} == set()


def test_version_names_what_matters_in_a_bug_report() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "icectl.cli.main", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.split(" ")[0] for line in done.stdout.splitlines()]
    assert names[:2] == ["icectl", "python"]
    assert {"numpy", "fsspec", "s3fs", "gcsfs", "zstandard"} <= set(names)
