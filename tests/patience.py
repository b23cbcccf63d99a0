"""How long a test waits for what must happen.

`PATIENCE_SECONDS` is far longer than it takes: a loaded machine says nothing about the code. A test
that limits how long something may take allows as many times longer as the machine is slower now.
That also holds for processor time, in which a virtual machine counts the time that its host takes
from it.
"""

from __future__ import annotations

import signal
import subprocess
import time
from typing import Any

PATIENCE_SECONDS = 300
ANSWER_SECONDS = 10


STEPS, IDLE_SECONDS = 4_000_000, 0.2
"""How long so many steps take on an idle machine of two cores."""


def slowdown() -> float:
    """How many times longer than on an idle machine work takes now; at least 1."""
    began = time.monotonic()
    count = 0
    for step in range(STEPS):
        count += step
    return max(1.0, (time.monotonic() - began) / IDLE_SECONDS)


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
