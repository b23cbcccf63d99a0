"""The repository that README and the picture show: the demo, written by icectl at a fixed time.

Every id and time of it is the same on every machine, so that output can be compared whole.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

NOW = "2026-03-02T12:00:00Z"
DIRECTORY = "demo-repo"
REPOSITORY = f"{DIRECTORY}/weather"


def environment(home: Path) -> dict[str, str]:
    """A separate home, without the developer's credentials and config file."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "ICECTL_NOW": NOW,
    }


def write_demo(home: Path) -> None:
    subprocess.run(
        ["icectl", "demo", DIRECTORY, "--writer", "icectl", "--no-tour", "--quiet"],
        cwd=home,
        env=environment(home),
        check=True,
        timeout=PATIENCE_SECONDS,
    )
