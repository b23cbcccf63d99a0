"""Runs icectl as a process of its own, with its time and memory measured and limited."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.patience import slowdown

CPU_SECONDS = 10
MOST_CPU_SECONDS = 60
"""Of a slow machine."""
RESIDENT_BYTES = 512 * 2**20
WALL_SECONDS = 300
"""Far more than the work needs: a loaded machine says nothing about the code."""
ADDRESS_SPACE = 6 * 2**30
"""Keeps a failing test from taking all memory of the machine."""


PRELOADED = (
    "icectl.cli.main",
    *(
        f"icectl.cli.commands.{name}"
        for name in ("commits", "diff", "gc", "inspect_file", "validate")
    ),
    *("icectl.ops.gc.run", "icectl.ops.stats.run", "icectl.ops.validate.run"),
    *("icectl.storage.local", "numpy", "zarr"),
)


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
    with tempfile.TemporaryDirectory(dir=home) as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        order = {"arguments": arguments, "home": str(home), "out": str(out), "err": str(err)}
        server = _server()
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        code, cpu_seconds, resident_bytes = json.loads(server.stdout.readline())
        texts = [path.read_bytes().decode(errors="replace") for path in (out, err)]
    return Measured(code, *texts, cpu_seconds, resident_bytes)


@cache
def _server() -> subprocess.Popen[str]:
    """A process that has imported icectl and forks for each command, until this one ends.

    A process counts the memory of the one that it forked from, so it is not this one.
    """
    # Reservations of address space by idle threads of libraries say nothing.
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def serve() -> None:
    for name in PRELOADED:
        import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _run(**order)
        _, status, usage = os.wait4(child, 0)
        measured = (
            os.waitstatus_to_exitcode(status),
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024,
        )
        print(json.dumps(measured), flush=True)


def _run(arguments: list[str], home: str, out: str, err: str) -> NoReturn:
    from icectl.cli.main import main

    _limit()
    for number, name in enumerate((os.devnull, out, err)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(PATH=os.defpath, HOME=home, ICECTL_CONFIG=f"{home}/config.toml")
    sys.argv[1:] = arguments
    try:
        main()
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(WALL_SECONDS - 60)  # ends one that only waits, on a pipe for example


def require_harmless(done: Measured, what: str) -> None:
    """Exit codes 0 to 16, and no more time and memory than a hostile file may cost."""
    assert 0 <= done.code <= 16, f"{what}: {done.code}\n{done.err[-2000:]}"
    assert done.resident_bytes <= RESIDENT_BYTES, (what, done.resident_bytes >> 20)
    limit = CPU_SECONDS if done.cpu_seconds <= CPU_SECONDS else CPU_SECONDS * slowdown()
    assert done.cpu_seconds <= limit, (what, done.cpu_seconds)


if __name__ == "__main__":
    serve()
