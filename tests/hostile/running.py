"""Runs icectl as a process of its own, with its time and memory measured and limited."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CPU_SECONDS = 10
RESIDENT_BYTES = 512 * 2**20
WALL_SECONDS = 300
"""Far more than the work needs: a loaded machine says nothing about the code."""
ADDRESS_SPACE = 6 * 2**30
"""Keeps a failing test from taking all memory of the machine."""


@dataclass(frozen=True)
class Measured:
    code: int
    out: str
    err: str
    cpu_seconds: float
    resident_bytes: int

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err.splitlines()[-1])["error"]


def run_measured(*arguments: str, home: Path) -> Measured:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ICECTL_CONFIG": str(home / "config.toml"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # Reservations of address space by idle threads of libraries say nothing.
        "OPENBLAS_NUM_THREADS": "1",
    }
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.NamedTemporaryFile(dir=home) as usage,
    ):
        subprocess.run(
            [sys.executable, __file__, usage.name, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            timeout=WALL_SECONDS,
            check=True,
        )
        code, cpu_seconds, resident_bytes = json.loads(usage.read())
        out.seek(0)
        err.seek(0)
        return Measured(
            code,
            out.read().decode(errors="replace"),
            err.read().decode(errors="replace"),
            cpu_seconds,
            resident_bytes,
        )


def main(usage_file: str, *arguments: str) -> None:
    """Between the tests and icectl: a process counts the memory of the one that it forked from."""
    child = os.fork()
    if not child:
        _limit()
        os.execv(sys.executable, [sys.executable, "-m", "icectl.cli.main", *arguments])
    _, status, usage = os.wait4(child, 0)
    measured = (
        os.waitstatus_to_exitcode(status),
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024,
    )
    Path(usage_file).write_text(json.dumps(measured))


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (2 * CPU_SECONDS, 2 * CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(WALL_SECONDS - 60)  # ends one that only waits, on a pipe for example


def require_harmless(done: Measured, what: str) -> None:
    """Exit codes 0 to 16, and no more time and memory than a hostile file may cost."""
    assert 0 <= done.code <= 16, f"{what}: {done.code}\n{done.err[-2000:]}"
    assert done.resident_bytes <= RESIDENT_BYTES, (what, done.resident_bytes >> 20)
    assert done.cpu_seconds <= CPU_SECONDS, (what, done.cpu_seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
