"""A program on a real pseudo terminal."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tests.patience import ANSWER_SECONDS, PATIENCE_SECONDS


class Terminal:
    """Type with `send`, read with `read_until`; `finish` gives the rest and the exit code."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, columns: int = 80
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            start_new_session=True,
            # Without a controlling terminal Ctrl-C would be a character like any other.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.seen = ""
        self.longest_silence = 0.0
        """Seconds without any output."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    def send(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Everything shown so far, once `text` is in it, however its lines are wrapped."""
        deadline = time.monotonic() + seconds
        while text not in " ".join(self.seen.split()):
            assert self._read(deadline), f"{text!r} did not come: {self.seen!r}"
        return self.seen

    def interrupt(self) -> None:
        """Press Ctrl-C until the program ends, as a person would.

        A signal that arrives just before `input()` waits for a key is handled after that key.
        """
        for _ in range(ANSWER_SECONDS):
            self.send("\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
                return
        raise AssertionError(f"Ctrl-C did not end it: {self.seen!r}")

    def finish(self, seconds: float = PATIENCE_SECONDS) -> tuple[str, int]:
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.seen.replace("\r\n", "\n"), self._process.wait(seconds)

    def _read(self, deadline: float) -> bool:
        """Add what comes next to `seen`; False at the end."""
        began = time.monotonic()
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        self.longest_silence = max(self.longest_silence, time.monotonic() - began)
        assert ready, f"nothing came in time: {self.seen!r}"
        try:
            data = os.read(self._master, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # the other side is closed
                return False
            raise
        self.seen += data.decode(errors="replace")
        return bool(data)
