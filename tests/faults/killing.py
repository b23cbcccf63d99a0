"""Kill a process at every step of a change."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from icectl.repository.config import read_config
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage

PROJECT = Path(__file__).parents[2]
MOST_STEPS = 80


def kill_at_every_step(operation, roots):
    """Which of the roots were used: killed at every step, and on the last one not at all."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.faults.killed", operation, *map(str, roots)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    *killed, last = map(int, result.stdout.split())
    assert set(killed) == {-signal.SIGKILL} and last == 0, result.stderr
    return roots[: len(killed) + 1]


def state_of(root):
    repository = open_repository(LocalStorage(str(root)))
    return (
        dict(repository.branches()),
        dict(repository.tags()),
        repository.deleted_tags(),
        read_config(repository).get("inline_chunk_threshold_bytes"),
    )
