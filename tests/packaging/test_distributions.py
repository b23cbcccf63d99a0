"""The wheel and the source distribution are complete, with each file in its place."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from icectl import __version__
from tests.patience import PATIENCE_SECONDS

PROJECT = Path(__file__).parents[2]
COMPLETIONS = {
    "share/bash-completion/completions/icectl": "icectl.bash",
    "share/zsh/site-functions/_icectl": "_icectl",
    "share/fish/vendor_completions.d/icectl.fish": "icectl.fish",
}

pytest.importorskip("build")
pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), PROJECT],
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    (wheel,) = directory.glob("*.whl")
    (source,) = directory.glob("*.tar.gz")
    return source, wheel


def test_the_wheel_holds_the_package_and_what_belongs_to_it(
    distributions: tuple[Path, Path],
) -> None:
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = set(wheel.namelist())
        data = f"icectl-{__version__}.data/data/"
        for path in (PROJECT / "icectl").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to(PROJECT)) in names
        pages = {name.removeprefix(f"{data}share/") for name in names if "/share/man/" in name}
        assert pages == {
            str(path.relative_to(PROJECT)) for path in (PROJECT / "man").glob("man*/*")
        }
        for place, name in COMPLETIONS.items():
            assert wheel.read(data + place) == (PROJECT / "completions" / name).read_bytes()
        assert {name.partition("/")[0] for name in names} == {
            "icectl",
            f"icectl-{__version__}.data",
            f"icectl-{__version__}.dist-info",
        }
        entry_points = wheel.read(f"icectl-{__version__}.dist-info/entry_points.txt").decode()
    assert "icectl = icectl.cli.main:main" in entry_points


def test_the_wheel_is_for_every_machine(distributions: tuple[Path, Path]) -> None:
    assert distributions[1].name == f"icectl-{__version__}-py3-none-any.whl"


def test_the_source_can_be_tested_and_rebuilt(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[0]) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    for name in (
        "pyproject.toml",
        "README.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "CHANGELOG.md",
        "Makefile",
    ):
        assert name in names
    for name in ("fbs", "man", "completions", "tests/cli", "icectl/examples", ".github"):
        assert any(found.startswith(f"{name}/") for found in names), name
    assert not any(part in name for name in names for part in ("__pycache__", ".venv", ".bench"))


@pytest.mark.slow
def test_an_installed_wheel_works(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    """In a fresh environment that borrows the dependencies of the one that runs the tests."""
    prefix = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
    python = prefix / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, distributions[1]], check=True)
    for place in (*COMPLETIONS, "share/man/man1/icectl-gc.1", "share/man/man7/icectl-rules.7"):
        assert (prefix / place).is_file()

    environ = {
        "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            words, env=environ, cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout

    where = run(str(python), "-c", "import icectl; print(icectl.__path__[0])").strip()
    assert Path(where).is_relative_to(prefix)
    assert run("icectl", "--version").startswith(f"icectl {__version__}\n")
    assert "weather" in run("icectl", "demo", "here", "--no-tour", "--json")
    assert "Sound" in run("icectl", "validate", "-r", "here/weather")
    assert (Path(where) / "examples" / "crontab").is_file()
