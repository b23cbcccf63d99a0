"""Runs icectl in this process, or as a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from tests.patience import PATIENCE_SECONDS


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Icectl = Callable[..., Outcome]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a config file of its own and nothing of the developer's."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "ICECTL_CONFIG": str(tmp_path / "config" / "config.toml"),
    }


@pytest.fixture
def icectl(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Icectl:
    def call(*arguments: str, **variables: str) -> Outcome:
        capsys.readouterr()
        code = run(list(arguments), {**environ, **variables})
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def process(environ: dict[str, str]) -> Icectl:
    def call(*arguments: str, **variables: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "icectl.cli.main", *arguments],
            env={**environ, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return call
