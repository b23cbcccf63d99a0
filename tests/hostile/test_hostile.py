"""Every command on every hostile repository: bounded time and memory, and a proper exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.repositories import HOSTILE, HOSTILE_V1
from tests.hostile.running import Measured, require_harmless, run_measured
from tests.official import built
from tests.validate.damage import Patient, build, copied_with_source

COMMANDS = (
    ("validate", "--level", "data", "--decode", "--json"),
    ("gc", "--older-than", "1d", "--dry-run", "--json"),
    ("stats", "--json"),
    ("ls", "--json"),
    ("log", "--json"),
    ("diff", "main~1", "main", "--json"),
)
SOUND = {"largest_config"}
"""As large as it may be, and nothing is wrong with it."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 2)


@pytest.fixture(scope="module")
def whole_v1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 1)


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_spec_version_2(name: str, whole: Path, tmp_path: Path) -> None:
    patient = Patient(copied_with_source(whole, tmp_path / "repo"))
    HOSTILE[name](patient)
    run_all(name, patient.where, tmp_path)


@pytest.mark.parametrize("name", sorted(HOSTILE_V1))
def test_spec_version_1(name: str, whole_v1: Path, tmp_path: Path) -> None:
    patient = Patient(copied_with_source(whole_v1, tmp_path / "repo"))
    HOSTILE_V1[name](patient)
    run_all(name, patient.where, tmp_path)


def run_all(name: str, where: Path, home: Path) -> None:
    for command in COMMANDS:
        done = run(*command, where=where, home=home)
        require_harmless(done, f"{name}: {command[0]}")
        if command[0] == "validate":
            assert done.code == (0 if name in SOUND else 3), (name, done.err)
            assert done.document["ok"] is (name in SOUND)
    newest = max(where.rglob("*"), key=lambda path: (path.is_file(), path.stat().st_ctime_ns))
    done = run("inspect-file", str(newest), "--json", where=where, home=home)
    require_harmless(done, f"{name}: inspect-file {newest.name}")


def run(*arguments: str, where: Path, home: Path) -> Measured:
    return run_measured(
        *arguments, *(() if "inspect-file" in arguments else ("-r", str(where))), home=home
    )
