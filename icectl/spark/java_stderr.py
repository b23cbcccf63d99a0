"""Filter the warning that Java prints to standard error at every start.

Spark's launcher loads an incubator module, and no option suppresses Java's warning about it: cron
would mail it each night, and under `--json` it would precede the one object of an error.
"""

from __future__ import annotations

import os
import re
from threading import Lock, Thread
from typing import Self

WARNING = b"WARNING: Using incubator modules"
_SECONDARY = ("WARNING", "NOTE: Picked up", "Picked up ")
_THROWN = re.compile(r'Exception in thread "[^"]*" (?:[\w.$]+: )?')
SECONDS_TO_END = 2


class JavaStderr:
    """Within the `with` block, descriptor 2 is a pipe, which a Java started there keeps.

    Output is held back until the end of the block and passed on immediately after it.
    """

    def __enter__(self) -> Self:
        try:
            self._shown = os.dup(2)
        except OSError:
            # It is closed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            self._shown = os.dup(2)
        self._lock = Lock()
        self._held: bytes | None = b""
        self._pipe, end_of_java = os.pipe()
        os.dup2(end_of_java, 2)
        os.close(end_of_java)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        os.dup2(self._shown, 2)
        with self._lock:
            lines = (self._held or b"").splitlines(keepends=True)
            self._held = None
            self._show(b"".join(line for line in lines if WARNING not in line))

    def take_reason(self) -> str | None:
        """The reason that Java printed before it ended; it is not shown again."""
        os.dup2(self._shown, 2)
        # Java had the other end of the pipe; now nobody has it.
        self._reader.join(SECONDS_TO_END)
        with self._lock:
            text = (self._held or b"").decode(errors="replace")
            self._held = b""
        lines = (line.strip() for line in text.splitlines())
        telling = (line for line in lines if line and not line.startswith(_SECONDARY))
        first = next(telling, None)
        return None if first is None else _THROWN.sub("", first)

    def _read(self) -> None:
        while data := os.read(self._pipe, 65536):
            with self._lock:
                if self._held is None:
                    self._show(data)
                else:
                    self._held += data
        os.close(self._pipe)

    def _show(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._shown, data) :]
        except OSError:
            pass  # The reader is gone, and Java must not wait for it.
