"""How long a test waits for what must happen.

`PATIENCE_SECONDS` is far longer than it takes: a loaded machine says nothing about the code. A test
that limits how long something may take limits processor time, which does not depend on the load,
or allows as many times longer as the machine is slower now.
"""

from __future__ import annotations

import signal
import subprocess
import time
from typing import Any

PATIENCE_SECONDS = 300
ANSWER_SECONDS = 10


def slowdown() -> float:
    """How many times longer than on an idle machine work takes now; at least 1."""
    wall, processor = time.monotonic(), time.process_time()
    while time.process_time() - processor < 0.2:
        pass
    return max(1.0, (time.monotonic() - wall) / 0.2)


def assert_within(seconds: float, began: float) -> None:
    """`began` is of `time.monotonic()`."""
    taken = time.monotonic() - began
    assert taken < seconds or taken < seconds * slowdown()


def interrupt(running: subprocess.Popen[Any], *, within: float = ANSWER_SECONDS) -> Any:
    """Send Ctrl-C to a process that is at work, and return what it writes; it must end in time."""
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    written = running.communicate(timeout=PATIENCE_SECONDS)
    assert_within(within, began)
    return written
