"""Starting a server process on loopback, waiting until it answers, ending it by its id."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

_given: set[int] = set()


def free_port() -> int:
    """A free port whose number plus 10000 is free too (seaweedfs opens both).

    Neither is in the range from which the system takes the ports of outgoing connections: one
    of those could take it before the server does.
    """
    while True:
        port = random.SystemRandom().randrange(12_000, 22_000)
        if port in _given:
            continue
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 10_000))
            _given.add(port)
            return port


def program(name: str) -> str:
    """The program beside the running interpreter, or on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FileNotFoundError(name)
    return found


@contextlib.contextmanager
def running(command: list[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process while the block runs; then it is killed by its id."""
    log = (directory / "server.log").open("wb")
    process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        log.close()


def wait_for_port(
    process: subprocess.Popen[bytes], port: int, *, timeout: float = PATIENCE_SECONDS
) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


def processes_below(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *processes_below(child)]
    return found
